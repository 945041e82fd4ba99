//! The mark of a session that is only a part of another one.

use canon::budget::truncate;
use serde::{Deserialize, Serialize};

use super::{BUNDLE_TEXT_BYTES, BundleError};
use crate::record::SessionId;

/// The maximum length of [`Salvaged::problem`], in bytes: a sentence or two.
pub const SALVAGED_PROBLEM_BYTES: usize = 1024;

/// Says that a session is only the intact beginning of another one, which was damaged after it.
///
/// Partial data is never passed on silently: this mark is part of the bundle and stays with the imported
/// session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Salvaged {
    /// The damaged session.
    pub session_id: SessionId,
    /// The error code of the store or the state.
    pub reason: String,
    pub problem: String,
}

impl Salvaged {
    /// Truncates the strings to the limits of a bundle.
    pub fn new(session_id: SessionId, reason: &str, problem: &str) -> Self {
        Self {
            session_id,
            reason: truncate(reason, BUNDLE_TEXT_BYTES).into_owned(),
            problem: truncate(problem, SALVAGED_PROBLEM_BYTES).into_owned(),
        }
    }

    /// Checks the lengths of the strings.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`].
    pub fn check(&self) -> Result<(), BundleError> {
        for (what, measured, maximum) in [
            ("bytes in `salvaged/reason`", self.reason.len(), BUNDLE_TEXT_BYTES),
            ("bytes in `salvaged/problem`", self.problem.len(), SALVAGED_PROBLEM_BYTES),
        ] {
            if measured > maximum {
                return Err(BundleError::TooLarge { what, measured, maximum });
            }
        }
        Ok(())
    }
}
