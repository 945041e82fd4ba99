//! The subcommands, one module each.

pub(crate) mod approvals;
pub(crate) mod backup;
pub(crate) mod compose;
mod confirm;
pub(crate) mod context;
pub(crate) mod database;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod key;
pub(crate) mod mcp;
pub(crate) mod pack;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod shell;
pub(crate) mod webhooks;
pub(crate) mod workflow;
pub(crate) mod workspace;
