//! The store as its users meet it, and as the disk treats it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

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
