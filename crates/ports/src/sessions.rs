//! The port of guided sessions.
//!
//! A session is a log of [events](guide::record::Event). Beside the logs a store keeps what events refer to (snapshots,
//! compiled workflows, large artifacts), marks of sessions, an index to find sessions by, and the keys that tokens are
//! signed with. One trait per subject; [`SessionStore`] is all of them, for one tenant, and [`SessionStores`] opens the
//! store of a tenant.
//!
//! ```text
//! SessionLog           create, load, lock; SessionWriter appends
//! SessionObjects       snapshots, pinned workflows, artifacts, by digest
//! SessionIndex         find a session by position, by words, by workspace
//! SessionMarks         kept, ended, salvaged
//! SessionKeys          the keyring of tokens
//! SessionMaintenance   verify, collect garbage
//! ```
//!
//! # Contract
//! * **Bytes.** Events, digests, snapshots and workflows have the bytes that `guide` gives them, in every store. A session
//!   that is exported from one store and imported into another is the same session, with the same tokens.
//! * **Appends.** An append is whole or absent after a crash at any point, with everything its events refer to. It is
//!   durable when it returns, and visible to every reader that starts afterwards.
//! * **One writer.** An append is refused with [`StoreError::Moved`] unless its plan begins at the next event index. A
//!   store with locks refuses a second writer earlier, with [`StoreError::Locked`]. Neither refusal changes anything. A
//!   caller that loses reads the session again, and answers from the log if its call is recorded there.
//! * **Reads.** A reader gets whole appends, validated, and never waits for a writer. What was read is durable.
//! * **Unknown outcomes.** [`StoreError::OutcomeUnknown`] is returned when the store cannot tell whether an append was
//!   recorded. Reading the session again tells.
//! * **Cursors** are opaque. A cursor of another store, or of a session that was deleted and created again, is not an
//!   error: everything is read, and [`Loaded::events`] begins with the first event. If the session was created again with
//!   the same first events, a store may continue after them: a file system reuses the identities of deleted files.
//! * **Dropped futures.** An append that has begun runs to its end when its future is dropped.
//! * No method blocks the thread that polls its future.

mod chain;
mod error;
mod gc;
mod health;
mod index;
mod keys;
mod log;
mod maintenance;
mod marks;
mod objects;
mod projection;

use std::fmt::Debug;
use std::sync::Arc;

pub use self::chain::{ChainBreak, ChainState};
pub use self::error::{ObjectKind, RETRY_AFTER_MS, StoreError, StoreErrorCode};
pub use self::gc::{GcOutcome, GcReport, IsAwaited, Retention};
pub use self::health::{Damage, DamageReason, SessionHealth};
pub use self::index::{IndexPage, ListedSession, OpenRunRef, SearchResult, SessionIndex, page};
pub use self::keys::SessionKeys;
pub use self::log::{
    Append, Appended, Creation, Cursor, Loaded, NewObject, NewObjects, Revision, SessionLog, SessionWriter,
    ValidatedPrefix,
};
pub use self::maintenance::{SessionMaintenance, Verification};
pub use self::marks::{Ended, SessionMarks};
pub use self::objects::{Object, ObjectRef, SessionObjects};
pub use self::projection::{PositionKey, Projection, positions_of, project};

use crate::PortFuture;

/// What a method of the port returns.
pub type StoreFuture<'a, T> = PortFuture<'a, Result<T, StoreError>>;

/// All guided sessions of one tenant. See the [module](self) for the contract.
pub trait SessionStore:
    SessionLog + SessionObjects + SessionIndex + SessionMarks + SessionKeys + SessionMaintenance
{
}

impl<S> SessionStore for S where
    S: SessionLog + SessionObjects + SessionIndex + SessionMarks + SessionKeys + SessionMaintenance
{
}

/// Opens the sessions of a tenant.
pub trait SessionStores: Debug + Send + Sync {
    /// The sessions of the tenant, or of the store itself for `None`. Nothing is written before the first append. Opening
    /// one twice is allowed; the two share their sessions.
    ///
    /// `tenant` is 1 to 64 lower-case letters, digits, `-` and `_`.
    fn open<'a>(&'a self, tenant: Option<&'a str>) -> StoreFuture<'a, Arc<dyn SessionStore>>;
}
