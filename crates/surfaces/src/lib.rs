//! What workflows may use of the host: files, keys, tables, caches, blobs, queues, databases, vectors, texts.
//!
//! A *surface* is one of those families. A [`Call`] names a tenant, a surface, an operation and its arguments, and is answered with a
//! JSON value or a [`SurfaceError`] of a closed code. Node types, the conformance seam and triggers all come through that door, so there is
//! one place where a tenant, a bound and an effect's identity are checked.
//!
//! ```text
//!   Call { tenant, surface, op, args, effect } ──► Surfaces ──► kv · table · cache · blob · queue ──► one SQLite file, one writer
//!                                                          ├──► vector · search ────────────────► the same, with its own file
//!                                                          ├──► sql ─────────────────────────────► SQLite per tenant, or PostgreSQL
//!                                                          └──► fs ──────────────────────────────► a folder per tenant
//! ```
//!
//! # Invariants
//! * The tenant is the first column of every key and the first folder of every path. No query filters by tenant; none can forget to.
//! * Acknowledged means on disk. One thread writes, and many calls share its commits.
//! * A call with an effect's identity changes things once: the identity and the answer are in the same commit as the change.
//! * Every size, count and lifetime is bounded, and the bound is in the error.
//! * Time arrives with the call.
#![deny(missing_docs)]

mod apart;
pub mod args;
pub mod blob;
pub mod cache;
mod calendar;
pub mod call;
mod durable;
pub mod embedded;
pub mod error;
mod folder;
pub mod fs;
mod keyed;
pub mod kv;
pub mod limits;
pub mod nats;
mod outlook;
mod prefix;
pub mod queue;
pub mod search;
pub mod served;
pub mod sql;
mod surfaces;
pub mod table;
pub mod tables;
mod usage;
mod value;
pub mod vector;

pub use call::{Call, Scope, Surface, Tenant};
pub use embedded::OpenError;
pub use error::{Code, SurfaceError};
pub use limits::Limits;
pub use served::{Answer, Served};
pub use surfaces::{Options, Surfaces};
