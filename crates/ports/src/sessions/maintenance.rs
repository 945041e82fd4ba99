//! Checks and garbage collection.

use std::fmt::Debug;

use guide::record::SessionId;

use super::{ChainState, GcReport, IsAwaited, Retention, SessionHealth, StoreError, StoreFuture};

/// Maintenance of a store.
pub trait SessionMaintenance: Debug + Send + Sync {
    /// Reads a whole session and everything it refers to, without caches. Fails with `Unknown`, or if the log itself cannot
    /// be read; everything else that is wrong is part of the result.
    fn verify(&self, session: SessionId) -> StoreFuture<'_, Verification>;

    /// Deletes sessions that were last active long ago, then the objects that only they referred to.
    ///
    /// Kept and awaited sessions stay. If anything cannot be validated, nothing is deleted: a session that cannot be read may
    /// need what looks unused. Fails with `Busy` while a session is being written.
    fn gc(&self, retention: Retention, is_awaited: IsAwaited) -> StoreFuture<'_, GcReport>;
}

/// The result of checking a session.
#[derive(Debug)]
pub struct Verification {
    /// Whether its log is healthy.
    pub health: SessionHealth,
    /// Whether its log is authentic.
    pub chain: ChainState,
    /// The number of validated events.
    pub events: usize,
    /// The number of verified snapshots, workflows and artifacts.
    pub objects: usize,
    /// What is missing or damaged beside the log.
    pub problems: Vec<StoreError>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub const fn is_sound(&self) -> bool {
        self.health.is_healthy() && !self.chain.is_broken() && self.problems.is_empty()
    }
}
