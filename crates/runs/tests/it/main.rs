//! Runs on real folders, with everything that a node, a trigger or a plugin can use.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod guided_node;
#[path = "../../../guided/tests/it/recorded_spans.rs"]
mod recorded_spans;
mod runs;
mod services;
mod spans;
mod wait;
