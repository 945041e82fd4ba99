//! The services: use cases that load facts through a port, call a pure decision, append what it
//! gives, and answer. Nothing is decided here that a core could decide.
#![forbid(unsafe_code)]

mod backoff;
pub mod catalogue;
mod causes;
pub mod console_sessions;
pub mod executors;
pub mod guided;
pub mod guided_node;
pub mod plugins;
pub mod runs;
pub mod system;
pub mod triggers;
pub mod workspaces;

pub use self::causes::{CorrelationId, causes};
