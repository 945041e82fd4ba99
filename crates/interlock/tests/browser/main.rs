//! The console in a real browser, in front of the real program.
//!
//! Pictures of the pages are written to `console/` in the folder of test output that cargo gives.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent_words;
mod approvals;
mod chromium;
mod demo;
mod keyboard;
mod packed;
mod pictures;
mod plugins;
#[path = "../it/program.rs"]
#[expect(dead_code, reason = "shared with the other tests of the program")]
mod program;
mod server;
mod sessions;
mod sign_in;
