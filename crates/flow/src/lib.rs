//! Durable workflow runs, without the disk and the network.
//!
//! A run is a [`Genesis`](run::Genesis), the facts that it was created with, and an ordered list of
//! [`Event`](event::Event)s. [`engine::decide`] takes the folded [`RunState`](state::RunState) and one
//! [`Input`](engine::Input), such as "a timer is due" or "a person approved". It adds every event that follows without
//! time, an effect or a person, and returns the [`Effect`](engine::Effect)s that the host must execute. The state after a
//! decision is the fold of the events: decisions and recovery both change the state only through
//! [`RunState::apply`](state::RunState::apply).
//!
//! ```text
//!   definition  ─ parsed and checked once, at registration; a run pins its digest
//!   genesis + events ──fold──► state ──decide(input)──► events, effects
//!                                 └──► snapshot, streams, diff: projections
//! ```
//!
//! # Invariants
//! * No I/O, clock, randomness or async: time arrives as an argument, and ids are derived from the run and the index.
//! * An event that was ever written stays readable. An event of an unknown type does not change the state.
//! * A refused decision changes nothing.
//! * A decision advances the run until it needs time, an effect or a person, so one input needs one append.
#![forbid(unsafe_code)]

pub mod channel;
pub mod definition;
pub mod engine;
pub mod event;
pub mod failure;
pub mod history;
pub mod id;
pub mod interrupt;
pub mod mask;
pub mod meter;
pub mod options;
pub mod redact;
pub mod run;
pub mod signed;
pub mod snapshot;
pub mod state;
pub mod stream;
pub mod token;
pub mod trace;
mod wire_enum;
