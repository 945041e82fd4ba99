//! Recovery after a start: every active run continues.
//!
//! The host serves requests meanwhile. A run that is not recovered yet can be read, because its record is durable, and cancelled. Any
//! other input recovers the run first, so that it finds the run as if the process had never ended.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use flow::engine::Input;
use flow::id::RunId;
use flow::run::Genesis;

use super::Engine;
use super::effects::parent_cancelled;
use crate::compute_pool::may_be_heavy;
use crate::{Direct, Refusal};

/// How many runs are read at once.
const PAGE: usize = 500;
/// How many runs are recovered at once.
const AT_ONCE: usize = 32;

/// The runs that were active when the previous process ended.
#[derive(Default)]
pub(super) struct Recovery {
    left: Mutex<Left>,
    /// Serializes the recovery of runs that may take long, so that other runs can be cancelled meanwhile.
    heavy: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Left {
    /// The runs that are not recovered yet.
    waiting: HashSet<RunId>,
    /// The number of runs to recover, while the recovery is in progress.
    found: Option<usize>,
    done: usize,
}

/// The progress of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// The number of recovered runs.
    pub recovered: usize,
    /// The number of runs to recover.
    pub total: usize,
}

impl Recovery {
    fn left(&self) -> std::sync::MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a run that is not recovered yet. Returns true only to the first caller, which must recover the run.
    fn take(&self, run_id: &RunId) -> bool {
        let mut left = self.left();
        !left.waiting.is_empty() && left.waiting.remove(run_id)
    }
}

impl Engine {
    /// The progress of the recovery. `None` if no recovery is in progress.
    pub fn recovering(&self) -> Option<RecoveryProgress> {
        let left = self.work.recovery.left();
        left.found.map(|total| RecoveryProgress { recovered: left.done, total })
    }

    /// Finds all runs that have not ended, for [`Engine::recover_found`]. A store has one host, so no other process owns them.
    /// Call this once, before any other operation: runs that are created later must not be recovered.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn find_unrecovered(&self) -> Result<usize, Refusal> {
        let mut found: Vec<RunId> = Vec::new();
        loop {
            let page = self.uses.records.store().open_runs(found.last(), PAGE).await?;
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        self.work.counters.recovered(found.len());
        let total = found.len();
        *self.work.recovery.left() =
            Left { waiting: found.into_iter().collect(), found: Some(total), done: 0 };
        Ok(total)
    }

    /// Recovers the runs that [`Engine::find_unrecovered`] found, several at a time. Returns how many were recovered.
    pub async fn recover_found(&self) -> usize {
        let mut found: Vec<RunId> = self.work.recovery.left().waiting.iter().cloned().collect();
        // Oldest first.
        found.sort_unstable();
        let mut recovered = 0;
        for group in found.chunks(AT_ONCE) {
            if self.uses.records.is_stopping() {
                break;
            }
            let tasks: Vec<_> =
                group.iter().map(|run_id| tokio::spawn(self.take_over(run_id.clone()))).collect();
            for task in tasks {
                recovered += usize::from(task.await.unwrap_or(false));
                self.work.recovery.left().done += 1;
            }
        }
        self.work.recovery.left().found = None;
        recovered
    }

    /// Recovers all runs that have not ended, and waits until that is done.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn recover(&self) -> Result<usize, Refusal> {
        self.find_unrecovered().await?;
        Ok(self.recover_found().await)
    }

    /// Recovers a run before another input, if it is not recovered yet. A run that is cancelled needs no recovery.
    pub(super) async fn recover_first(&self, run_id: &RunId, input: &Input) -> Result<(), Refusal> {
        if !self.work.recovery.take(run_id) || matches!(input, Input::Cancel { .. } | Input::Recover) {
            return Ok(());
        }
        let input = self.missed_cancel(run_id).await.unwrap_or(Input::Recover);
        let recovered = Box::pin(self.advance(run_id, input, Vec::new(), &Direct, |_| ())).await;
        if let Err(refusal) = recovered
            && refusal.is_host_failure()
        {
            // The next input retries.
            self.work.recovery.left().waiting.insert(run_id.to_owned());
            return Err(refusal);
        }
        Ok(())
    }

    fn take_over(&self, run_id: RunId) -> impl Future<Output = bool> + Send + use<> {
        let engine = self.clone();
        async move {
            let _turn = match engine.may_take_long(&run_id).await {
                true => Some(engine.work.recovery.heavy.lock().await),
                false => None,
            };
            if !engine.work.recovery.take(&run_id) {
                // Another input recovered or cancelled the run meanwhile.
                return true;
            }
            let input = engine.missed_cancel(&run_id).await.unwrap_or(Input::Recover);
            engine.advance(&run_id, input, Vec::new(), &Direct, |_| ()).await.is_ok()
        }
    }

    async fn may_take_long(&self, run_id: &RunId) -> bool {
        let Ok(Some(row)) = self.uses.records.store().run(None, run_id).await else { return false };
        self.uses.states.pinned(&row).await.is_ok_and(|definition| may_be_heavy(&definition, &row))
    }

    /// The cancellation by its parent, if the host stopped before the child received it.
    async fn missed_cancel(&self, run_id: &RunId) -> Option<Input> {
        let row = self.uses.records.store().run(None, run_id).await.ok()??;
        let genesis: Genesis = serde_json::from_slice(&row.genesis).ok()?;
        let parent = genesis.parent.filter(|_| genesis.fork.is_none())?;
        self.uses.states.gave_up(&parent.run_id, run_id).await.then(|| parent_cancelled(&parent.run_id))
    }
}
