//! Why the reader refused an input, and where.

use std::fmt;

use super::MAX_DEPTH;
use crate::{budget, error::Envelope};

crate::error_codes! {
    /// The reasons for refusing JSON that programs can tell apart.
    pub enum ReadErrorCode {
        /// The text is not JSON.
        Syntax => "JSON_SYNTAX",
        /// The input has more bytes than are read here.
        TooLarge => "JSON_TOO_LARGE",
        /// Lists and objects are nested deeper than is read here.
        TooDeep => "JSON_TOO_DEEP",
        /// A key stands twice in one object.
        DuplicateKey => "JSON_DUPLICATE_KEY",
        /// A number that an IEEE double cannot hold.
        InexactNumber => "JSON_INEXACT_NUMBER",
        /// The bytes or the escapes are not Unicode text.
        InvalidText => "JSON_INVALID_TEXT",
    }
}

/// A refusal of [`read`](super::read): what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}, at {position}")]
pub struct ReadError {
    /// What is wrong.
    pub kind: ReadErrorKind,
    /// The first byte that is wrong.
    pub position: Position,
}

impl ReadError {
    /// The code that programs branch on.
    pub const fn code(&self) -> ReadErrorCode {
        use ReadErrorKind as K;
        match self.kind {
            K::Empty
            | K::ByteOrderMark
            | K::Unexpected { .. }
            | K::Trailing { .. }
            | K::ControlCharacter { .. }
            | K::LeadingZero
            | K::Escape { .. } => ReadErrorCode::Syntax,
            K::TooLarge { .. } => ReadErrorCode::TooLarge,
            K::TooDeep { .. } => ReadErrorCode::TooDeep,
            K::DuplicateKey { .. } => ReadErrorCode::DuplicateKey,
            K::OutOfRange { .. } | K::InexactInteger { .. } => ReadErrorCode::InexactNumber,
            K::InvalidUtf8 { .. } | K::LoneSurrogate { .. } => ReadErrorCode::InvalidText,
        }
    }

    /// The refusal as a caller is told it, with the position among the details.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code(), self.to_string())
            .suggest(self.kind.suggestion())
            .detail("offset", self.position.offset)
            .detail("line", self.position.line)
            .detail("column", self.position.column);
        match &self.kind {
            ReadErrorKind::TooLarge { limit, measured } | ReadErrorKind::TooDeep { limit, measured } => {
                envelope.detail("limit", *limit).detail("measured", *measured)
            }
            ReadErrorKind::DuplicateKey { key } => envelope.detail("key", key.as_str()),
            ReadErrorKind::OutOfRange { literal } | ReadErrorKind::InexactInteger { literal } => {
                envelope.detail("literal", literal.as_str())
            }
            ReadErrorKind::Unexpected { expected, .. } => envelope.detail("expected", *expected),
            ReadErrorKind::Empty
            | ReadErrorKind::ByteOrderMark
            | ReadErrorKind::Trailing { .. }
            | ReadErrorKind::ControlCharacter { .. }
            | ReadErrorKind::LeadingZero
            | ReadErrorKind::Escape { .. }
            | ReadErrorKind::InvalidUtf8 { .. }
            | ReadErrorKind::LoneSurrogate { .. } => envelope,
        }
    }
}

/// What can be wrong with an input.
///
/// Variants may grow; programs branch on [`ReadError::code`]. Text that came from the
/// input is cut to [`MAX_QUOTED_BYTES`](Self::MAX_QUOTED_BYTES).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    /// No value, only white space if anything.
    #[error("the input has no JSON value")]
    Empty,
    /// The input begins with U+FEFF, which RFC 8259 forbids to send.
    #[error("the input begins with a byte order mark")]
    ByteOrderMark,
    /// Another character, or the end, stands where JSON needs something else.
    #[error("expected {expected}, found {}", Found(*found))]
    Unexpected {
        /// What JSON needs here.
        expected: &'static str,
        /// What is here; nothing at the end of the input.
        found: Option<char>,
    },
    /// Something follows the value.
    #[error("the value is complete, but {} follows", Found(Some(*found)))]
    Trailing {
        /// The first character of it.
        found: char,
    },
    /// A string holds a character below U+0020 that is not escaped.
    #[error("a string holds the raw control character U+{:04X}", *found as u32)]
    ControlCharacter {
        /// The character.
        found: char,
    },
    /// A number like `01`.
    #[error("a number has no leading zeros")]
    LeadingZero,
    /// A backslash that begins none of the escapes of JSON.
    #[error("a backslash begins an escape that JSON does not have")]
    Escape {
        /// What follows it; nothing at the end of the input.
        found: Option<char>,
    },
    /// More bytes than [`Limits::max_bytes`](super::Limits::max_bytes).
    #[error("the input has {measured} bytes, and at most {limit} are read")]
    TooLarge {
        /// The most that are read.
        limit: usize,
        /// What the input has.
        measured: usize,
    },
    /// Nested deeper than [`Limits::max_depth`](super::Limits::max_depth).
    #[error("the value is nested {measured} levels deep or deeper, and at most {limit} are read")]
    TooDeep {
        /// The most that are read.
        limit: usize,
        /// How deep the reader was when it stopped.
        measured: usize,
    },
    /// A key stands twice in one object.
    #[error("the key {key:?} stands twice in one object")]
    DuplicateKey {
        /// The key, without escapes, cut if it is long.
        key: String,
    },
    /// A number beyond the greatest double.
    #[error("the number {literal} is beyond the range of a double")]
    OutOfRange {
        /// The number as it was written, cut if it is long.
        literal: String,
    },
    /// An integer that no double holds exactly, where
    /// [`Numbers::Exact`](super::Numbers::Exact) was asked for.
    #[error("the integer {literal} cannot be held exactly by a double")]
    InexactInteger {
        /// The integer as it was written, cut if it is long.
        literal: String,
    },
    /// A byte that is not UTF-8.
    #[error("the byte 0x{byte:02X} is not valid UTF-8 here")]
    InvalidUtf8 {
        /// The byte.
        byte: u8,
    },
    /// An escaped surrogate without its partner.
    #[error("the escape \\u{unit:04x} is half of a surrogate pair")]
    LoneSurrogate {
        /// The UTF-16 code unit.
        unit: u16,
    },
}

impl ReadErrorKind {
    /// The most bytes of the input that a refusal repeats.
    pub const MAX_QUOTED_BYTES: usize = 80;

    /// A part of the input, cut so that it can be repeated.
    pub(super) fn quoted(text: &str) -> String {
        budget::truncate(text, Self::MAX_QUOTED_BYTES).into_owned()
    }

    fn suggestion(&self) -> String {
        match self {
            Self::Empty => "Send one JSON value; an empty object is `{}`.".into(),
            Self::ByteOrderMark => "Send the text as UTF-8 without a byte order mark.".into(),
            Self::Unexpected { found: None, .. } => {
                "The text ends too early: check that it was sent whole, and that every string, list and object is closed."
                    .into()
            }
            Self::Unexpected { .. } => "Correct the JSON text at that position and send it again.".into(),
            Self::Trailing { .. } => {
                "Send exactly one JSON value; put several values into a list.".into()
            }
            Self::ControlCharacter { .. } => {
                "Escape control characters in strings, for example a line end as `\\n`.".into()
            }
            Self::LeadingZero => {
                "Write the number without leading zeros, or as a string if the zeros matter.".into()
            }
            Self::Escape { .. } => {
                "Use one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, and write a plain backslash as `\\\\`.".into()
            }
            Self::TooLarge { limit, .. } => {
                format!("Send at most {limit} bytes: leave out what is not needed, or split the input.")
            }
            Self::TooDeep { limit, .. } if *limit == MAX_DEPTH => {
                format!("Flatten the value to at most {limit} levels of lists and objects; no setting allows more.")
            }
            Self::TooDeep { limit, .. } => {
                format!("Flatten the value to at most {limit} levels of lists and objects.")
            }
            Self::DuplicateKey { .. } => {
                "Keep one of the two members; readers disagree on which of them counts.".into()
            }
            Self::OutOfRange { .. } => {
                "Send a number of magnitude below 1.8e308, or send it as a string.".into()
            }
            Self::InexactInteger { .. } => {
                "Send the integer as a string, or one within ±9007199254740992.".into()
            }
            Self::InvalidUtf8 { .. } => "Encode the text as UTF-8; carry binary data as base64.".into(),
            Self::LoneSurrogate { .. } => {
                "Escape a character beyond U+FFFF as both halves of its surrogate pair, or send it unescaped.".into()
            }
        }
    }
}

/// A place in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// Its line, from 1. A line ends with U+000A.
    pub line: usize,
    /// Its column, from 1, counted in characters.
    pub column: usize,
}

impl Position {
    /// The position of the byte at `offset`, found by looking at everything before it:
    /// a refused input pays for this once, an accepted one never.
    pub(super) fn of(bytes: &[u8], offset: usize) -> Self {
        let before = &bytes[..offset.min(bytes.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // Counting the bytes that begin a character also works where the text is not UTF-8.
        let begins_character = |byte: &&u8| **byte & 0xC0 != 0x80;
        Self {
            offset,
            line: before[..line_start].iter().filter(|byte| **byte == b'\n').count() + 1,
            column: before[line_start..].iter().filter(begins_character).count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {} (byte {})", self.line, self.column, self.offset)
    }
}

/// What stands at a position, in words.
struct Found(Option<char>);

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => formatter.write_str("the end of the input"),
            Some(character) if character.is_control() => write!(formatter, "U+{:04X}", u32::from(character)),
            Some(character) => write!(formatter, "`{character}`"),
        }
    }
}
