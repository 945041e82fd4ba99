//! Packs: what others wrote for workflows, named, signed, resolved and unpacked.
//!
//! A pack is an archive with a manifest, `pack.json`, that says what is in it: types of nodes, agents, pieces of workflows, prompts,
//! types of artifacts, cards, connections or parts of a front end. This crate reads [manifests](manifest) and
//! [archives](archive) that come from anybody, checks [integrity] and [signatures](signature), decides whom to
//! [trust], [resolves](resolve) dependencies into a [lockfile](lock), judges what is [published](publish), keeps a
//! [registry], [installs](install) packs, and [expands](chain) the chains in them.
//!
//! # Invariants
//! * Nothing reads a clock or a source of randomness: both arrive as arguments.
//! * What is wrong has a code of a closed list, and where a document is wrong, a JSON pointer.
//! * A path from an archive is an [`EntryPath`](path::EntryPath) before anything is done with it.
//! * Nothing of a pack is visible before all of it was verified.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

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
