//! Runs and guided sessions in PostgreSQL.
//!
//! ```text
//!   commit ─► queue ─► one of W writers: many commits in one statement, one round trip ─► futures resolve
//!   read   ─► one of R connections for reads, prepared statements
//! ```
//!
//! # Invariants
//! * Conditions are part of the statement that writes: the next sequence of a run, keys that must be new, the end of an audit
//!   log. Nothing depends on this process being the only writer, except that one host at a time may be registered for now.
//! * Every transaction locks the row of this host. Deleting the row therefore fences the host: see `hosts`.
//! * A commit whose connection is lost is looked up by the number of its batch: see `writer`.
//! * Plain SQL: no sequences, savepoints, advisory locks, triggers, server functions or temporary tables. Order is that of
//!   bytes (`collate "C"`). A test reads every statement.
//! * No error contains a value of a user or a part of the URL.
#![forbid(unsafe_code)]

mod batch;
mod chain;
mod connection;
mod error;
mod hosts;
mod queue;
mod readers;
mod reads;
mod row;
pub mod schema;
mod sessions;
mod single;
mod store;
mod unit;
mod writer;

pub use self::error::{Failure, OpenError};
pub use self::hosts::Role;
pub use self::sessions::PostgresSessions;
pub use self::store::{Options, PostgresRuns};
