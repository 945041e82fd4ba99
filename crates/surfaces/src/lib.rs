//! Host storage for workflows: files, keys, tables, caches, blobs, queues, databases, vectors and full-text search.
//!
//! A *surface* is one of these families. A [`SurfaceCall`] names a tenant, a surface, an operation and its arguments. The
//! result is a JSON value or a [`SurfaceError`] with a code from a closed list. Node types, conformance endpoints and
//! triggers all use [`Surfaces::call`], so tenants, limits and effect ids are checked in one place.
//!
//! ```text
//!   SurfaceCall { tenant, surface, op, args, effect } ──► Surfaces ──► kv · table · cache · blob · queue ──► one SQLite file, one writer
//!                                                          ├──► vector · search ────────────────► the same, with its own file
//!                                                          ├──► sql ─────────────────────────────► SQLite per tenant, or PostgreSQL
//!                                                          └──► fs ──────────────────────────────► a folder per tenant
//! ```
//!
//! # Invariants
//!
//! * The tenant is the first column of every key and the first folder of every path, so no query can omit it.
//! * An acknowledged change is atomic_file. One thread writes, and many calls share a commit.
//! * A call with an effect id is applied once: the id and the result are in the same commit as the change.
//! * Every size, count and lifetime has a limit, which the error names.
//! * The caller passes the time.

pub mod args;
mod atomic_file;
pub mod blob;
pub mod cache;
mod calendar;
pub mod call;
pub mod embedded;
pub mod error;
mod folder;
pub mod fs;
mod keyed;
pub mod kv;
pub mod limits;
pub mod nats;
mod prefix;
pub mod queue;
mod retry_advice;
mod scan_pool;
pub mod search;
pub mod served;
pub mod sql;
mod surfaces;
pub mod table;
pub mod tables;
mod usage;
mod value;
pub mod vector;

pub use call::{Scope, Surface, SurfaceCall, Tenant};
pub use embedded::OpenError;
pub use error::{Code, SurfaceError};
pub use limits::Limits;
pub use served::{PortFuture, Served};
pub use surfaces::{Options, Surfaces};
