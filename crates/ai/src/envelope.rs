//! Envelopes: closed documents that a model sends to the engine, validated before use.
//!
//! [`accept()`] is the validation pipeline, in the order of the protocol. [`project()`] returns the run events that
//! follow.

pub mod accept;
pub mod caps;
pub mod contract;
pub mod document;
pub mod kind;
pub mod outcome;
pub mod project;
pub mod timestamp;

pub use accept::{Acceptance, Prior, Strictness, Verdict, accept};
pub use caps::{CapKind, Counters};
pub use contract::{Contract, RefusalMode};
pub use document::{Envelope, EnvelopeDefaults};
pub use kind::{Kinds, Universal};
pub use outcome::{Detail, EnvelopeOutcome};
pub use project::{Projection, project};
