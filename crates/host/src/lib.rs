//! The services. Each loads data through a port, calls a pure decision, appends its events, and replies. This crate makes no decision that a core
//! could make.
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
