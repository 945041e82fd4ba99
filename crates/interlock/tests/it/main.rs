//! The program as a stranger runs it, and the rules of the whole workspace.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "literals read better by value")]

mod backup;
mod compose;
mod demo;
mod doctor;
mod expand;
mod guided_node;
mod hook;
mod house;
mod key;
mod killed;
mod layering;
mod mcp;
mod mcp_http;
mod mcp_install;
mod musts;
mod pack;
mod pack_check;
mod pack_examples;
mod program;
mod salvage;
mod serve;
mod session;
mod settings;
mod triggers;
mod tutorials;
mod workflow;
mod workspace;
