//! What runs are told while an effect is being made.

use std::sync::{Mutex, PoisonError};

use flow::engine::{Activity, Input, Reported};
use flow::event::{EventData, event_id};
use flow::id::RunId;
use flow::run::Genesis;

use super::{ApiCode, Direct, Refusal, Runs};
use crate::executors::progress::Recorded;
use crate::executors::{Listener, Recording};

/// Records what happens while one effect is made, as events of its run.
pub(super) struct Telling<'a> {
    runs: &'a Runs,
    pub(super) run_id: &'a RunId,
    activity: &'a Activity,
    before: Mutex<Before>,
}

/// What was recorded before the effect is at its end.
enum Before {
    /// This, since it began.
    Known(Recorded),
    /// Only the log knows: it was begun by whoever had the run before, or the store failed and may have recorded it all the same.
    InTheLog,
}

impl<'a> Telling<'a> {
    pub(super) fn new(runs: &'a Runs, run_id: &'a RunId, activity: &'a Activity) -> Self {
        Self { runs, run_id, activity, before: Mutex::new(Before::Known(Recorded::default())) }
    }

    /// The effect was begun before, by whoever had the run then.
    pub(super) fn may_have_told(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Before::InTheLog;
    }

    /// What is left to record of all that happened.
    pub(super) async fn rest_of(&self, told: Vec<Reported>) -> Result<Vec<Reported>, Refusal> {
        if told.is_empty() {
            return Ok(told);
        }
        match self.known_rest_of(told) {
            Ok(rest) => Ok(rest),
            Err(told) => Ok(self.logged().await?.rest_of(told)),
        }
    }

    /// What is left to record, or everything that happened if only the log knows.
    fn known_rest_of(&self, told: Vec<Reported>) -> Result<Vec<Reported>, Vec<Reported>> {
        match &*self.before.lock().unwrap_or_else(PoisonError::into_inner) {
            Before::Known(recorded) => Ok(recorded.rest_of(told)),
            Before::InTheLog => Err(told),
        }
    }

    /// What the log has of the effect.
    async fn logged(&self) -> Result<Recorded, Refusal> {
        let row = self.runs.store().run(None, self.run_id).await?.ok_or_else(Refusal::no_run)?;
        let genesis: Genesis = serde_json::from_slice(&row.genesis).map_err(|_| Refusal::no_run())?;
        // What a fork copied was told of an effect of its source.
        let from = genesis.fork.map_or(0, |fork| fork.from_sequence);
        let mut recorded = Recorded::default();
        for event in self.runs.events(self.run_id, from).await? {
            if event.node_id.as_ref() != Some(&self.activity.node_id) {
                continue;
            }
            match &event.data {
                // Another attempt, or another effect, begins after these.
                EventData::NodeStarted(_)
                | EventData::NodeRetried(_)
                | EventData::NodeSuspended(_)
                | EventData::InterruptRequested(_)
                | EventData::InterruptResolved(_)
                | EventData::NodeResumed(_) => recorded = Recorded::default(),
                data => recorded.add(data, event_id(self.run_id, event.sequence)),
            }
        }
        Ok(recorded)
    }

    /// What was told is recorded, in the events that end before `next`.
    fn heard(&self, told: &[Reported], next: u64) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let Before::Known(recorded) = &mut *before else { return };
        let first = next.saturating_sub(told.len() as u64);
        for (sequence, told) in (first..).zip(told) {
            // What decides something is not told before the end.
            if let Some(data) = told.data() {
                recorded.add(data, event_id(self.run_id, sequence));
            }
        }
    }
}

impl Listener for Telling<'_> {
    fn tell(&self, told: Vec<Reported>) -> Recording<'_> {
        Box::pin(async move {
            let Activity { node_id, ordinal, .. } = self.activity;
            let input =
                Input::ActivityReports { node_id: node_id.clone(), ordinal: *ordinal, reports: told.clone() };
            let answered =
                self.runs.advance(self.run_id, input, Vec::new(), &Direct, |state| state.next_sequence);
            match Box::pin(answered).await {
                Ok(next) => {
                    self.heard(&told, next);
                    true
                }
                Err(refusal) => {
                    if refusal.code != ApiCode::Conflict {
                        self.may_have_told();
                    }
                    false
                }
            }
        })
    }
}
