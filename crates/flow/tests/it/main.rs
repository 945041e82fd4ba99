//! The integration tests of runs, one binary.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "helpers of tests take what reads best, and say when there are no fixtures"
)]

mod agents;
mod bounds;
mod budget;
mod causes;
mod checkpoints;
mod definitions;
mod dispatch;
mod documents;
mod driver;
mod events;
mod failures;
mod fixtures;
mod golden;
mod guided;
mod handoffs;
mod interrupts;
mod lifecycle;
mod model;
mod module_writes;
mod node_config;
mod orchestration;
mod progress;
mod redact;
mod replay;
mod schedule;
mod schemas;
mod storm;
mod suspended;
mod traces;
mod triggers;
mod values;
mod waiting_children;
