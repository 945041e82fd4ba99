//! The integration tests of the workspace image, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "literals read better by value")]

mod apply;
mod apply_concurrent;
mod apply_crash;
mod apply_hostile;
mod apply_lease;
mod apply_merge;
mod apply_modes;
mod apply_support;
mod codes;
mod compose;
mod compose_properties;
mod dispatch;
mod drift;
mod environment;
mod environment_drift;
mod index;
mod library;
mod lifecycle;
mod manifest;
mod manifest_compose;
mod manifest_properties;
mod plan_validation;
mod render;
mod snapshot;
mod snapshot_hostile;
mod template;
