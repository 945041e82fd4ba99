//! Durable guided sessions, without the disk.
//!
//! A session guides an agent through a workflow, step by step; steps cannot be skipped. It is an ordered list
//! of [`record::Event`]s. This crate compiles workflows, applies events to a [`state::SessionState`], decides
//! which events a call adds, and renders the reply. The same events produce the same bytes on every machine.
//!
//! ```text
//!  workflow::source ──► workflow::compile ──► workflow::compiled (hashed, pinned)
//!                                                   │
//!  record::Event* ──► state::SessionState ──► engine::{start, advance, checkpoint} ──► plan ──► the store
//!                          │                        │ interpret: selects the next step
//!                          ▼                        ▼
//!                       project                  render
//! ```
//!
//! # Where things are
//! * [`record`]: the durable types. They define the format.
//! * [`workflow`]: the authoring format, its compiler, its small languages, and the registries.
//! * [`visit`]: what was recorded since a step became pending.
//! * [`interpret`]: selects the next step, including loops. [`engine`]: the events that a call adds.
//! * [`state`] and [`project`]: the applied state and its views. [`render`]: prompts.
//! * [`token`], [`mod@derive`]: tokens and ids, all of which can be computed again from the log.
//! * [`bundle`]: exported sessions. [`plan`]: the unit of an append.
//!
//! # Invariants
//! * No I/O, clock, randomness or async: time, entropy and bytes arrive as arguments.
//! * An event that was ever written stays readable. Every event is decoded once before it is written.
//! * A call that is in the log is answered from the log. Nothing is decided twice.
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
pub mod visit;
pub mod workflow;
