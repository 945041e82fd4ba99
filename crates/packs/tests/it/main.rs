//! Integration tests of packs, in one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod agents;
mod archives;
mod chains;
mod corpus;
mod crashing;
mod error_pages;
mod hostile;
mod installing;
mod manifests;
mod properties;
mod published_schemas;
mod publishing;
mod registering;
mod resolving;
mod support;
mod trusting;
mod verified;
