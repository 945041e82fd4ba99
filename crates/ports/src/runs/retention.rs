//! The ages of runs and replies, for deleting what has expired.

use canon::time::Timestamp;
use flow::id::{RunId, Tenant};

use super::{ListCursor, ReadFuture};

/// Reads ages.
pub trait Retention {
    /// The runs of all tenants, oldest first, after a position.
    ///
    /// # Errors
    /// [`ReadError::InvalidCursor`](super::ReadError::InvalidCursor) if the cursor is not one of this store.
    fn aged_runs(&self, after: Option<&ListCursor>, limit: usize) -> ReadFuture<'_, AgedPage>;

    /// The age of one run.
    fn aged_run(&self, run_id: &RunId) -> ReadFuture<'_, Option<AgedRun>>;

    /// When the oldest reply was recorded.
    fn oldest_reply(&self) -> ReadFuture<'_, Option<Timestamp>>;
}

/// A part of the list of ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedPage {
    pub runs: Vec<AgedRun>,
    /// Where the next page begins. `None` if this page was not full, so that no more runs follow.
    pub next: Option<ListCursor>,
}

/// The age of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedRun {
    pub run_id: RunId,
    pub tenant: Tenant,
    /// Whether another run started it.
    pub is_child: bool,
    pub has_ended: bool,
    pub created_at: Timestamp,
    /// When its last event was recorded.
    pub updated_at: Timestamp,
}
