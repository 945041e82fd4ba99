//! Contract suites: tests that every adapter of a port must pass.
//!
//! They are functions over the traits, so that an adapter runs them in its own tests with one call. The rules are in the
//! documentation of the traits; a failed assertion names the rule.
#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

pub mod runs;
pub mod sessions;
