//! The catalogue on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod catalogue;
