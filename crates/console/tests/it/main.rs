//! The console as a browser meets it: over its router, on a real database.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod approvals;
mod composition;
mod door;
mod hostile;
mod keys;
mod pages;
mod plugins;
mod support;
