//! The kernel as its users meet it.

mod edges;
mod fixtures;
mod generate;
mod model;
mod properties;
mod wire;
