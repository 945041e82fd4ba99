//! After a start: every run that was under way goes on.
//!
//! Requests are answered meanwhile. A run that was not recovered yet can be read, because its record is on the disk, and cancelled.
//! Anything else that happens to it recovers it first, so that it finds the run as it would have, had the process never ended.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use flow::engine::Input;
use flow::id::RunId;
use flow::run::Genesis;

use super::compute_pool::may_be_heavy;
use super::effects::parent_cancelled;
use super::{Direct, Refusal, Runs};

/// How many runs are looked up at once.
const PAGE: usize = 500;
/// How many of them are recovered at once.
const AT_ONCE: usize = 32;

/// The runs that were under way when the process before this one ended.
#[derive(Default)]
pub(super) struct Recovery {
    left: Mutex<Left>,
    /// Runs that may take long are recovered one after another, so that the others can be cancelled meanwhile.
    heavy: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Left {
    /// Those that nothing happened to since.
    waiting: HashSet<RunId>,
    /// All that were found, while they are being recovered.
    found: Option<usize>,
    done: usize,
}

/// How far the recovery of runs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// How many runs were recovered.
    pub recovered: usize,
    /// How many there are to recover.
    pub total: usize,
}

impl Recovery {
    fn left(&self) -> std::sync::MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run still has to be recovered. The first caller that needs the run recovers it.
    fn take(&self, run_id: &RunId) -> bool {
        let mut left = self.left();
        !left.waiting.is_empty() && left.waiting.remove(run_id)
    }
}

impl Runs {
    /// How far the recovery is; nothing where none is under way.
    pub fn recovering(&self) -> Option<RecoveryProgress> {
        let left = self.inner.recovery.left();
        left.found.map(|total| RecoveryProgress { recovered: left.done, total })
    }

    /// Finds every run that is not at its end, to be recovered by [`Runs::recover_found`]. There is one host for a store, so whatever is
    /// found is nobody's. To be called once, before anything else is asked of the host: runs that are created later are not to be recovered.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find_unrecovered(&self) -> Result<usize, Refusal> {
        let mut found: Vec<RunId> = Vec::new();
        loop {
            let page = self.store().open_runs(found.last(), PAGE).await?;
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        self.inner.counters.recovered(found.len());
        let total = found.len();
        *self.inner.recovery.left() =
            Left { waiting: found.into_iter().collect(), found: Some(total), done: 0 };
        Ok(total)
    }

    /// Takes over the runs that [`Runs::find_unrecovered`] found, some at a time. Gives how many of them go on.
    pub async fn recover_found(&self) -> usize {
        let mut found: Vec<RunId> = self.inner.recovery.left().waiting.iter().cloned().collect();
        // Those that began first go on first.
        found.sort_unstable();
        let mut recovered = 0;
        for group in found.chunks(AT_ONCE) {
            if self.is_stopping() {
                break;
            }
            let tasks: Vec<_> =
                group.iter().map(|run_id| tokio::spawn(self.take_over(run_id.clone()))).collect();
            for task in tasks {
                recovered += usize::from(task.await.unwrap_or(false));
                self.inner.recovery.left().done += 1;
            }
        }
        self.inner.recovery.left().found = None;
        recovered
    }

    /// Takes over every run that is not at its end, and waits until all of them go on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recover(&self) -> Result<usize, Refusal> {
        self.find_unrecovered().await?;
        Ok(self.recover_found().await)
    }

    /// Recovers a run before something else happens to it, where nobody did yet. One that is cancelled needs no recovery.
    pub(super) async fn recover_first(&self, run_id: &RunId, input: &Input) -> Result<(), Refusal> {
        if !self.inner.recovery.take(run_id) || matches!(input, Input::Cancel { .. } | Input::Recover) {
            return Ok(());
        }
        let input = self.missed_cancel(run_id).await.unwrap_or(Input::Recover);
        let recovered = Box::pin(self.advance(run_id, input, Vec::new(), &Direct, |_| ())).await;
        if let Err(refusal) = recovered
            && refusal.is_host_failure()
        {
            // The next one tries again.
            self.inner.recovery.left().waiting.insert(run_id.to_owned());
            return Err(refusal);
        }
        Ok(())
    }

    fn take_over(&self, run_id: RunId) -> impl Future<Output = bool> + Send + use<> {
        let runs = self.clone();
        async move {
            let _turn = match runs.may_take_long(&run_id).await {
                true => Some(runs.inner.recovery.heavy.lock().await),
                false => None,
            };
            if !runs.inner.recovery.take(&run_id) {
                // Something happened to it meanwhile, which recovered or cancelled it.
                return true;
            }
            let input = runs.missed_cancel(&run_id).await.unwrap_or(Input::Recover);
            runs.advance(&run_id, input, Vec::new(), &Direct, |_| ()).await.is_ok()
        }
    }

    async fn may_take_long(&self, run_id: &RunId) -> bool {
        let Ok(Some(row)) = self.store().run(None, run_id).await else { return false };
        self.pinned(&row).await.is_ok_and(|definition| may_be_heavy(&definition, &row))
    }

    /// The word of its parent that it is to end, where the host stopped before the child heard of it.
    async fn missed_cancel(&self, run_id: &RunId) -> Option<Input> {
        let row = self.store().run(None, run_id).await.ok()??;
        let genesis: Genesis = serde_json::from_slice(&row.genesis).ok()?;
        let parent = genesis.parent.filter(|_| genesis.fork.is_none())?;
        self.gave_up(&parent.run_id, run_id).await.then(|| parent_cancelled(&parent.run_id))
    }
}
