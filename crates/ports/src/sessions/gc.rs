//! What garbage collection is asked for, and what it did.

use std::fmt;
use std::sync::Arc;

use guide::record::{Event, SessionId};

use crate::PortFuture;

/// How long sessions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// How long after its last activity a session is deleted.
    pub ttl_ms: u64,
    /// Only report what would be deleted.
    pub dry_run: bool,
}

/// Whether something waits for an old session, decided from its events.
#[derive(Clone)]
pub struct IsAwaited(Arc<dyn Fn(Vec<Event>) -> PortFuture<'static, bool> + Send + Sync>);

impl IsAwaited {
    pub fn new(is_awaited: impl Fn(Vec<Event>) -> PortFuture<'static, bool> + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_awaited))
    }

    /// Nothing waits for any session.
    pub fn never() -> Self {
        Self::new(|_| PortFuture::ready(false))
    }

    /// Asks about the session with these events.
    pub fn ask(&self, events: Vec<Event>) -> PortFuture<'static, bool> {
        (self.0)(events)
    }
}

impl fmt::Debug for IsAwaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IsAwaited")
    }
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Whether it deleted anything, and if not, why not.
    pub outcome: GcOutcome,
    /// The sessions that were deleted, or would be.
    pub deleted_sessions: Vec<SessionId>,
    /// The number of sessions that stay.
    pub retained_sessions: usize,
    /// Old sessions that stay because they are marked as kept.
    pub spared_sessions: Vec<SessionId>,
    /// Old sessions that stay because something waits for them.
    pub awaited_sessions: Vec<SessionId>,
    /// The number of snapshots that were deleted, or would be.
    pub deleted_snapshots: usize,
    /// The number of workflows that were deleted, or would be.
    pub deleted_workflows: usize,
    /// The number of artifacts that were deleted, or would be.
    pub deleted_artifacts: usize,
    /// The number of unfinished files and directories that were deleted, or would be.
    pub deleted_leftovers: usize,
    /// What could not be validated: the reason for safe mode.
    pub warnings: Vec<String>,
}

/// Whether a collection deleted anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcOutcome {
    /// Everything was validated, and what was not needed is deleted.
    #[default]
    Collected,
    /// Everything was validated; nothing was deleted, as requested.
    DryRun,
    /// Something could not be validated, so nothing was deleted.
    SafeMode,
}
