//! Integration tests of the surfaces, in one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

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
