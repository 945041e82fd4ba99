//! The kernel as its users meet it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod edges;
mod fixtures;
mod generate;
mod model;
mod properties;
mod wire;
