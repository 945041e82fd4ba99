//! What the readers know without asking the file. The writer tells them, before whoever waits for its commit.

use super::ended::EndedRuns;
use super::seen::SeenKeys;

/// It is lost with the process, and nothing is lost with it.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) ended: EndedRuns,
    pub(super) seen: SeenKeys,
}
