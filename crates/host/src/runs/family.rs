//! Runs that wait because runs below them do.
//!
//! A run that changes between waiting for somebody and going on tells its parent, which records it as `node.dispatched` with `childStatus`.
//! A parent that does nothing but wait for such children waits for what the first of them waits for, and tells its own parent so.
//! A caller that wants to answer looks through the runs below. The feed of the run itself says when to look again: a run that has come to
//! rest, or whose interrupt is closed, tells all runs above it.

use flow::engine::Input;
use flow::engine::limits::MAX_CHILD_DEPTH;
use flow::id::RunId;
use flow::run::{Genesis, RunStatus};

use super::live::Loaded;
use super::{Caller, Refusal, Runs};

/// How many runs are looked through for what one of them waits for. Where there are more, they count as under way.
pub const MAX_FAMILY: usize = 256;

/// The state of a run as reported to its parent: what it waits for, or that it continues.
pub(super) fn for_parent(status: RunStatus) -> RunStatus {
    if status.is_waiting() { status } else { RunStatus::Running }
}

/// A run that somebody has to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub run_id: RunId,
    /// How it stands. One that asks something while it works besides is running.
    pub status: RunStatus,
}

impl Runs {
    /// What a run waits for, where it waits for people alone: itself, or runs below it at any depth, those above first. Nothing where any
    /// of them works, is halted, or has yet to begin.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn waiting(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<Waiting>, Refusal> {
        let (mut waiting, mut next, mut looked) = (Vec::new(), vec![run_id.to_owned()], 0);
        while let Some(run_id) = next.pop() {
            looked += 1;
            let row = self.store().run(Some(&caller.tenant), &run_id).await?;
            if row.is_none() || looked > MAX_FAMILY {
                return Ok(Vec::new());
            }
            let Some((children, asks, status)) = self.awaited(&run_id).await? else { return Ok(Vec::new()) };
            if asks {
                waiting.push(Waiting { run_id, status });
            }
            // The first of them is looked at first.
            next.extend(children.into_iter().rev());
        }
        Ok(waiting)
    }

    /// The children that a run waits for, whether it asks something itself, and how it stands; nothing where anything else is under way.
    async fn awaited(&self, run_id: &RunId) -> Result<Option<(Vec<RunId>, bool, RunStatus)>, Refusal> {
        let of = |Loaded { definition, state }: &Loaded| {
            let children = state.awaits(definition)?;
            let children = children.into_iter().cloned().collect();
            Some((children, !state.interrupts.is_empty(), state.status))
        };
        // One that waits for children is in memory as a rule, and its log need not be read.
        if let Some(live) = self.inner.live.get(run_id) {
            let cell = live.cell.lock().await;
            if let Some(loaded) = &*cell {
                return Ok(of(loaded));
            }
        }
        Ok(of(&self.load(run_id).await?))
    }

    /// Tells a run how a child of it stands that has not ended.
    pub(super) async fn tell_waiting(&self, parent_id: &RunId, run_id: &RunId) {
        let stands = async || {
            let row = self.store().run(None, run_id).await?;
            let open = row.map(|row| row.status).filter(|status| !status.is_terminal());
            Ok::<_, Refusal>(open.map(for_parent))
        };
        self.insist(parent_id, || async {
            let mut told = None;
            // It may have moved meanwhile, and somebody else may have told that first: the last word has to be what is true.
            while let Some(status) = stands().await?.filter(|status| told != Some(*status)) {
                self.give(parent_id, Input::ChildWaits { run_id: run_id.to_owned(), status }).await;
                told = Some(status);
            }
            Ok(())
        })
        .await;
    }

    /// Tells those who watch a run, or one above it, that it is worth a look at what is below.
    pub(super) async fn wake(&self, run_id: RunId) {
        let mut next = Some(run_id);
        for _ in 0..MAX_CHILD_DEPTH {
            let Some(run_id) = next else { return };
            if let Some(live) = self.inner.live.get(&run_id) {
                live.feed.tell_stir();
            }
            let row = self.store().run(None, &run_id).await.ok().flatten();
            let genesis = row.and_then(|row| serde_json::from_slice::<Genesis>(&row.genesis).ok());
            next = genesis.and_then(|genesis| genesis.parent).map(|parent| parent.run_id);
        }
    }
}
