//! The small vocabulary that every other crate of the workspace shares.
//!
//! Two programs agree on a digest only when they agree on the bytes below it, so this
//! crate owns the whole way from bytes to digest: [`json`] reads what came from
//! outside and refuses whatever two readers could understand differently,
//! [`canonical`] writes the one RFC 8785 form of a value, and [`digest`] names those
//! bytes. Beside them live the other things that must be the same everywhere:
//! [typed ids](crate::id), [byte budgets](crate::budget) with the one truncation
//! marker, [the one error envelope](crate::error), and the way to guess what a misspelt
//! name [was meant to be](crate::nearest), [bytes as text](crate::encoding), and [moments](crate::time) with their one spelling.
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
//! * No I/O, clock, randomness or environment: the same input gives the same output on
//!   every machine.
//! * No input overflows the stack: nesting is measured with a heap stack before
//!   anything recursive sees a value.
//! * An error code is a member of a closed enum; no code is made up at run time.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

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

/// What the exported macros expand to. Not an interface: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    pub use crate::id::{check, shared_text};
}
