//! Searches a run and its descendants for what waits for a reply.

use flow::id::RunId;
use flow::run::RunStatus;

use super::Queries;
use crate::states::Loaded;
use crate::{Caller, Refusal};

/// The maximum number of runs that are searched for interrupts. A larger family counts as running.
pub const MAX_FAMILY: usize = 256;

/// A run that waits for a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub run_id: RunId,
    /// The status of the run. A run that also works on other nodes is running.
    pub status: RunStatus,
}

impl Queries {
    /// The runs that wait for replies, if nothing but replies can advance the run: itself and its descendants, ancestors first. Empty
    /// if any of them is working, is paused or has not begun.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn waiting(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<Waiting>, Refusal> {
        let (mut waiting, mut next, mut looked) = (Vec::new(), vec![run_id.to_owned()], 0);
        while let Some(run_id) = next.pop() {
            looked += 1;
            let row = self.records.store().run(Some(&caller.tenant), &run_id).await?;
            if row.is_none() || looked > MAX_FAMILY {
                return Ok(Vec::new());
            }
            let Some((children, asks, status)) = self.awaited(&run_id).await? else { return Ok(Vec::new()) };
            if asks {
                waiting.push(Waiting { run_id, status });
            }
            // Reversed, so that the first child is visited first.
            next.extend(children.into_iter().rev());
        }
        Ok(waiting)
    }

    /// The children that a run waits for, whether it has pending interrupts, and its status. `None` if any other work is in progress.
    async fn awaited(&self, run_id: &RunId) -> Result<Option<(Vec<RunId>, bool, RunStatus)>, Refusal> {
        let of = |Loaded { definition, state }: &Loaded| {
            let children = state.awaits(definition)?;
            let children = children.into_iter().cloned().collect();
            Some((children, !state.interrupts.is_empty(), state.status))
        };
        // A run that waits for children is usually in memory, so its log is not read.
        if let Some(live) = self.states.live().get(run_id) {
            let cell = live.cell.lock().await;
            if let Some(loaded) = &*cell {
                return Ok(of(loaded));
            }
        }
        Ok(of(&self.states.load(run_id).await?))
    }
}
