//! What reads can answer without a query. The writer updates it before it acknowledges a commit.

use super::ended::EndedRuns;
use super::seen::SeenKeys;

/// Caches; the database has everything.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) ended: EndedRuns,
    pub(super) seen: SeenKeys,
}
