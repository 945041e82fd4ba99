//! The shared vocabulary of the workspace.
//!
//! Programs agree on a digest only if they agree on the bytes, so this crate covers the whole way from bytes to digest:
//! [`json`] reads untrusted input and rejects ambiguous documents, [`canonical`] writes the RFC 8785 form of a value,
//! and [`digest`] hashes those bytes. It also has [typed ids](crate::id), [byte budgets](crate::budget) with the
//! truncation marker, [the error envelope](crate::error), [suggestions](crate::nearest) for misspelled names,
//! [binary-to-text encodings](crate::encoding), and [timestamps](crate::time).
//!
//! ```
//! use canon::{digest::Digest, json};
//!
//! let limits = json::Limits::default();
//! let left = json::read(br#"{"b": 1.0, "a": "\u20ac"}"#, &limits)?;
//! let right = json::read("{\"a\":\"€\",\"b\":1}".as_bytes(), &limits)?;
//! assert_eq!(Digest::of_canonical(&left)?, Digest::of_canonical(&right)?);
//!
//! let refused = json::read(b"{\"a\": 1, \"a\": 2}", &limits).unwrap_err();
//! assert_eq!(refused.code().to_string(), "JSON_DUPLICATE_KEY");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! * No I/O, clock, randomness or environment: the same input gives the same output on every machine.
//! * Input cannot overflow the stack: nesting is measured with a heap stack before any recursion.
//! * Error codes are members of closed enums.
#![forbid(unsafe_code)]

pub mod budget;
pub mod canonical;
pub mod digest;
pub mod encoding;
pub mod error;
pub mod id;
pub mod json;
pub mod nearest;
pub mod time;
pub mod yaml;

/// Used by the exported macros. Not a public interface.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    pub use crate::id::{check, shared_text};
}
