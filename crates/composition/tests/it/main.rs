//! The kernel as its users meet it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod documentation;
mod edges;
mod fixtures;
mod generate;
mod model;
mod properties;
mod scale;
mod site;
mod wire;
