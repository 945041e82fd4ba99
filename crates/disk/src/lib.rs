//! What touches the disk, written once for every store above.
//!
//! `sqlite` opens a database and commits for many callers with one fsync.

#[cfg(feature = "sqlite")]
pub mod sqlite;
