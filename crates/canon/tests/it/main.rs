//! The integration tests of `canon`, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod canonical;
mod envelope;
mod properties;
mod reader;
mod rfc8785;
mod yaml;
