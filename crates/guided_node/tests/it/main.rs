//! The workspaces of agents on real folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod workspaces;
