//! The console of the real program in a real browser.
//!
//! Screenshots are written to `console/` in cargo's test output folder.
#![expect(clippy::unwrap_used, reason = "a failed setup should stop the test")]

mod approvals;
mod chromium;
mod demo;
mod keyboard;
mod packed;
mod plugins;
#[path = "../it/program.rs"]
#[expect(dead_code, reason = "shared with the other tests of the program")]
mod program;
mod screenshots;
mod server;
mod sessions;
mod sign_in;
mod untrusted_content;
