//! Lists of runs.

use flow::id::{Tenant, WorkflowId};
use flow::run::RunStatus;

use super::{Bytes, ReadFuture};

pub trait RunLists {
    /// The runs of a tenant, newest first.
    ///
    /// # Errors
    /// [`ReadError::InvalidCursor`](super::ReadError::InvalidCursor) if the cursor of the filter is not one of this store.
    fn runs(&self, tenant: &Tenant, filter: &RunFilter, limit: usize) -> ReadFuture<'_, RunPage>;
}

/// A position in a list, made by a store and understood only by it.
///
/// A cursor stays valid: across restarts, in later versions, and after the run that it was made for was deleted. It may reveal
/// how many runs the store has, so a protocol encrypts it before it gives it to a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListCursor(String);

impl ListCursor {
    /// A cursor from its text. Only the store can say whether it is valid.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which runs to list. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    pub status: Option<RunStatus>,
    pub workflow_id: Option<WorkflowId>,
    pub tag: Option<String>,
    /// Only runs that wait for a person or an external event.
    pub waiting: bool,
    /// Only runs after this position in the list.
    pub after: Option<ListCursor>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    /// The snapshots of the runs, as JSON.
    pub runs: Vec<Bytes>,
    /// Where the next page begins, for [`RunFilter::after`]. `None` if this page was not full, so that no more runs follow.
    pub next: Option<ListCursor>,
}
