//! Channels: named values with a way to combine what is written to them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// A declared channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// How a write is combined with what is there.
    pub reducer: Reducer,
    /// What is there before the first write.
    pub default: Option<Value>,
    /// How many entries are kept.
    pub max_size: Option<u64>,
    /// How long an entry is kept, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The version of the schema that writes are recorded with.
    pub schema_version: u64,
    /// Older versions whose writes are still read.
    pub compatible_with: Vec<u64>,
    /// What a write has to be.
    pub schema: Option<std::sync::Arc<jsonschema::Validator>>,
    /// Who may read; nothing for everybody.
    pub readers: Option<Vec<String>>,
    /// Who may write; nothing for everybody.
    pub writers: Option<Vec<String>>,
    /// Whether its value is hidden from readers of the run.
    pub sensitive: bool,
}

/// How a write is combined with what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reducer {
    /// The write takes its place.
    Replace,
    /// The write is added at the end.
    Append,
    /// The members of the write take the place of those of the same name.
    Merge,
    /// The write is added as a number.
    Counter,
    /// The write takes the place of an earlier one of the same voter.
    Votes,
    /// The write is added at the end, with a number and a time.
    Feedback,
    /// The write is added at the end unless one of its id is there.
    Message,
    /// A vendor's own; folds as [`Reducer::Replace`].
    Vendor(String),
}

/// The spellings of reducers.
pub const REDUCER_PATTERN: &str =
    r"^(replace|append|merge|counter|votes|feedback|message|vendor\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*)$";

impl Reducer {
    /// The reducer of that spelling.
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

    /// Whether entries age.
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
        Self::parse(&text).ok_or_else(|| de::Error::custom("not a reducer"))
    }
}
