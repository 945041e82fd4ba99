//! Tests of the real program, and rules of the whole workspace.
#![expect(clippy::unwrap_used, reason = "a failed setup should stop the test")]
#![expect(clippy::needless_pass_by_value, reason = "literals read better by value")]

mod agents;
mod backup;
mod compose;
mod conformance_rules;
mod demo;
mod doctor;
mod error_messages;
mod expand;
mod guided_node;
mod home;
mod hook;
mod integrations;
mod key;
mod killed;
mod layering;
mod mcp;
mod mcp_http;
mod mcp_install;
mod operate;
mod pack;
mod pack_check;
mod pack_examples;
mod program;
mod salvage;
mod serve;
mod session;
mod settings;
mod supply_chain;
mod tamper;
mod triggers;
mod tutorials;
mod workflow;
mod workspace;
