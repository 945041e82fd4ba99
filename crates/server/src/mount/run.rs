//! One run for one call: begun, waited for, and ended with the call.
//!
//! The run is begun and watched by a task of its own. A client that hangs up drops the call and nothing else; the task notices, and
//! ends the run. So a run never outlives a client that left without anybody having decided so, not even one that was
//! just being made. One that waits for somebody does: nothing is lost of what was done, and whoever may can still answer.

use std::time::Duration;

use flow::id::{NodeId, RunId};
use host::runs::create::Creation;
use host::runs::{ApiCode, Batch, Caller, CreatedRun, Direct, NewRun, Refusal, Runs, Waiting};
use ports::Cause;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::elicitation::{Asking, Then};
use super::pending::Waits;
use super::pending_requests::Said;
use super::progress::Progress;
use crate::http::status;

/// What became of a call.
#[derive(Debug)]
pub(super) enum Started {
    /// It was run.
    Ended(End),
    /// Its inputs are not what the workflow takes; there is no run.
    Refused(Vec<Value>),
}

/// How the run stands when the call is answered.
#[derive(Debug)]
pub(super) enum End {
    /// It gave this.
    Completed(Value),
    /// It failed: a code and a message.
    Failed { run_id: RunId, code: String, message: String },
    /// It was ended.
    Cancelled { run_id: RunId },
    /// A person, or something outside, is needed, by the run or by one below it.
    Waiting { run_id: RunId, place: Place },
    /// It goes on, and the call waits no longer.
    Late { run_id: RunId },
}

/// Where somebody is needed: in which run, how that one stands, and at which node.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) run_id: RunId,
    pub(super) status: String,
    pub(super) node_id: NodeId,
}

/// How a run is watched.
pub(super) struct Watch {
    /// For how long, until it ends or the client is asked something; and then again for as long.
    pub(super) patience: Duration,
    /// How often a client that waits is told so.
    pub(super) beat: Duration,
    /// Whether the host is being stopped.
    pub(super) stopping: watch::Receiver<bool>,
    /// Whether the client took the call back.
    pub(super) waits: Waits,
    /// Who is told how far it is.
    pub(super) progress: Option<Progress>,
    /// Who is asked what it asks.
    pub(super) asking: Option<Asking>,
}

/// Runs a workflow, and waits for its end.
pub(super) async fn run(runs: &Runs, caller: &Caller, new: NewRun, watch: Watch) -> Result<Started, Refusal> {
    let (here, gone) = oneshot::channel::<()>();
    let call = Call { runs: runs.clone(), caller: caller.clone() };
    let task = tokio::spawn(call.make(new, watch, gone));
    let made = task.await;
    drop(here);
    made.unwrap_or_else(|error| {
        let refusal = Refusal::new(ApiCode::InternalError, "the call could not be made; try again");
        Err(refusal.because(Cause::new(error)))
    })
}

/// Comes back when the host is being stopped.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Whoever would say so is gone only with the host itself.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

struct Call {
    runs: Runs,
    caller: Caller,
}

impl Call {
    async fn make(
        self,
        new: NewRun,
        Watch { patience, beat, mut stopping, waits, progress, asking }: Watch,
        gone: oneshot::Receiver<()>,
    ) -> Result<Started, Refusal> {
        let run_id = &match self.runs.create(&self.caller, new, Creation::default(), Direct).await {
            Ok(CreatedRun { run_id, .. }) => run_id,
            Err(refusal) if refusal.code == ApiCode::ValidationError => {
                let told = status::body(&refusal);
                let fields = told["details"]["fields"].as_array().cloned();
                return Ok(Started::Refused(fields.unwrap_or_else(|| vec![told["message"].clone()])));
            }
            Err(refusal) => return Err(refusal),
        };
        let watching = Watching { call: &self, run_id, progress, asking, patience, beat };
        let end = tokio::select! {
            biased;
            end = watching.end() => end?,
            // Nobody is there to be told. Where the host is being stopped, clients are not the ones who left.
            _ = gone => {
                if !*stopping.borrow() && !self.is_waiting(run_id).await {
                    self.cancel(run_id, "the client of the tool left").await;
                }
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = waits.cancelled() => {
                self.cancel(run_id, "the client took the call back").await;
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = stopped(&mut stopping) => self.late(run_id).await?,
        };
        Ok(Started::Ended(end))
    }

    async fn cancel(&self, run_id: &RunId, reason: &str) {
        // One that has ended meanwhile needs no end; for one that cannot be written to, its own limits are left.
        if let Err(refusal) = self.runs.cancel(&self.caller, run_id, Some(reason.to_owned()), Direct).await {
            tracing::debug!(code = refusal.code.as_str(), "a run was not ended with its call");
        }
    }

    async fn is_waiting(&self, run_id: &RunId) -> bool {
        self.runs.waiting(&self.caller, run_id).await.is_ok_and(|waiting| !waiting.is_empty())
    }

    /// The run is waited for no longer.
    async fn late(&self, run_id: &RunId) -> Result<End, Refusal> {
        let waiting = self.runs.waiting(&self.caller, run_id).await?;
        Ok(self.waiting(run_id, &waiting).await?.unwrap_or_else(|| End::Late { run_id: run_id.to_owned() }))
    }

    /// The end of a run, as its last event tells it to readers: what is sensitive is not there.
    async fn end(&self, run_id: &RunId, last: Option<&str>) -> Result<End, Refusal> {
        let mut last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let (status, _) = self.runs.status(&self.caller, run_id).await?;
        Ok(match status.as_str() {
            "completed" => End::Completed(last["payload"]["outputs"].take()),
            "failed" => {
                let text =
                    |name: &str| last["payload"]["error"][name].as_str().unwrap_or_default().to_owned();
                End::Failed { run_id: run_id.to_owned(), code: text("code"), message: text("message") }
            }
            _ => End::Cancelled { run_id: run_id.to_owned() },
        })
    }

    /// What the call ends with where somebody is needed: the first of the runs that wait for nothing else.
    async fn waiting(&self, run_id: &RunId, waiting: &[Waiting]) -> Result<Option<End>, Refusal> {
        let Some(run) = waiting.iter().find(|run| run.status.is_waiting()) else { return Ok(None) };
        let open = self.runs.open_interrupts(&self.caller, &run.run_id).await?;
        let node_id = open.into_iter().next().map_or_else(|| NodeId::new(""), |open| open.node_id);
        let place = Place { run_id: run.run_id.clone(), status: run.status.to_string(), node_id };
        Ok(Some(End::Waiting { run_id: run_id.to_owned(), place }))
    }
}

/// A run while its call waits.
struct Watching<'c> {
    call: &'c Call,
    run_id: &'c RunId,
    progress: Option<Progress>,
    asking: Option<Asking>,
    patience: Duration,
    beat: Duration,
}

/// What happens meanwhile.
enum Happened {
    Events(Option<Batch>),
    Said(Said),
    /// Nothing, for a while.
    Nothing,
    /// Nothing, for too long.
    Late,
}

impl Watching<'_> {
    /// Waits for the end, and takes back what the client was asked and has not answered.
    async fn end(mut self) -> Result<End, Refusal> {
        let end = self.until_end().await;
        if let Some(asking) = &mut self.asking {
            asking.withdraw("the call is answered").await;
        }
        end
    }

    /// Waits until the run is at its end, or needs somebody that the client is not.
    async fn until_end(&mut self) -> Result<End, Refusal> {
        let Self { call, run_id, .. } = *self;
        let mut following = call.runs.follow(&call.caller.tenant, run_id, 0).await?.with_below();
        let mut deadline = Instant::now() + self.patience;
        loop {
            while let Some(batch) = following.stored().await? {
                if let Some(end) = self.note(&batch).await? {
                    return Ok(end);
                }
            }
            let waiting = call.runs.waiting(&call.caller, run_id).await?;
            match &mut self.asking {
                None => {
                    if let Some(end) = call.waiting(run_id, &waiting).await? {
                        return Ok(end);
                    }
                }
                Some(asking) => match asking.look(&waiting).await? {
                    Then::Waits => {}
                    Then::Anew => deadline = Instant::now() + self.patience,
                    Then::Ends => return call.late(run_id).await,
                },
            }
            let beat = Instant::now() + self.beat;
            let happened = tokio::select! {
                biased;
                // First what the client said: it may have said it before what happened since.
                said = said(&mut self.asking) => Happened::Said(said),
                events = following.next() => Happened::Events(events?),
                () = sleep_until(deadline) => Happened::Late,
                () = sleep_until(beat) => Happened::Nothing,
            };
            match happened {
                Happened::Events(None) => return call.end(run_id, None).await,
                Happened::Events(Some(batch)) => {
                    if let Some(end) = self.note(&batch).await? {
                        return Ok(end);
                    }
                }
                Happened::Said(said) => match &mut self.asking {
                    None => {}
                    Some(asking) => match asking.heard(said).await? {
                        Then::Anew => deadline = Instant::now() + self.patience,
                        Then::Ends if call.is_waiting(run_id).await => return call.late(run_id).await,
                        // Somebody else has let the run go on at the same moment: its end is what the client is told.
                        Then::Ends | Then::Waits => {}
                    },
                },
                Happened::Nothing => {
                    if let Some(progress) = self.progress.as_mut().filter(|_| !waiting.is_empty()) {
                        progress.beat();
                    }
                }
                Happened::Late => return call.late(run_id).await,
            }
        }
    }

    /// Takes note of events. The end of the run, where they tell of it.
    async fn note(&mut self, batch: &Batch) -> Result<Option<End>, Refusal> {
        if let Some(progress) = &mut self.progress {
            progress.note(batch.events.iter().map(|(_, text)| text.as_ref()));
        }
        if !batch.is_last {
            return Ok(None);
        }
        self.call.end(self.run_id, batch.events.last().map(|(_, text)| text.as_ref())).await.map(Some)
    }
}

/// What the client says; nothing ever, where it was not asked.
async fn said(asking: &mut Option<Asking>) -> Said {
    match asking {
        Some(asking) => asking.said().await,
        None => std::future::pending().await,
    }
}
