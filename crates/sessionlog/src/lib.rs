//! The bytes of a guided session, without I/O.
//!
//! A session is a sequence of appends. Each has a *segment* with its events, a group of *manifest* records that attest the
//! segment, and a line of the *chain*, which authenticates the group. Events refer to *snapshots*, which are stored as
//! differences. `storage` keeps these bytes in files, `postgres` in rows.
//!
//! # Invariants
//! * The same append has the same bytes in every store.
//! * No I/O, clock or randomness.
#![forbid(unsafe_code)]

pub mod chain;
pub mod manifest;
mod references;
pub mod snapshots;

pub use self::references::{pinned, references};
