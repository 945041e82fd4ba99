//! Integration tests of `canon`, in one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod canonical;
mod envelope;
mod properties;
mod reader;
mod rfc8785;
mod yaml;
