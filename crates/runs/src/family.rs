//! Runs that wait because their descendants wait.
//!
//! When a run starts or stops waiting for a person, it notifies its parent, which records that as `node.dispatched` with
//! `childStatus`. A parent that only waits for such children has the status of the first of them, and notifies its own parent.
//! A caller who wants to reply searches the descendants. The feed of the run signals when to search again: a run that starts to
//! wait, or whose interrupt is closed, notifies all its ancestors.

use flow::engine::Input;
use flow::engine::limits::MAX_CHILD_DEPTH;
use flow::id::RunId;
use flow::run::{Genesis, RunStatus};

use super::live::Loaded;
use super::{Caller, Refusal, Runs};

/// The maximum number of runs that are searched for interrupts. A larger family counts as running.
pub const MAX_FAMILY: usize = 256;

/// The state of a run as reported to its parent: what it waits for, or that it continues.
pub(super) fn for_parent(status: RunStatus) -> RunStatus {
    if status.is_waiting() { status } else { RunStatus::Running }
}

/// A run that waits for a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub run_id: RunId,
    /// The status of the run. A run that also works on other nodes is running.
    pub status: RunStatus,
}

impl Runs {
    /// The runs that wait for replies, if nothing but replies can advance the run: itself and its descendants, ancestors first. Empty
    /// if any of them is working, is paused or has not begun.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn waiting(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<Waiting>, Refusal> {
        let (mut waiting, mut next, mut looked) = (Vec::new(), vec![run_id.to_owned()], 0);
        while let Some(run_id) = next.pop() {
            looked += 1;
            let row = self.inner.records.store().run(Some(&caller.tenant), &run_id).await?;
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
        if let Some(live) = self.inner.live.get(run_id) {
            let cell = live.cell.lock().await;
            if let Some(loaded) = &*cell {
                return Ok(of(loaded));
            }
        }
        Ok(of(&self.load(run_id).await?))
    }

    /// Notifies a run of the status of a child that has not ended.
    pub(super) async fn notify_waiting(&self, parent_id: &RunId, run_id: &RunId) {
        let current_status = async || {
            let row = self.inner.records.store().run(None, run_id).await?;
            let open = row.map(|row| row.status).filter(|status| !status.is_terminal());
            Ok::<_, Refusal>(open.map(for_parent))
        };
        self.insist(parent_id, || async {
            let mut reported = None;
            // The status may change meanwhile, and another task may report it first. Repeat until the last report is current.
            while let Some(status) = current_status().await?.filter(|status| reported != Some(*status)) {
                self.give(parent_id, Input::ChildWaits { run_id: run_id.to_owned(), status }).await;
                reported = Some(status);
            }
            Ok(())
        })
        .await;
    }

    /// Notifies the watchers of a run and of its ancestors to look at the descendants again.
    pub(super) async fn wake(&self, run_id: RunId) {
        let mut next = Some(run_id);
        for _ in 0..MAX_CHILD_DEPTH {
            let Some(run_id) = next else { return };
            if let Some(live) = self.inner.live.get(&run_id) {
                live.feed.send_wake();
            }
            let row = self.inner.records.store().run(None, &run_id).await.ok().flatten();
            let genesis = row.and_then(|row| serde_json::from_slice::<Genesis>(&row.genesis).ok());
            next = genesis.and_then(|genesis| genesis.parent).map(|parent| parent.run_id);
        }
    }
}
