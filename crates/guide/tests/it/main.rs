//! The integration tests of the crate, as one binary.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::needless_pass_by_value, reason = "literals read better by value")]

mod amending;
mod approvals;
mod bundles;
mod compile;
mod context_keys;
mod delegation;
mod engine;
mod error_pages;
mod evidence;
mod harness;
mod jumps;
mod locks;
mod model;
mod people;
mod problem_pages;
mod registry;
mod schemas;
mod tokens;
mod users;
mod visits;
