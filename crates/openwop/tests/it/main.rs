//! Tests of the mapping between the versions of the protocol.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests panic where a test would"
)]

mod events;
mod snapshots;
