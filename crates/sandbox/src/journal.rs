//! The journal of host call results.

use canon::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The host call results of one invocation.
///
/// An invocation with a journal first takes its results from there, without calling the host, and must make the same
/// calls in the same order. Random bytes are not recorded: the [`Seed`](crate::Seed) reproduces them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Journal {
    /// The results, oldest first.
    pub records: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The import name of the call.
    pub call: String,
    /// The digest of the arguments.
    pub request: Digest,
    pub answer: HostCallResult,
}

/// The result of a host call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostCallResult {
    /// No value, or refused.
    Nothing,
    Value(Value),
    /// A [`Status`](crate::Status) number.
    Status(i32),
    /// A time.
    Millis(i64),
}

impl HostCallResult {
    /// The approximate storage size.
    pub(crate) fn weight(&self) -> usize {
        /// The size of a record without a value: name, digest and overhead.
        const RECORD: usize = 160;
        match self {
            Self::Nothing | Self::Status(_) | Self::Millis(_) => RECORD,
            Self::Value(value) => RECORD + serde_json::to_vec(value).map_or(0, |text| text.len()),
        }
    }
}

impl Journal {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}
