//! The services: use cases that load facts through a port, call a pure decision, append what it
//! gives, and answer. Nothing is decided here that a core could decide.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod backoff;
pub mod catalogue;
mod causes;
pub mod console_sessions;
pub mod guided;
pub mod hands;
pub mod path;
pub mod plugins;
pub mod runs;
pub mod system;
pub mod triggers;
pub mod workspaces;

pub use self::causes::{CorrelationId, causes};
