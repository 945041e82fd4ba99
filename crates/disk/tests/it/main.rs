//! Integration tests of file and database access.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod attacks;
#[cfg(feature = "sqlite")]
mod group_commit;
#[cfg(feature = "sqlite")]
mod traces;
