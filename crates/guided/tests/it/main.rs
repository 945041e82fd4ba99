//! Guided sessions on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bundled;
mod delegation;
mod evidence;
mod golden;
mod guided;
mod locks;
mod optimistic;
mod recorded_spans;
mod spans;
mod sync;
mod transcripts;
mod users;
mod view;
