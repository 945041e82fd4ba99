//! The program as a stranger runs it, and the rules of the whole workspace.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod compose;
mod doctor;
mod house;
mod key;
mod layering;
mod program;
mod session;
mod settings;
mod workflow;
