//! The integration tests of the surfaces: one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod contract;
mod crash;
mod data;
mod effects;
mod helper;
mod limits;
mod page;
mod store;
mod tenants;
mod together;
