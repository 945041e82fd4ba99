//! What a branch takes over from its source beside the log: what was kept of work that waits for somebody.

use flow::definition::Definition;
use flow::engine::inherit::inherited;
use flow::id::RunId;
use flow::state::RunState;
use flow::store::{Cause, Change, CommitError};

use super::Runs;

impl Runs {
    /// The records of the source that the branch goes on with, as its own. They are copied, so that the source may be deleted.
    pub(super) fn inherit(
        &self,
        definition: &Definition,
        state: &RunState,
        source_run_id: &RunId,
    ) -> Result<Vec<Change>, CommitError> {
        let mut changes = Vec::new();
        for record in inherited(definition, state, source_run_id) {
            let kept = self.store().activity(&record.source);
            let kept = kept.map_err(|error| CommitError::Store(Cause::new(error)))?;
            if let Some(outcome) = kept.flatten() {
                let run_id = state.genesis.run_id.clone();
                changes.push(Change::ClaimActivity { id: record.own.clone(), run_id, at: self.now() });
                changes.push(Change::FinishActivity { id: record.own, outcome });
            }
        }
        Ok(changes)
    }
}
