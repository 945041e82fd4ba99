//! Durable guided sessions, without the disk.
//!
//! A session walks somebody through a workflow, step by step, and cannot be talked out of one. It
//! is an ordered list of [`record::Event`]s. This crate compiles workflows, folds events into a
//! [`state::SessionState`], decides what a call adds to them, and writes what the caller reads
//! next. The same events give the same bytes on every machine.
//!
//! ```text
//!  workflow::source ──► workflow::compile ──► workflow::compiled (hashed, pinned)
//!                                                   │
//!  record::Event* ──► state::SessionState ──► engine::{start, advance, checkpoint} ──► plan ──► the store
//!                          │                        │ interpret: what comes next
//!                          ▼                        ▼
//!                       project                  render
//! ```
//!
//! # Where things are
//! * [`record`]: what is durable. These types are the format.
//! * [`workflow`]: the authoring format, its compiler, its small languages, and the registries.
//! * [`interpret`]: which step is next, loops included. [`engine`]: what a call adds.
//! * [`state`] and [`project`]: the fold, and what can be seen of it. [`render`]: prompts.
//! * [`token`], [`mod@derive`]: handles and ids, all of which can be computed again from the log.
//! * [`bundle`]: a session that travels. [`plan`]: the unit of an append.
//!
//! # Invariants
//! * No I/O, clock, randomness or async: time, entropy and bytes arrive as arguments.
//! * An event that was ever written stays readable, and is read before it is written.
//! * A call that is in the log is answered from there: nothing is decided twice.
//! * Order comes from the index of an event, never from a clock.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod delegation;
pub mod derive;
pub mod engine;
pub mod interpret;
pub mod placeholder;
pub mod plan;
pub mod project;
pub mod record;
pub mod render;
pub mod snapshot_digest;
pub mod state;
pub mod token;
pub mod verification;
pub mod workflow;
