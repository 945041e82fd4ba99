//! The workspace of an agent: composed, applied to a disk, and watched.
//!
//! A [manifest] declares what an agent needs; [`compose`] turns it, with the context of
//! one run or session, into a [`plan`], a list of mounts that says where each byte comes
//! from; [`apply`] fetches the bytes through [resolvers](resolve) and puts them in place, all or
//! nothing; [`drift`] says at any later moment whether the workspace is still what was
//! declared; [`snapshot`] packs what the agent wrote.
//!
//! # Where things are
//! * Pure: [`compose`], [`manifest`], [`plan`], [`slot`], [`template`], [`environment`],
//!   [`lifecycle`], [`dispatch`]. The same input gives the same bytes on every machine.
//! * On the disk: [`rooted`] is the only way to it, [`apply`], [`drift`] and [`snapshot`] use it.
//! * [`library`]: a folder of agents, skills and pages as the source of bytes.
//! * [`error`]: the closed set of codes.
//!
//! # Invariants
//! * A path is never joined as text to reach a file: everything is opened below a handle of the
//!   root, and no link is followed.
//! * A failure before promotion changes nothing that an agent can see; after a crash the journal decides.
//! * A secret is in no plan, lease, index, journal, report, snapshot or file.
#![deny(missing_docs)]

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
