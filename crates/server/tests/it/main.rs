//! The integration tests of `server`, in one binary. All of them use a client of the protocol.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod client;
mod definitions;
mod documents;
mod errors;
mod fake;
mod http;
mod judgement;
mod loops;
mod mistakes;
mod people;
mod prose;
mod protocol;
mod real;
mod suggestions;
mod two_runs;
