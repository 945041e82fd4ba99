//! Channels: named values with a reducer, which combines the writes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Channel {
    /// How a write is combined with the current value.
    pub reducer: Reducer,
    /// The value before the first write.
    pub default: Option<Value>,
    /// The maximum number of entries.
    pub max_size: Option<u64>,
    /// The lifetime of an entry, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The schema version that is recorded with writes.
    pub schema_version: u64,
    /// Older schema versions whose writes can still be read.
    pub compatible_with: Vec<u64>,
    pub schema: Option<std::sync::Arc<jsonschema::Validator>>,
    /// The nodes that may read; `None` means all.
    pub readers: Option<Vec<String>>,
    /// The nodes that may write; `None` means all.
    pub writers: Option<Vec<String>>,
    /// Whether the value is hidden from readers of the run.
    pub sensitive: bool,
}

/// How a write is combined with the current value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// The write replaces the value.
    Replace,
    /// The write is appended.
    Append,
    /// The members of the write replace members of the same name.
    Merge,
    /// The write is added to a number.
    Counter,
    /// The write replaces an earlier write of the same voter.
    Votes,
    /// The write is appended with an iteration number and a time.
    Feedback,
    /// The write is appended, unless an entry with its id exists.
    Message,
    /// A reducer of a vendor; treated like [`Reducer::Replace`].
    Vendor(String),
}

/// The valid names of reducers.
pub const REDUCER_PATTERN: &str =
    r"^(replace|append|merge|counter|votes|feedback|message|vendor\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*)$";

impl Reducer {
    /// Parses the name of a reducer.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "replace" => Self::Replace,
            "append" => Self::Append,
            "merge" => Self::Merge,
            "counter" => Self::Counter,
            "votes" => Self::Votes,
            "feedback" => Self::Feedback,
            "message" => Self::Message,
            vendor => {
                let mut parts = vendor.strip_prefix("vendor.")?.split('.');
                let is_name = |part: &str| {
                    part.starts_with(|c: char| c.is_ascii_lowercase())
                        && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
                };
                match (parts.next(), parts.next(), parts.next()) {
                    (Some(organisation), Some(name), None) if is_name(organisation) && is_name(name) => {
                        Self::Vendor(vendor.to_owned())
                    }
                    _ => return None,
                }
            }
        })
    }

    /// The spelling on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Merge => "merge",
            Self::Counter => "counter",
            Self::Votes => "votes",
            Self::Feedback => "feedback",
            Self::Message => "message",
            Self::Vendor(name) => name,
        }
    }

    /// Whether entries expire.
    pub const fn ages(&self) -> bool {
        matches!(self, Self::Append | Self::Votes | Self::Feedback)
    }
}

impl Serialize for Reducer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reducer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("unknown reducer"))
    }
}
