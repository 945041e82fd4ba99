//! Logs of sessions: created, read, appended to.

use std::fmt::Debug;
use std::sync::Arc;

use canon::digest::Digest;
use guide::bundle::Salvaged;
use guide::engine;
use guide::plan::AppendPlan;
use guide::record::{Event, EventIndex, ManifestRecord, SessionId};

use super::{Ended, Projection, SessionHealth, StoreFuture};
use crate::PortFuture;

/// The logs of all sessions of a store.
pub trait SessionLog: Debug + Send + Sync {
    /// The ids of all sessions, sorted. Nothing is read of the sessions themselves.
    fn sessions(&self) -> StoreFuture<'_, Vec<SessionId>>;

    /// How each session is now, without reading it; `None` for one that does not exist. In the order of `sessions`.
    fn revisions(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<Option<Revision>>>;

    /// How a session is now, without reading it; `None` if it does not exist.
    fn revision(&self, session: SessionId) -> StoreFuture<'_, Option<Revision>> {
        let revisions = self.revisions(vec![session]);
        PortFuture::boxed(async move { Ok(revisions.await?.pop().flatten()) })
    }

    /// Creates a session: all of its plans and objects, or nothing. The index knows it afterwards.
    ///
    /// Fails with `Exists` if there is one of that id, and with `ObjectMissing` if a plan refers to an object that is
    /// neither part of the creation nor stored.
    fn create(&self, creation: Creation) -> StoreFuture<'_, Appended>;

    /// Reads a healthy session. Fails with `Unknown`, and with `NotHealthy` for a damaged one.
    fn load(&self, session: SessionId) -> StoreFuture<'_, Loaded> {
        self.load_since(Cursor::start(session))
    }

    /// Reads what was appended to a healthy session since `cursor`. Cheap when nothing was.
    fn load_since(&self, cursor: Cursor) -> StoreFuture<'_, Loaded>;

    /// Reads what can be validated of a session, for showing and exporting it. Never for continuing it.
    fn load_validated_prefix(&self, session: SessionId) -> StoreFuture<'_, ValidatedPrefix>;

    /// Begins an append: reads what is new since `known` and gives the right to append to it. Without `known`, the whole
    /// session is read.
    ///
    /// Fails with `Locked` at once if the store locks sessions and another writer has this one, with `Busy` during garbage
    /// collection, and as [`SessionLog::load`].
    fn lock(&self, session: SessionId, known: Option<Cursor>) -> StoreFuture<'_, Box<dyn SessionWriter>>;
}

/// The right to append to one session once. Owned and `Send`: it can be held across awaits. Dropping it releases the
/// session.
pub trait SessionWriter: Debug + Send + Sync {
    /// What was appended since the cursor that the lock was taken with.
    fn news(&self) -> &Loaded;

    /// The mark that no run waits for the session, as it was when the lock was taken.
    fn ended(&self) -> Option<&Ended>;

    /// Appends a plan and its objects, and updates the index. The session is released afterwards, before the answer.
    ///
    /// The append is recorded even if the index cannot be updated; the index is derived and catches up.
    fn append(self: Box<Self>, append: Append) -> StoreFuture<'static, Appended>;

    /// Marks the session as one that no run waits for. An existing mark stays as it is.
    fn end(self: Box<Self>, ended: Ended) -> StoreFuture<'static, ()>;
}

/// What was read of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The events, in order: all of them, or those since the given cursor.
    pub events: Vec<Event>,
    /// The manifest's records of these events.
    pub manifest: Vec<ManifestRecord>,
    /// Where the reading ended.
    pub cursor: Cursor,
}

/// A part of a session that may be damaged.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedPrefix {
    /// What could be validated; all of a healthy session.
    pub loaded: Loaded,
    /// What is wrong with the rest.
    pub health: SessionHealth,
}

/// How far a session was read. Only the store that made a cursor knows what its position means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    session_id: SessionId,
    next_event: EventIndex,
    position: Arc<[u8]>,
}

impl Cursor {
    /// Before the first event.
    pub fn start(session_id: SessionId) -> Self {
        Self::new(session_id, EventIndex::FIRST, &[])
    }

    /// For adapters: a cursor before `next_event`, with whatever the store needs to continue there.
    pub fn new(session_id: SessionId, next_event: EventIndex, position: &[u8]) -> Self {
        Self { session_id, next_event, position: position.into() }
    }

    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// The index that the next event gets.
    pub const fn next_event(&self) -> EventIndex {
        self.next_event
    }

    /// For adapters: what was passed to [`Cursor::new`]; empty at the start.
    pub fn position(&self) -> &[u8] {
        &self.position
    }
}

/// Tells one state of a session from another: two revisions of a session are equal if nothing was appended in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    /// When the session was last appended to, by the clock of the store, in milliseconds since 1970. For sorting lists.
    pub modified_ms: u64,
    mark: u128,
}

impl Revision {
    /// For adapters. `mark` differs after every append.
    pub const fn new(modified_ms: u64, mark: u128) -> Self {
        Self { modified_ms, mark }
    }
}

/// A session to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The plans of one session, from its first event on; at least one.
    pub plans: Vec<AppendPlan>,
    pub objects: NewObjects,
    /// What the index keeps of the session.
    pub projection: Projection,
    /// Why the session is only a part, if it was made of what was left of a damaged one.
    pub salvaged: Option<Salvaged>,
    /// When the session was imported, in milliseconds since 1970. Garbage collection counts from then.
    pub imported_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Append {
    pub plan: AppendPlan,
    pub objects: NewObjects,
    /// All runs of the session, and the positions that are new.
    pub projection: Projection,
}

/// An append that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The first new event.
    pub first: EventIndex,
    pub last: EventIndex,
    /// The end of the session now.
    pub cursor: Cursor,
}

/// What the events of an append refer to, where the store may not have it yet.
#[derive(Clone, Debug, Default)]
pub struct NewObjects {
    /// Snapshots of new nodes, parents before children.
    pub snapshots: Vec<engine::NewSnapshot>,
    /// Compiled workflows of new runs.
    pub workflows: Vec<NewObject>,
    /// Artifacts that are not part of their events.
    pub artifacts: Vec<NewObject>,
}

/// An object with the digest of its bytes, which are canonical JSON.
#[derive(Clone, Debug)]
pub struct NewObject {
    pub digest: Digest,
    pub bytes: Arc<[u8]>,
}
