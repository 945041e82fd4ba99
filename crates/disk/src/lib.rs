//! File system access for all stores.
//!
//! [`rooted`] opens files below a directory without following links. `sqlite` (a cargo feature) opens a database and
//! commits for many callers with one fsync.

pub mod rooted;
#[cfg(feature = "sqlite")]
pub mod sqlite;
