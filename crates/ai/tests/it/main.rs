//! The integration tests of calls of models, one binary.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "helpers of tests take what reads best, read the protocol's own files, and say when there are none"
)]

mod acceptance;
mod completions;
mod documents;
mod envelopes_in_calls;
mod events;
mod nodes;
mod prompts;
mod properties;
mod protocol;
mod tool_wire;
mod tools;
mod wire;
