//! Integration tests of model calls, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "test helpers use convenient signatures, read the protocol files, and report when they are \
        missing"
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
