//! Ports: what the services need from a store.
//!
//! A port is a set of small asynchronous traits, one per subject, with the types that they exchange. An adapter (crate
//! `storage`) implements them; a service (crate `host`) only knows the traits. The pure cores below (`flow`, `guide`) know
//! neither: they are synchronous and get data as arguments.
//!
//! # Invariants
//! * No I/O and no database in this crate. [`PortFuture`] runs on any executor; [`blocking()`] hands work to the blocking pool
//!   of the current runtime, if there is one.
//! * Every trait is dyn-compatible, so a service holds `Arc<dyn …>` and tests can wrap a store.
//! * An adapter never blocks the thread that polls: it answers from memory with [`PortFuture::ready`], or works elsewhere
//!   and delivers the result.
//! * Nothing that only one adapter has appears here: no row ids, file positions or connection handles. What a caller
//!   passes back later, such as a list cursor, is opaque.
//! * An error keeps what the database or the disk said as its source ([`Cause`]), without values of users.
//!
//! Each port documents its contract on its main trait. With the feature `testing`, `contract` has the test suites that every
//! adapter must pass, and `wrapper` helps to write test doubles.
#![forbid(unsafe_code)]

mod blocking;
mod cause;
mod channel;
#[cfg(feature = "testing")]
pub mod contract;
mod future;
pub mod runs;
pub mod sessions;
#[cfg(feature = "testing")]
pub mod wrapper;

pub use self::blocking::blocking;
pub use self::cause::Cause;
pub use self::channel::Responder;
pub use self::future::{PortFuture, wait};
