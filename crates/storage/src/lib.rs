//! Where engine state is kept.
//!
//! [`files`] is the store of guided sessions: append-only segments, a manifest that says which of
//! them count, and content-addressed snapshots, workflows and artifacts, all in one directory that
//! any number of processes may share. [`index`] is derived from it and can be deleted at any time.
//! [`disk`] is the port below both, with a double that dies on command. [`sqlite`] is the embedded
//! store of runs: one writer that puts many commits into one transaction, and readers beside it.
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
//! * Only a [`files::Writer`] can append, and only the lock-and-health gate makes one.
//! * What is read was verified: by the manifest, or by the digest that it is named after.
//! * No clock and no randomness of its own: times and keys arrive as arguments.
#![forbid(unsafe_code)]

pub mod disk;
mod error;
pub mod files;
pub mod index;
pub mod sqlite;

pub use error::{ObjectKind, RETRY_AFTER_MS, StoreError, StoreErrorCode};
