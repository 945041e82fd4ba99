//! Integration tests of the kernel.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod code_lists;
mod documentation;
mod edges;
mod fixtures;
mod generate;
mod model;
mod named_sources;
mod properties;
mod scale;
mod site;
mod wire;
mod words;
