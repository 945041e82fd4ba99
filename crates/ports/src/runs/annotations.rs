//! Annotations of runs.

use flow::id::RunId;

use super::{Bytes, ReadFuture};

/// Reads annotations.
pub trait Annotations {
    /// The annotations of a run, as JSON, oldest first.
    fn annotations(&self, run_id: &RunId) -> ReadFuture<'_, Vec<Bytes>>;
}
