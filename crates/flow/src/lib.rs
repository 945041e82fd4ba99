//! Durable workflow runs, without the disk and the network.
//!
//! A run is a [`Genesis`](run::Genesis), the facts that it was created with, and an ordered list
//! of [`Event`](event::Event)s. [`engine::decide`] takes the folded [`RunState`](state::RunState) and one
//! [`Input`](engine::Input), such as "a timer is due" or "a person approved", and adds every event that follows
//! without time, an effect or a person; what the host has to do about it comes back as
//! [`Effect`](engine::Effect)s. The state after a decision is the fold of the events, because an event changes the state in one
//! place only, [`RunState::apply`](state::RunState::apply), for decisions and for recovery alike.
//!
//! ```text
//!   definition  ─ parsed and checked once, at registration; a run pins its digest
//!   genesis + events ──fold──► state ──decide(input)──► events, effects
//!                                 └──► snapshot, streams, diff: projections
//! ```
//!
//! # Invariants
//! * No I/O, clock, randomness or async: time arrives as an argument, and ids are derived from the run and the index.
//! * An event that was ever written stays readable; unknown types fold to nothing.
//! * A decision that is refused changes nothing.
//! * A run goes on until nothing more can happen without time, an effect or a person, so that one append is enough.
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
pub mod store;
pub mod stream;
pub mod token;
pub mod trace;
mod wire_enum;
