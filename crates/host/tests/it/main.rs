//! The services on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bundled;
mod catalogue;
mod delegation;
mod evidence;
mod golden;
mod guided;
mod guided_node;
mod locks;
mod optimistic;
mod runs;
mod spans;
mod sync;
mod transcripts;
mod users;
mod view;
mod wait;
mod workspaces;
