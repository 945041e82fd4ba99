//! What runs are told while an effect is being made.

use std::sync::atomic::{AtomicBool, Ordering};

use flow::engine::{Activity, Input, Told};
use flow::event::{EventKind, event_id};

use super::{Refusal, Runs};
use crate::hands::telling::Recorded;
use crate::hands::{Heard, Listener};

/// Records what happens while one effect is made, as events of its run.
pub(super) struct Telling<'a> {
    runs: &'a Runs,
    pub(super) run_id: &'a str,
    activity: &'a Activity,
    /// Whether anything may have been recorded before the effect is at its end.
    told: AtomicBool,
}

impl<'a> Telling<'a> {
    pub(super) const fn new(runs: &'a Runs, run_id: &'a str, activity: &'a Activity) -> Self {
        Self { runs, run_id, activity, told: AtomicBool::new(false) }
    }

    /// The effect was begun before, by whoever had the run then.
    pub(super) fn may_have_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// What is left to record of all that happened. The log says what was: a store that failed may have recorded what it said it had not.
    pub(super) fn rest_of(&self, told: Vec<Told>) -> Result<Vec<Told>, Refusal> {
        if !self.told.load(Ordering::Relaxed) || told.is_empty() {
            return Ok(told);
        }
        let mut recorded = Recorded::default();
        for event in self.runs.events(self.run_id, 0)? {
            if event.node_id.as_ref() != Some(&self.activity.node_id) {
                continue;
            }
            match &event.kind {
                // Another attempt, or another effect, begins after these.
                EventKind::NodeStarted
                | EventKind::NodeRetried
                | EventKind::NodeSuspended
                | EventKind::InterruptRequested
                | EventKind::InterruptResolved => recorded = Recorded::default(),
                kind => recorded.add(kind, event_id(self.run_id, event.sequence), &event.payload),
            }
        }
        Ok(recorded.rest_of(told))
    }
}

impl Listener for Telling<'_> {
    fn tell(&self, told: Vec<Told>) -> Heard<'_> {
        Box::pin(async move {
            self.told.store(true, Ordering::Relaxed);
            let Activity { node_id, ordinal, .. } = self.activity;
            let input = Input::ActivityTells { node_id: node_id.clone(), ordinal: *ordinal, told };
            self.runs.advance_boxed(self.run_id, input, Vec::new()).await.is_ok()
        })
    }
}
