//! The one error envelope.
//!
//! Whatever goes wrong, a caller is told the same five things: a code a program can
//! branch on, a message a person can read, a suggestion of what to do next, whether
//! trying again can help, and a few bounded details. [`Envelope`] is that answer;
//! [`render`] writes it in the shapes that particular protocols ask for.
//!
//! Codes are closed. [`error_codes!`](crate::error_codes) makes an enum of them, and an
//! envelope is only ever built from a member of such an enum, so a code that nobody
//! documented cannot reach a caller.
//!
//! ```
//! use canon::error::{Envelope, Retry};
//!
//! canon::error_codes! {
//!     /// Why a token is refused.
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

/// The most bytes of a message; a longer one is cut with the truncation marker.
pub const MAX_MESSAGE_BYTES: usize = 2048;
/// The most bytes of a suggestion; a longer one is cut with the truncation marker.
pub const MAX_SUGGESTION_BYTES: usize = 2048;
/// The most members of the details, [`DETAILS_TRUNCATED`] not counted.
pub const MAX_DETAILS: usize = 32;
/// The most canonical bytes of the details, [`DETAILS_TRUNCATED`] counted.
pub const MAX_DETAILS_BYTES: usize = 8192;
/// The deepest nesting of one member of the details. An error is not the place to send
/// a document back, and every [shape](render) stays well within [`json::MAX_DEPTH`].
pub const MAX_DETAIL_DEPTH: usize = 32;
/// The member, always `true`, that says other members were dropped.
pub const DETAILS_TRUNCATED: &str = "detailsTruncated";

/// What went wrong, for programs and for people. It serialises as
/// `{code, message, suggestion, retry: {kind, afterMs?}, details?}`.
///
/// # Bounds
/// An envelope may end up in a log line or a model's context, so it has a greatest size
/// whatever was put in. Message and suggestion are [cut](budget::truncate) at 2 KiB. Details
/// keep the first 32 members that fit in 8 KiB of canonical bytes and are not nested
/// deeper than 32 levels; a member that does not fit is left out whole, because half a value would be read as a whole
/// one, and `detailsTruncated: true` says that it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    code: &'static str,
    message: String,
    suggestion: String,
    retry: Retry,
    details: Map<String, Value>,
    /// Canonical bytes of the members in `details`, separators included.
    details_bytes: usize,
}

impl Envelope {
    /// An envelope that says only what happened: no suggestion, not retryable, no details.
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

    /// Says what to do next, in a sentence that can be followed.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl AsRef<str>) -> Self {
        self.suggestion = budget::truncate(suggestion.as_ref(), MAX_SUGGESTION_BYTES).into_owned();
        self
    }

    /// Says whether the same call can succeed later.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds a member to the details, or replaces the one of that name.
    ///
    /// A member over the [bounds](Envelope#bounds) is left out, and the one it would have
    /// replaced with it. The name [`DETAILS_TRUNCATED`] is taken: giving it sets the mark.
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

    /// The code, one of a closed list. To branch on it, use [`Envelope::has_code`] or [`Envelope::code_in`].
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Whether this is its code.
    pub fn has_code(&self, code: impl ErrorCode) -> bool {
        self.code == code.as_str()
    }

    /// The code as a member of a closed list; nothing where it is of another list.
    pub fn code_in<C: ErrorCode>(&self) -> Option<C> {
        C::ALL.iter().copied().find(|code| self.has_code(*code))
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next; empty when there is nothing to say.
    pub fn suggestion(&self) -> &str {
        &self.suggestion
    }

    /// Whether the same call can succeed later.
    pub fn retry_hint(&self) -> Retry {
        self.retry
    }

    /// The details; empty when there are none.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    fn members(&self) -> usize {
        self.details.len() - usize::from(self.details.contains_key(DETAILS_TRUNCATED))
    }
}

/// What is left of [`MAX_DETAILS_BYTES`] for members, each with a comma, once the braces
/// and the mark `"detailsTruncated":true` are paid for. They are always paid for, so that the mark
/// fits when it is needed.
const DETAILS_ROOM: usize = MAX_DETAILS_BYTES - "{}".len() - "\"\":true".len() - DETAILS_TRUNCATED.len();

/// The canonical bytes of one member, with its colon and one comma.
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

/// For people: the code and the message, then the help on a line of its own.
///
/// ```text
/// error[JSON_SYNTAX]: expected a value, found `]`, at line 1, column 7 (byte 6)
///   help: Correct the JSON text at that position and send it again.
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

/// Whether the call that failed can succeed when it is made again, unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// It fails again until something else changes.
    #[default]
    NotRetryable,
    /// It may succeed at once.
    Immediate,
    /// It may succeed after this many milliseconds.
    AfterMs(u64),
}

impl Retry {
    /// The name of the kind, as it is sent.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::NotRetryable => "not_retryable",
            Self::Immediate => "retryable_immediate",
            Self::AfterMs(_) => "retryable_after_ms",
        }
    }

    /// Whether trying again can help at all.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::NotRetryable => false,
            Self::Immediate | Self::AfterMs(_) => true,
        }
    }

    /// How long to wait first, where a wait is known.
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
