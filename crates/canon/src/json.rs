//! A strict JSON reader for untrusted input.
//!
//! `serde_json` hides three facts that this system relies on: duplicate keys, integers rounded to doubles, and which
//! limit an input exceeded, where and by how much. Each would let two programs read different documents from the same
//! bytes. [`read`] is therefore a separate parser. Its stack is on the heap, so input cannot overflow the thread's
//! stack, and it returns the same [`Value`] as `serde_json` for every text that both accept.
//!
//! It rejects: missing values, invalid JSON, trailing content, a byte order mark, duplicate keys in an object (after
//! unescaping), invalid UTF-8, a lone escaped surrogate, a raw control character in a string, a number beyond the range
//! of a double, nesting or size beyond the [`Limits`], and, with [`Numbers::Exact`], an integer that a double would
//! round. Every [error](ReadError) has a position.
//!
//! ```
//! use canon::json::{self, Limits, ReadErrorCode};
//!
//! let value = json::read(br#"{"id": 1, "tags": ["a"]}"#, &Limits::default())?;
//! assert_eq!(value["tags"][0], "a");
//!
//! let refused = json::read(b"[1,\n 02]", &Limits::default()).unwrap_err();
//! assert_eq!(refused.code(), ReadErrorCode::Syntax);
//! assert_eq!(refused.to_string(), "a number must not have leading zeros, at line 2, column 2 (byte 5)");
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

/// The maximum nesting depth of every reader and writer in this crate.
///
/// A [`Value`] is dropped, cloned, compared and serialized recursively. At 128 levels that takes a few dozen kilobytes
/// of stack; without a limit a megabyte of `[` would crash the process. (`serde_json`'s own reader stops one level
/// earlier, at 127.)
pub const MAX_DEPTH: usize = 128;

/// Reads one JSON value, with optional surrounding white space.
///
/// # Errors
/// Anything on the list [above](self): the first problem from left to right, except that size and encoding are checked
/// first, and a duplicate key is reported after its second value.
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
    /// The maximum size, in bytes.
    pub max_bytes: usize,
    /// The maximum nesting depth: `1` for `[1]`, `0` for a scalar. At most [`MAX_DEPTH`].
    pub max_depth: usize,
    /// Which numbers are accepted.
    pub numbers: Numbers,
}

impl Limits {
    /// 64 MiB, [`MAX_DEPTH`] levels, [`Numbers::Any`].
    pub const DEFAULT: Self = Self { max_bytes: 64 << 20, max_depth: MAX_DEPTH, numbers: Numbers::Any };

    #[must_use]
    pub const fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    #[must_use]
    pub const fn max_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = max_depth;
        self
    }

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
/// JSON does not limit numbers; RFC 8785 only has IEEE doubles. In both modes a number beyond the range of a double is
/// rejected, and a fraction is rounded to the nearest double.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Integers are kept if they fit in an `i64` or `u64`, and otherwise become the nearest double, as with
    /// `serde_json`.
    #[default]
    Any,
    /// As [`Any`](Self::Any), but an integer literal (digits only) must be exact as a double. For input that is hashed:
    /// `9007199254740993` would get the digest of `9007199254740992`.
    ///
    /// Above 2^53 some integers pass. They are exact, but the [canonical](crate::canonical) writer still rejects those
    /// that arrive as 64-bit integers, because their canonical digits generally differ.
    Exact,
}
