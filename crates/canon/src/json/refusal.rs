//! Reader errors and their positions.

use std::fmt;

use super::MAX_DEPTH;
use crate::{budget, error::Envelope};

crate::error_codes! {
    /// Reader error codes.
    pub enum ReadErrorCode {
        /// The text is not valid JSON.
        Syntax => "JSON_SYNTAX",
        TooLarge => "JSON_TOO_LARGE",
        TooDeep => "JSON_TOO_DEEP",
        DuplicateKey => "JSON_DUPLICATE_KEY",
        /// A number that a double cannot represent.
        InexactNumber => "JSON_INEXACT_NUMBER",
        /// The bytes or escapes are not valid Unicode.
        InvalidText => "JSON_INVALID_TEXT",
    }
}

/// An error of [`read`](super::read) with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}, at {position}")]
pub struct ReadError {
    pub kind: ReadErrorKind,
    /// The first invalid byte.
    pub position: Position,
}

impl ReadError {
    /// The code for programs.
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

    /// The error envelope, with the position in the details.
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

/// A reader error.
///
/// Variants may be added; programs use [`ReadError::code`]. Quoted input is truncated to
/// [`MAX_QUOTED_BYTES`](Self::MAX_QUOTED_BYTES).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    #[error("the input contains no JSON value")]
    Empty,
    /// The input starts with U+FEFF, which RFC 8259 forbids.
    #[error("the input starts with a byte order mark")]
    ByteOrderMark,
    /// An unexpected character, or the end of the input.
    #[error("expected {expected}, found {}", DescribedCharacter(*found))]
    Unexpected {
        expected: &'static str,
        /// `None` at the end of the input.
        found: Option<char>,
    },
    #[error("unexpected {} after the JSON value", DescribedCharacter(Some(*found)))]
    Trailing {
        /// Its first character.
        found: char,
    },
    /// An unescaped character below U+0020 in a string.
    #[error("a string contains the unescaped control character U+{:04X}", *found as u32)]
    ControlCharacter { found: char },
    /// A number like `01`.
    #[error("a number must not have leading zeros")]
    LeadingZero,
    /// An unknown escape.
    #[error("invalid escape after a backslash")]
    Escape {
        /// The next character; `None` at the end of the input.
        found: Option<char>,
    },
    /// More bytes than [`Limits::max_bytes`](super::Limits::max_bytes).
    #[error("the input is {measured} bytes; the limit is {limit}")]
    TooLarge { limit: usize, measured: usize },
    /// Deeper than [`Limits::max_depth`](super::Limits::max_depth).
    #[error("the nesting depth is at least {measured}; the limit is {limit}")]
    TooDeep {
        limit: usize,
        /// The depth at which the reader stopped.
        measured: usize,
    },
    #[error("duplicate key {key:?} in an object")]
    DuplicateKey {
        /// The unescaped key, truncated if long.
        key: String,
    },
    /// A number beyond the largest double.
    #[error("the number {literal} is beyond the range of a double")]
    OutOfRange {
        /// The literal, truncated if long.
        literal: String,
    },
    /// An integer that a double cannot represent, with [`Numbers::Exact`](super::Numbers::Exact).
    #[error("the integer {literal} cannot be represented exactly as a double")]
    InexactInteger {
        /// The literal, truncated if long.
        literal: String,
    },
    #[error("invalid UTF-8 byte 0x{byte:02X}")]
    InvalidUtf8 { byte: u8 },
    #[error("the escape \\u{unit:04x} is half of a surrogate pair")]
    LoneSurrogate { unit: u16 },
}

impl ReadErrorKind {
    /// The maximum length of quoted input, in bytes.
    pub const MAX_QUOTED_BYTES: usize = 80;

    /// Truncates quoted input.
    pub(super) fn quoted(text: &str) -> String {
        budget::truncate(text, Self::MAX_QUOTED_BYTES).into_owned()
    }

    fn suggestion(&self) -> String {
        match self {
            Self::Empty => "Send one JSON value; an empty object is `{}`.".into(),
            Self::ByteOrderMark => "Send the text as UTF-8 without a byte order mark.".into(),
            Self::Unexpected { found: None, .. } => {
                "The text ends too early: check that it was sent completely, and that every string, list \
                    and object is closed."
                    .into()
            }
            Self::Unexpected { .. } => "Fix the JSON text at that position and send it again.".into(),
            Self::Trailing { .. } => "Send exactly one JSON value; put several values into a list.".into(),
            Self::ControlCharacter { .. } => {
                "Escape control characters in strings, for example a line break as `\\n`.".into()
            }
            Self::LeadingZero => {
                "Write the number without leading zeros, or as a string if the zeros matter.".into()
            }
            Self::Escape { .. } => {
                "Use one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX, and write a literal backslash as \
                    `\\\\`."
                    .into()
            }
            Self::TooLarge { limit, .. } => {
                format!("Send at most {limit} bytes: remove unneeded content, or split the input.")
            }
            Self::TooDeep { limit, .. } if *limit == MAX_DEPTH => {
                format!(
                    "Flatten the value to at most {limit} levels of lists and objects; this limit \
                    cannot be raised."
                )
            }
            Self::TooDeep { limit, .. } => {
                format!("Flatten the value to at most {limit} levels of lists and objects.")
            }
            Self::DuplicateKey { .. } => {
                "Remove one of the two members; parsers disagree on which one to use.".into()
            }
            Self::OutOfRange { .. } => {
                "Send a number with a magnitude below 1.8e308, or send it as a string.".into()
            }
            Self::InexactInteger { .. } => {
                "Send the integer as a string, or use one within ±9007199254740992.".into()
            }
            Self::InvalidUtf8 { .. } => "Encode the text as UTF-8; encode binary data as base64.".into(),
            Self::LoneSurrogate { .. } => {
                "Escape a character above U+FFFF as both halves of its surrogate pair, or send it \
                    unescaped."
                    .into()
            }
        }
    }
}

/// A position in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The byte offset.
    pub offset: usize,
    /// The one-based line. A line ends with U+000A.
    pub line: usize,
    /// The one-based column, in characters.
    pub column: usize,
}

impl Position {
    /// The position of the byte at `offset`, computed from all bytes before it. Only errors pay for this.
    pub(super) fn of(bytes: &[u8], offset: usize) -> Self {
        let before = &bytes[..offset.min(bytes.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // Counting bytes that start a character also works for invalid UTF-8.
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

struct DescribedCharacter(Option<char>);

impl fmt::Display for DescribedCharacter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => formatter.write_str("the end of the input"),
            Some(character) if character.is_control() => write!(formatter, "U+{:04X}", u32::from(character)),
            Some(character) => write!(formatter, "`{character}`"),
        }
    }
}
