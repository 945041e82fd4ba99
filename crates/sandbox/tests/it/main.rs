//! Integration tests of the sandbox.

mod any_bytes;
mod cache;
mod calls;
mod codes;
mod determinism;
mod invariants;
mod lies;
mod limits;
mod modules;
mod replay;
mod support;
