//! The integration tests of the session and run stores.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod chain;
mod contract;
mod corruption;
mod crash;
mod disks;
mod errors;
mod gc;
mod index;
mod limits;
mod locks;
mod port;
mod runs;
mod snapshots;
mod support;
mod tables;
