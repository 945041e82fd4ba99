//! The surfaces that other programs talk to: MCP over standard input and output, and MCP and runs over HTTP.
//!
//! A surface translates and nothing else. It reads the arguments of a call, hands typed requests
//! to a [`GuideService`], and writes what comes back twice: as prose for a model, and as the same
//! facts for a program. Which workflows there are, whether a step may be taken and what a token
//! is worth are not known here.
//!
//! * [`tool`] has one definition for each tool. What `tools/list` answers, what the documents say
//!   and what the checks of arguments enforce all come from it.
//! * [`call`] turns raw arguments into a typed call, or into an error that can be acted upon.
//! * [`prose`] writes replies for a model.
//! * [`mcp`] is the handler of one connection, whatever carries it.
//! * [`scoped`] is the guided service as one caller may use it: what a key does not open, it refuses.
//! * [`http`] is the host of runs, as the protocol of workflow hosts has it, with MCP beside it.
//!
//! # Invariants
//! * A caller's mistake is an answer with data, never an error of the protocol.
//! * Nothing but the protocol is ever written to standard output.
//! * Session identity lives in tokens. A connection remembers only which runs it has seen, to be
//!   able to say that another one is open.
#![forbid(unsafe_code)]

pub mod call;
pub mod documents;
pub mod http;
pub mod listing;
pub mod mcp;
mod mount;
mod open_runs;
pub mod prose;
pub mod scoped;
pub mod service;
pub mod tool;

pub use mcp::{Mcp, ServeError, run_stdio, serve_stdio};
pub use service::GuideService;
