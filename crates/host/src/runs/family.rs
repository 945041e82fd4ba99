//! Runs that wait because runs below them do.
//!
//! A run whose child waits for a person is running: nobody asks it anything, and it waits for an end. Whoever wants to know what such
//! a run needs looks through the runs below it. When to look again is told on the feed of the run itself: a run that has come to
//! rest, or whose interrupt is closed, tells all runs above it.

use flow::run::{Genesis, RunStatus};

use super::effects::MAX_CHILD_DEPTH;
use super::live::Loaded;
use super::{Caller, Refusal, Runs};

/// How many runs are looked through for what one of them waits for. Where there are more, they count as under way.
pub const MAX_FAMILY: usize = 256;

/// A run that somebody has to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The run.
    pub run_id: String,
    /// How it stands. One that waits for a child besides is running.
    pub status: RunStatus,
}

impl Runs {
    /// What a run waits for, where it waits for people alone: itself, or runs below it at any depth, those above first. Nothing where any
    /// of them works, is halted, or has yet to begin.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn waiting(&self, caller: &Caller, run_id: &str) -> Result<Vec<Waiting>, Refusal> {
        let (mut waiting, mut next, mut looked) = (Vec::new(), vec![run_id.to_owned()], 0);
        while let Some(run_id) = next.pop() {
            looked += 1;
            let row = self.store().run(Some(&caller.tenant), &run_id)?;
            let Some(row) = row.filter(|_| looked <= MAX_FAMILY) else { return Ok(Vec::new()) };
            let status = row.status;
            if status.is_waiting() {
                waiting.push(Waiting { run_id, status });
                continue;
            }
            let Some((children, asks)) = self.awaited(&run_id).await? else { return Ok(Vec::new()) };
            if asks {
                waiting.push(Waiting { run_id, status });
            }
            // The first of them is looked at first.
            next.extend(children.into_iter().rev());
        }
        Ok(waiting)
    }

    /// The children that a run waits for, and whether it asks something itself; nothing where anything else is under way.
    async fn awaited(&self, run_id: &str) -> Result<Option<(Vec<String>, bool)>, Refusal> {
        let of = |Loaded { definition, state }: &Loaded| {
            let children = state.awaits(definition)?;
            Some((children.into_iter().map(str::to_owned).collect(), !state.interrupts.is_empty()))
        };
        // One that waits for children is in memory as a rule, and its log need not be read.
        if let Some(live) = self.inner.live.get(run_id) {
            let cell = live.cell.lock().await;
            if let Some(loaded) = &*cell {
                return Ok(of(loaded));
            }
        }
        Ok(of(&self.load(run_id)?))
    }

    /// Tells those who watch a run, or one above it, that it is worth a look at what is below.
    pub(super) fn stir(&self, run_id: String) {
        let mut next = Some(run_id);
        for _ in 0..MAX_CHILD_DEPTH {
            let Some(run_id) = next else { return };
            if let Some(live) = self.inner.live.get(&run_id) {
                live.feed.tell_stir();
            }
            let row = self.store().run(None, &run_id).ok().flatten();
            let genesis = row.and_then(|row| serde_json::from_slice::<Genesis>(&row.genesis).ok());
            next = genesis.and_then(|genesis| genesis.parent).map(|parent| parent.run_id);
        }
    }
}
