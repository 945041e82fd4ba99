//! Packs: signed, versioned extensions for workflows.
//!
//! A pack is an archive with a manifest, `pack.json`, that describes its content: node types, agents, workflow
//! fragments, prompts, artifact types, cards, connections or front-end plugins. This crate reads untrusted
//! [manifests](manifest) and [archives](archive), checks [integrity] and [signatures](signature), applies a [trust]
//! policy, [resolves](resolve) dependencies into a [lockfile](lock), validates [publications](publish), stores a
//! [registry], [installs](install) packs, and [expands](chain) chains.
//!
//! # Invariants
//!
//! * Time and randomness are arguments.
//! * Every error has a code from a closed list, and document errors have a JSON Pointer.
//! * A path from an archive becomes an [`EntryPath`](path::EntryPath) before it is used.
//! * No part of a pack is visible before all of it is verified.
#![forbid(unsafe_code)]

pub mod agents;
pub mod archive;
pub mod chain;
pub(crate) mod disk;
pub mod error;
pub mod install;
pub mod integrity;
pub mod kind;
pub mod lock;
pub mod manifest;
pub mod name;
pub mod path;
pub mod prompt;
pub mod publish;
pub mod range;
pub mod registry;
pub mod resolve;
pub mod schema;
pub mod signature;
mod time;
pub mod trust;
pub mod version;

pub use error::{PackError, PackErrorCode};
