//! The services on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod catalogue;
mod golden;
mod guided;
mod locks;
mod runs;
mod transcripts;
mod users;
