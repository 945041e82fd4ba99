//! Modules that behave, and modules that do not.

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
