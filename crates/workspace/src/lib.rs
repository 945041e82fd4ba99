//! The workspace of an agent: composed, applied to disk, and checked for drift.
//!
//! A [manifest] declares what an agent needs. [`compose`] turns it, with the context of one run or
//! session, into a [`plan`]: a list of mounts with the source of each file. [`apply`] fetches the
//! files through [resolvers](resolve) and installs them, all or nothing. [`drift`] checks at any
//! time whether the workspace still matches the plan. [`snapshot`] packs the files written by the
//! agent.
//!
//! # Where things are
//! * Pure: [`compose`], [`manifest`], [`plan`], [`slot`], [`template`], [`environment`],
//!   [`lifecycle`], [`dispatch`]. The same input gives the same bytes on every machine.
//! * On disk: [`apply`], [`drift`] and [`snapshot`], only through [`rooted`].
//! * [`library`]: a folder of agents, skills and pages as a source.
//! * [`error`]: the closed set of codes.
//!
//! # Invariants
//! * Paths are never joined as text to reach a file: everything is opened relative to a handle of
//!   the root, without following links.
//! * A failure before the promotion changes nothing visible to the agent; after a crash, the
//!   journal decides.
//! * Secrets are never in a plan, lease, index, journal, report, snapshot or file.

pub mod apply;
pub mod compose;
pub mod dispatch;
pub mod drift;
pub mod environment;
pub mod error;
pub mod index;
pub mod library;
pub mod lifecycle;
pub mod manifest;
pub mod plan;
pub mod resolve;
pub mod rooted;
pub mod slot;
pub mod snapshot;
pub mod template;

pub use self::error::{Code, Error};
