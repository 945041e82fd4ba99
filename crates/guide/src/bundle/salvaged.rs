//! What is said of a session that is only a part.

use canon::budget::truncate;
use serde::{Deserialize, Serialize};

use super::{BUNDLE_TEXT_BYTES, BundleError};
use crate::record::SessionId;

/// The most bytes of [`Salvaged::problem`]: a sentence or two.
pub const SALVAGED_PROBLEM_BYTES: usize = 1024;

/// Says that a session is only the sound beginning of another one, which was damaged behind it.
///
/// Partial data is never passed on in silence: this goes with the bundle, and stays with the session
/// that an import makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Salvaged {
    /// The session that was damaged.
    pub session_id: SessionId,
    /// What was wrong with it: a code of the store or of the fold.
    pub reason: String,
    /// The same in words.
    pub problem: String,
}

impl Salvaged {
    /// Says why only a part of a session is there, within the bounds of a bundle.
    pub fn new(session_id: SessionId, reason: &str, problem: &str) -> Self {
        Self {
            session_id,
            reason: truncate(reason, BUNDLE_TEXT_BYTES).into_owned(),
            problem: truncate(problem, SALVAGED_PROBLEM_BYTES).into_owned(),
        }
    }

    /// Whether its texts are within their bounds.
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
