//! The services on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod catalogue;
mod golden;
mod guided;
mod locks;
mod path;
mod runs;
mod store;
mod transcripts;
mod users;
mod view;
mod workspaces;
