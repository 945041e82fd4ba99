//! The mapping between versions 1 and 2 of the OpenWOP protocol.
//!
//! The host has one engine and one log per run. Both versions of the protocol show that log: version 1 as it is recorded, version 2
//! translated by this crate. Everything that differs between the versions is a row of a table or a rule of a row:
//!
//! | What | Table | Function |
//! |---|---|---|
//! | event types, and the members of their payloads | `event/types.rs` | [`event::Projection`] |
//! | error codes of replies, and failure codes of runs | `error/codes.rs` | [`error::response`], [`error::failure_to_v2`], [`error::failure_to_v1`] |
//! | ids | – | [`id`] |
//! | run options | `configurable.rs` | [`configurable::to_v1`], [`configurable::to_v2`] |
//! | snapshots | – | [`snapshot::to_v2`] |
//!
//! ```text
//!  v2 request ──► server ──► id::unbind, configurable::to_v1 ──► the same handler as for v1 ──► host
//!  v2 reply   ◄── server ◄── Projection, snapshot, error     ◄── the reply of version 1     ◄──┘
//! ```
//!
//! # Eras
//! The protocol names the vocabulary of a stored log its era: 2 for version 1, 3 for version 2. A log is never rewritten, so a run keeps
//! its era. The mapping of events is therefore total in both directions: logs of era 2 are read under version 2 with
//! [`event::Projection::to_v2`], logs of era 3 under version 1 with [`event::Projection::to_v1`]. This program still writes era 2
//! and says so in `eventLogSchemaVersion`.
//!
//! # Invariants
//! * No I/O, clock or randomness. The same input gives the same output.
//! * Nothing is dropped silently: a member without a place in version 2 moves to an extension member, can be derived from its
//!   neighbours, or makes the translation fail with [`event::Unprojectable`].
//! * `to_v1(to_v2(event)) == event` for every event that this program writes, except that the reducer `message` becomes `append`. Tests check it for recorded logs and generated events.
#![forbid(unsafe_code)]

pub mod configurable;
pub mod error;
pub mod event;
pub mod id;
pub mod major;
pub mod owner;
pub mod snapshot;

pub use self::major::Major;
