//! A strict reader for JSON that came from outside.
//!
//! `serde_json` reads JSON well, but three things this system relies on are invisible
//! once it has made a [`Value`]: that a key stood twice in an object, that an integer was
//! rounded on the way to a double, and which limit an input broke, where, by how much.
//! Each of them would let two programs see different documents in the same bytes.
//! [`read`] is therefore a parser of its own. It keeps its stack on the heap, so no
//! input can overflow the thread's, and it gives the same [`Value`] as `serde_json` for every
//! text that both accept.
//!
//! Refused are: no value at all, text that is not JSON, anything behind the value, a
//! byte order mark, a key twice in one object (after its escapes are read), bytes that are not UTF-8, an
//! escaped surrogate without its partner, a raw control character in a string, a
//! number no double can hold, nesting or size beyond the [`Limits`], and, with
//! [`Numbers::Exact`], an integer that a double would round. Every [refusal](ReadError)
//! names its position.
//!
//! ```
//! use canon::json::{self, Limits, ReadErrorCode};
//!
//! let value = json::read(br#"{"id": 1, "tags": ["a"]}"#, &Limits::default())?;
//! assert_eq!(value["tags"][0], "a");
//!
//! let refused = json::read(b"[1,\n 02]", &Limits::default()).unwrap_err();
//! assert_eq!(refused.code(), ReadErrorCode::Syntax);
//! assert_eq!(refused.to_string(), "a number has no leading zeros, at line 2, column 2 (byte 5)");
//! # Ok::<(), canon::json::ReadError>(())
//! ```

mod depth;
mod parser;
mod refusal;

use serde_json::Value;

pub use self::{
    depth::{depth_of, within_depth},
    refusal::{Position, ReadError, ReadErrorCode, ReadErrorKind},
};

/// The deepest nesting any reader or writer of this crate goes through.
///
/// A [`Value`] is dropped, cloned, compared and serialised by recursion. At 128 levels
/// that takes a few dozen kilobytes of stack; without a limit a megabyte of `[` would
/// end the process. (`serde_json`'s own reader stops one level earlier, at 127.)
pub const MAX_DEPTH: usize = 128;

/// Reads one JSON value that fills `bytes`, white space around it allowed.
///
/// # Errors
/// Anything on the list [above](self); the first one met, from left to right, except that the
/// size and the encoding of the whole input are looked at before its content, and that a
/// key that stands twice is noticed when its second value is complete.
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Value, ReadError> {
    parser::parse(bytes, limits)
        .map_err(|(kind, offset)| ReadError { kind, position: Position::of(bytes, offset) })
}

/// What [`read`] accepts.
///
/// ```
/// use canon::json::{Limits, Numbers};
///
/// const CONTEXT: Limits = Limits::DEFAULT.max_bytes(262_144).max_depth(64).numbers(Numbers::Exact);
/// assert_eq!(CONTEXT.max_depth, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest input, in bytes.
    pub max_bytes: usize,
    /// The deepest nesting: `1` is `[1]`, `0` is a bare number or text. [`read`] treats
    /// more than [`MAX_DEPTH`] as [`MAX_DEPTH`].
    pub max_depth: usize,
    /// Which numbers are accepted.
    pub numbers: Numbers,
}

impl Limits {
    /// 64 MiB, [`MAX_DEPTH`] levels, [`Numbers::Any`].
    pub const DEFAULT: Self = Self { max_bytes: 64 << 20, max_depth: MAX_DEPTH, numbers: Numbers::Any };

    /// The same limits with another longest input.
    #[must_use]
    pub const fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The same limits with another deepest nesting.
    #[must_use]
    pub const fn max_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = max_depth;
        self
    }

    /// The same limits with another choice of numbers.
    #[must_use]
    pub const fn numbers(mut self, numbers: Numbers) -> Self {
        self.numbers = numbers;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which numbers [`read`] accepts.
///
/// JSON puts no bound on a number; RFC 8785 knows only IEEE doubles. In both modes a
/// number beyond the range of a double is refused, and a fraction is rounded
/// to the nearest double: whoever writes `0.1` expects that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Integers keep their 64 bits when they fit in an `i64` or `u64`, and become the nearest
    /// double beyond that, as with `serde_json`.
    #[default]
    Any,
    /// As [`Any`](Self::Any), but an integer literal (digits only, no fraction, no exponent) must be a
    /// number that a double holds exactly. For input that will be hashed:
    /// `9007199254740993` would get the digest of `9007199254740992`.
    ///
    /// Above 2^53 some integers pass, every second one at first. They are
    /// exact, but the [canonical](crate::canonical) writer still refuses those that arrive as
    /// 64-bit integers, because their canonical digits are in general not their own.
    Exact,
}
