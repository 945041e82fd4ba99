//! Stores of engine state: the adapters of the ports.
//!
//! [`files`] stores guided sessions: append-only segments, a manifest that lists the valid ones, and content-addressed
//! snapshots, workflows and artifacts, all in one directory that any number of processes may share.
//! [`files::FileSessions`] is the adapter of [`ports::sessions`]; the work itself is synchronous. [`index`] is derived
//! from the files and can be deleted at any time. [`disk`] is the port that both use, with a test double that crashes on
//! command. [`sqlite`] is the embedded store of runs: one writer that groups many commits into one transaction, and
//! concurrent readers.
//!
//! ```
//! use std::sync::Arc;
//! use storage::{disk::MemoryDisk, files::SessionFiles};
//!
//! let files = SessionFiles::open(Arc::new(MemoryDisk::default()))?;
//! assert!(files.sessions()?.is_empty());
//! # Ok::<(), storage::StoreError>(())
//! ```
//!
//! # Invariants
//! * An append is whole or absent after a crash at any point, and durable when it returns.
//! * Only a [`files::Writer`] can append, and only locking a healthy session creates one.
//! * Everything that is read was verified, by the manifest or by the digest in its name.
//! * No clock: times are passed as arguments.
#![forbid(unsafe_code)]

pub mod disk;
pub mod files;
pub mod index;
pub mod sqlite;

pub use ports::sessions::{ObjectKind, RETRY_AFTER_MS, StoreError, StoreErrorCode};
