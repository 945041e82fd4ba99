//! The console through its router, on a real database.
#![expect(clippy::unwrap_used, reason = "a failed setup should stop the test")]

mod approvals;
mod composition;
mod hostile;
mod keys;
mod pages;
mod plugins;
mod session_answers;
mod sign_in;
mod support;
