//! What a module was told, in order.

use canon::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answers that one invocation got from the host.
///
/// An invocation that is given a journal takes its answers from there first, without asking the host, and must ask for the
/// same things in the same order. Randomness is not in it: the [`Seed`](crate::Seed) gives it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Journal {
    /// The answers, oldest first.
    pub records: Vec<Record>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The call, as it is named in the imports of the module.
    pub call: String,
    /// The digest of what was asked.
    pub request: Digest,
    /// What was answered.
    pub answer: Answer,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// Nothing: there is no such value, or it was refused.
    Nothing,
    /// A value.
    Value(Value),
    /// The number of a [`Status`](crate::Status).
    Status(i32),
    /// A time.
    Millis(i64),
}

impl Answer {
    /// Roughly what it takes to keep this.
    pub(crate) fn weight(&self) -> usize {
        /// A record without a value: its name, its digest, and what is around them.
        const RECORD: usize = 160;
        match self {
            Self::Nothing | Self::Status(_) | Self::Millis(_) => RECORD,
            Self::Value(value) => RECORD + serde_json::to_vec(value).map_or(0, |text| text.len()),
        }
    }
}

impl Journal {
    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing was ever asked.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}
