//! The contract of what touches the disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod attacks;
#[cfg(feature = "sqlite")]
mod group_commit;
#[cfg(feature = "sqlite")]
mod traces;
