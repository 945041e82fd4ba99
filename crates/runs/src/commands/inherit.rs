//! What a branch copies from its source besides the log: the recorded results of work that waits for a reply.

use flow::definition::Definition;
use flow::engine::inherit::inherited;
use flow::id::RunId;
use flow::state::RunState;
use ports::Cause;
use ports::runs::{Change, ClaimedEffect, CommitError};

use super::Commands;

impl Commands {
    /// The changes that copy the records of the source which the branch needs. They are copied so that the source can be deleted.
    pub(super) async fn inherit(
        &self,
        definition: &Definition,
        state: &RunState,
        source_run_id: &RunId,
    ) -> Result<Vec<Change>, CommitError> {
        let mut changes = Vec::new();
        for record in inherited(definition, state, source_run_id) {
            let kept = self.uses.records.store().effect(&record.source).await;
            let kept = kept.map_err(|error| CommitError::Store(Cause::new(error)))?;
            if let Some(outcome) = kept.and_then(ClaimedEffect::finished) {
                let run_id = state.genesis.run_id.clone();
                // The source has had the effect, not the branch.
                let (id, at) = (record.own.clone(), self.uses.records.now());
                changes.push(Change::ClaimEffect { id, run_id, at, reached: None });
                changes.push(Change::FinishEffect { id: record.own, outcome });
            }
        }
        Ok(changes)
    }
}
