//! Runs that wait because their descendants wait.
//!
//! When a run starts or stops waiting for a person, it notifies its parent, which records that as `node.dispatched` with
//! `childStatus`. A parent that only waits for such children has the status of the first of them, and notifies its own parent.
//! A caller who wants to reply searches the descendants. The feed of the run signals when to search again: a run that starts to
//! wait, or whose interrupt is closed, notifies all its ancestors.

use flow::engine::Input;
use flow::id::RunId;
use flow::run::RunStatus;

use super::Engine;
use crate::Refusal;

/// The state of a run as reported to its parent: what it waits for, or that it continues.
pub(super) fn for_parent(status: RunStatus) -> RunStatus {
    if status.is_waiting() { status } else { RunStatus::Running }
}

impl Engine {
    /// Notifies a run of the status of a child that has not ended.
    pub(super) async fn notify_waiting(&self, parent_id: &RunId, run_id: &RunId) {
        let current_status = async || {
            let row = self.uses.records.store().run(None, run_id).await?;
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
}
