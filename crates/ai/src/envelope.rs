//! What a model says to the engine: a closed document, judged before anything of it is believed.
//!
//! [`accept()`] is the pipeline, in the order of the protocol. [`project()`] says which events of the run follow.

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
pub use document::{Around, Envelope};
pub use kind::{Kinds, Universal};
pub use outcome::{Detail, Outcome};
pub use project::{Projection, project};
