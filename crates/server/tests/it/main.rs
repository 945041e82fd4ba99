//! The integration tests of `server`, one binary. All of them go through a client of the protocol.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod client;
mod definitions;
mod documents;
mod errors;
mod fake;
mod http;
mod judgement;
mod mistakes;
mod people;
mod prose;
mod protocol;
mod real;
mod suggestions;
mod two_runs;
