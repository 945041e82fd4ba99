//! Records the progress reports of an effect while it runs.

use std::sync::{Mutex, PoisonError};

use executors::progress::Recorded;
use executors::{Listener, Recording};
use flow::engine::{Activity, Input, Reported};
use flow::event::{EventData, event_id};
use flow::id::RunId;
use flow::run::Genesis;

use super::Engine;
use crate::{ApiCode, Direct, Refusal};

/// Records the reports of one effect as events of its run.
pub(super) struct ProgressReports<'a> {
    engine: &'a Engine,
    pub(super) run_id: &'a RunId,
    activity: &'a Activity,
    before: Mutex<Before>,
}

/// The reports that were recorded before the effect ended.
enum Before {
    /// All reports since the effect began, recorded by this process.
    Known(Recorded),
    /// The log must be read: another process began the effect, or the store failed and may still have recorded the reports.
    InTheLog,
}

impl<'a> ProgressReports<'a> {
    pub(super) fn new(engine: &'a Engine, run_id: &'a RunId, activity: &'a Activity) -> Self {
        Self { engine, run_id, activity, before: Mutex::new(Before::Known(Recorded::default())) }
    }

    /// Marks that the effect was begun before, so that the log may already have reports.
    pub(super) fn may_be_recorded(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Before::InTheLog;
    }

    /// The reports that are not recorded yet.
    pub(super) async fn rest_of(&self, reports: Vec<Reported>) -> Result<Vec<Reported>, Refusal> {
        if reports.is_empty() {
            return Ok(reports);
        }
        match self.known_rest_of(reports) {
            Ok(rest) => Ok(rest),
            Err(reports) => Ok(self.logged().await?.rest_of(reports)),
        }
    }

    /// The reports that are not recorded yet, or all reports if the log must be read.
    fn known_rest_of(&self, reports: Vec<Reported>) -> Result<Vec<Reported>, Vec<Reported>> {
        match &*self.before.lock().unwrap_or_else(PoisonError::into_inner) {
            Before::Known(recorded) => Ok(recorded.rest_of(reports)),
            Before::InTheLog => Err(reports),
        }
    }

    /// The reports of the effect in the log.
    async fn logged(&self) -> Result<Recorded, Refusal> {
        let row =
            self.engine.uses.records.store().run(None, self.run_id).await?.ok_or_else(Refusal::no_run)?;
        let genesis: Genesis = serde_json::from_slice(&row.genesis).map_err(|_| Refusal::no_run())?;
        // Events that a fork copied belong to an effect of its source.
        let from = genesis.fork.map_or(0, |fork| fork.from_sequence);
        let mut recorded = Recorded::default();
        for event in self.engine.uses.states.events(self.run_id, from).await? {
            if event.node_id.as_ref() != Some(&self.activity.node_id) {
                continue;
            }
            match &event.data {
                // These events start another attempt or another effect.
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

    /// Marks reports as recorded, in the events that end before `next`.
    fn mark_recorded(&self, reports: &[Reported], next: u64) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let Before::Known(recorded) = &mut *before else { return };
        let first = next.saturating_sub(reports.len() as u64);
        for (sequence, report) in (first..).zip(reports) {
            // A report that affects the decision is only recorded at the end.
            if let Some(data) = report.data() {
                recorded.add(data, event_id(self.run_id, sequence));
            }
        }
    }
}

impl Listener for ProgressReports<'_> {
    fn report(&self, reports: Vec<Reported>) -> Recording<'_> {
        Box::pin(async move {
            let Activity { node_id, ordinal, .. } = self.activity;
            let input = Input::ActivityReports {
                node_id: node_id.clone(),
                ordinal: *ordinal,
                reports: reports.clone(),
            };
            let answered =
                self.engine.advance(self.run_id, input, Vec::new(), &Direct, |state| state.next_sequence);
            match Box::pin(answered).await {
                Ok(next) => {
                    self.mark_recorded(&reports, next);
                    true
                }
                Err(refusal) => {
                    if refusal.code != ApiCode::Conflict {
                        self.may_be_recorded();
                    }
                    false
                }
            }
        })
    }
}
