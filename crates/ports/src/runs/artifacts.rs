//! Artifacts of runs.

use flow::id::{ArtifactId, RunId};

use super::{Bytes, ReadFuture};

/// Reads artifacts.
pub trait Artifacts {
    /// An artifact of a run, as JSON.
    fn artifact(&self, run_id: &RunId, artifact_id: &ArtifactId) -> ReadFuture<'_, Option<Bytes>>;

    /// The ids of a run's artifacts, in their order.
    fn artifact_ids(&self, run_id: &RunId, limit: usize) -> ReadFuture<'_, Vec<ArtifactId>>;
}
