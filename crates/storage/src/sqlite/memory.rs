//! Caches that answer reads without a query. The writer updates them before it acknowledges a commit.

use super::ended::EndedRuns;
use super::seen::SeenKeys;

/// The caches. The database is authoritative.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) ended: EndedRuns,
    pub(super) seen: SeenKeys,
}
