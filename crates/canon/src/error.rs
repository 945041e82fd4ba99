//! The common error envelope.
//!
//! Every error has the same five parts: a code for programs, a message for people, a suggestion what to do next, a
//! retry hint, and bounded details. [`Envelope`] holds them; [`render`] writes them in the format of a particular
//! protocol.
//!
//! Codes are closed lists. [`error_codes!`](crate::error_codes) declares an enum, and an envelope can only be built
//! from a member of such an enum, so an undocumented code cannot reach a caller.
//!
//! ```
//! use canon::error::{Envelope, Retry};
//!
//! canon::error_codes! {
//!     /// Why a token is rejected.
//!     pub enum TokenErrorCode {
//!         /// Another process is advancing the session.
//!         SessionLocked => "TOKEN_SESSION_LOCKED",
//!     }
//! }
//!
//! let envelope = Envelope::new(TokenErrorCode::SessionLocked, "The session is busy.")
//!     .suggest("Wait a moment and retry this call.")
//!     .retry(Retry::AfterMs(250))
//!     .detail("holder", "process 17");
//! assert_eq!(
//!     serde_json::to_string(&envelope)?,
//!     concat!(
//!         r#"{"code":"TOKEN_SESSION_LOCKED","message":"The session is busy.","#,
//!         r#""suggestion":"Wait a moment and retry this call.","#,
//!         r#""retry":{"kind":"retryable_after_ms","afterMs":250},"details":{"holder":"process 17"}}"#
//!     )
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

mod codes;
pub mod render;

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use serde_json::{Map, Value};

pub use self::codes::ErrorCode;
use crate::{budget, canonical, json};

/// The maximum size of a message, in bytes; longer ones are truncated with the marker.
pub const MAX_MESSAGE_BYTES: usize = 2048;
/// The maximum size of a suggestion, in bytes; longer ones are truncated with the marker.
pub const MAX_SUGGESTION_BYTES: usize = 2048;
/// The maximum number of details, not counting [`DETAILS_TRUNCATED`].
pub const MAX_DETAILS: usize = 32;
/// The maximum canonical size of the details, in bytes, including [`DETAILS_TRUNCATED`].
pub const MAX_DETAILS_BYTES: usize = 8192;
/// The maximum nesting depth of a detail. Errors do not return documents, and every [format](render) stays within
/// [`json::MAX_DEPTH`].
pub const MAX_DETAIL_DEPTH: usize = 32;
/// A detail, always `true`, that says others were dropped.
pub const DETAILS_TRUNCATED: &str = "detailsTruncated";

/// An error for programs and people. Serialized as `{code, message, suggestion, retry: {kind, afterMs?}, details?}`.
///
/// # Bounds An envelope may become a log line or part of a model's context, so its size is limited. Message and suggestion are [truncated](budget::truncate) at 2 KiB. Details keep the first 32 members that fit in 8 KiB of canonical bytes and have at most 32 levels; a member that does not fit is left out, and `detailsTruncated: true` reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    code: &'static str,
    message: String,
    suggestion: String,
    retry: Retry,
    details: Map<String, Value>,
    /// The canonical size of `details`, including separators.
    details_bytes: usize,
}

impl Envelope {
    /// An envelope without suggestion, retry and details.
    pub fn new(code: impl ErrorCode, message: impl AsRef<str>) -> Self {
        Self {
            code: code.as_str(),
            message: budget::truncate(message.as_ref(), MAX_MESSAGE_BYTES).into_owned(),
            suggestion: String::new(),
            retry: Retry::NotRetryable,
            details: Map::new(),
            details_bytes: 0,
        }
    }

    /// Sets what to do next, as an instruction.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl AsRef<str>) -> Self {
        self.suggestion = budget::truncate(suggestion.as_ref(), MAX_SUGGESTION_BYTES).into_owned();
        self
    }

    /// Sets whether the same call can succeed later.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds or replaces a detail.
    ///
    /// A value over the [bounds](Envelope#bounds) is left out, together with the one it would replace. The name
    /// [`DETAILS_TRUNCATED`] is reserved: using it sets the mark.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let (key, value) = (key.into(), value.into());
        if key != DETAILS_TRUNCATED {
            if let Some(before) = self.details.remove(&key) {
                self.details_bytes -= member_bytes(&key, &before);
            }
            if self.members() < MAX_DETAILS && json::within_depth(&value, MAX_DETAIL_DEPTH) {
                let details_bytes = self.details_bytes + member_bytes(&key, &value);
                if details_bytes <= DETAILS_ROOM {
                    self.details_bytes = details_bytes;
                    self.details.insert(key, value);
                    return self;
                }
            }
        }
        self.details.insert(DETAILS_TRUNCATED.to_owned(), Value::Bool(true));
        self
    }

    /// The code. To branch on it, use [`Envelope::has_code`] or [`Envelope::code_in`].
    pub fn code(&self) -> &'static str {
        self.code
    }

    pub fn has_code(&self, code: impl ErrorCode) -> bool {
        self.code == code.as_str()
    }

    /// The code as a member of a list; `None` if it belongs to another list.
    pub fn code_in<C: ErrorCode>(&self) -> Option<C> {
        C::ALL.iter().copied().find(|code| self.has_code(*code))
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next; may be empty.
    pub fn suggestion(&self) -> &str {
        &self.suggestion
    }

    /// Whether the same call can succeed later.
    pub fn retry_hint(&self) -> Retry {
        self.retry
    }

    /// The details; may be empty.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    fn members(&self) -> usize {
        self.details.len() - usize::from(self.details.contains_key(DETAILS_TRUNCATED))
    }
}

/// The space for members with commas: [`MAX_DETAILS_BYTES`] without the braces and the mark `"detailsTruncated":true`,
/// which is always reserved so that it fits when needed.
const DETAILS_ROOM: usize = MAX_DETAILS_BYTES - "{}".len() - "\"\":true".len() - DETAILS_TRUNCATED.len();

/// The canonical size of a member with its colon and a comma.
fn member_bytes(key: &str, value: &Value) -> usize {
    let key = canonical::string_of(&Value::String(key.to_owned()));
    key.len() + canonical::string_of(value).len() + ":,".len()
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = if self.details.is_empty() { 4 } else { 5 };
        let mut object = serializer.serialize_struct("Envelope", members)?;
        object.serialize_field("code", self.code)?;
        object.serialize_field("message", &self.message)?;
        object.serialize_field("suggestion", &self.suggestion)?;
        object.serialize_field("retry", &self.retry)?;
        if self.details.is_empty() {
            object.skip_field("details")?;
        } else {
            object.serialize_field("details", &self.details)?;
        }
        object.end()
    }
}

/// The code and the message, then the suggestion on its own line.
///
/// ```text
/// error[JSON_SYNTAX]: expected a value, found `]`, at line 1, column 7 (byte 6)
///   help: Fix the JSON text at that position and send it again.
/// ```
impl fmt::Display for Envelope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "error[{}]: {}", self.code, self.message)?;
        if !self.suggestion.is_empty() {
            write!(formatter, "\n  help: {}", self.suggestion)?;
        }
        match self.retry {
            Retry::NotRetryable => Ok(()),
            Retry::Immediate => formatter.write_str("\n  retry: now"),
            Retry::AfterMs(milliseconds) => write!(formatter, "\n  retry: after {milliseconds} ms"),
        }
    }
}

impl std::error::Error for Envelope {}

/// Whether the same call can succeed when it is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// It fails again until something else changes.
    #[default]
    NotRetryable,
    /// It may succeed immediately.
    Immediate,
    /// It may succeed after this many milliseconds.
    AfterMs(u64),
}

impl Retry {
    /// The wire name.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::NotRetryable => "not_retryable",
            Self::Immediate => "retryable_immediate",
            Self::AfterMs(_) => "retryable_after_ms",
        }
    }

    pub const fn is_retryable(self) -> bool {
        match self {
            Self::NotRetryable => false,
            Self::Immediate | Self::AfterMs(_) => true,
        }
    }

    /// The wait before a retry, if known.
    pub const fn after_ms(self) -> Option<u64> {
        match self {
            Self::NotRetryable | Self::Immediate => None,
            Self::AfterMs(milliseconds) => Some(milliseconds),
        }
    }
}

impl Serialize for Retry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Retry", 1 + usize::from(self.after_ms().is_some()))?;
        object.serialize_field("kind", self.kind())?;
        match self.after_ms() {
            Some(milliseconds) => object.serialize_field("afterMs", &milliseconds)?,
            None => object.skip_field("afterMs")?,
        }
        object.end()
    }
}
