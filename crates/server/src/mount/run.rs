//! One run for one call: started, awaited, and cancelled with the call.
//!
//! A separate task starts and watches the run. When a client disconnects, only the call is dropped; the task
//! notices and cancels the run. So a run does not continue after its client disconnected, even if it was just
//! being started. A run that waits for a person does continue: its work is kept, and it can still be
//! answered.

use std::time::Duration;

use flow::event::wire::RawEvent;
use flow::id::{NodeId, RunId};
use flow::run::RunStatus;
use ports::Cause;
use runs::create::Creation;
use runs::{ApiCode, Batch, Caller, CreatedRun, Direct, NewRun, Refusal, Runs, Waiting};
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::elicitation::{ClientRequests, NextStep};
use super::pending::PendingCall;
use super::pending_requests::ElicitationResponse;
use super::progress::Progress;

#[derive(Debug)]
pub(super) enum CallResult {
    /// The workflow ran.
    Ended(End),
    /// The inputs are invalid; no run was started.
    Refused(Vec<Value>),
}

/// The state of the run when the call is answered.
#[derive(Debug)]
pub(super) enum End {
    /// Completed with these outputs.
    Completed(Value),
    /// Failed, with a code and a message.
    Failed { run_id: RunId, code: String, message: String },
    /// Cancelled before it completed.
    Cancelled { run_id: RunId },
    /// The run, or a child run, waits for a person or an external event.
    Waiting { run_id: RunId, waiting_at: WaitingNode },
    /// The run continues, but the call does not wait any longer.
    TimedOut { run_id: RunId },
}

/// Where a run waits: the run, its status, and the node.
#[derive(Debug)]
pub(super) struct WaitingNode {
    pub(super) run_id: RunId,
    pub(super) status: String,
    pub(super) node_id: NodeId,
}

pub(super) struct WatchOptions {
    /// The timeout, which restarts when the client answers a question.
    pub(super) timeout: Duration,
    /// The interval of progress reports.
    pub(super) progress_interval: Duration,
    /// Whether the host is shutting down.
    pub(super) stopping: watch::Receiver<bool>,
    /// Signals that the client cancelled the call.
    pub(super) waits: PendingCall,
    /// Reports progress, if the client requested it.
    pub(super) progress: Option<Progress>,
    /// Asks the client, if it supports elicitation.
    pub(super) client_requests: Option<ClientRequests>,
}

/// Runs a workflow, and waits for its end.
pub(super) async fn run(
    runs: &Runs,
    caller: &Caller,
    new: NewRun,
    watch: WatchOptions,
) -> Result<CallResult, Refusal> {
    let (here, gone) = oneshot::channel::<()>();
    let call = WorkflowCall { runs: runs.clone(), caller: caller.clone() };
    let task = tokio::spawn(call.make(new, watch, gone));
    let made = task.await;
    drop(here);
    made.unwrap_or_else(|error| {
        let refusal = Refusal::new(ApiCode::InternalError, "the call could not be made; retry");
        Err(refusal.because(Cause::new(error)))
    })
}

/// PendingCall until the host shuts down.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender is dropped only with the host itself.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

struct WorkflowCall {
    runs: Runs,
    caller: Caller,
}

impl WorkflowCall {
    async fn make(
        self,
        new: NewRun,
        WatchOptions { timeout, progress_interval, mut stopping, waits, progress, client_requests }: WatchOptions,
        gone: oneshot::Receiver<()>,
    ) -> Result<CallResult, Refusal> {
        let run_id = &match self.runs.commands().create(&self.caller, new, Creation::default(), Direct).await
        {
            Ok(CreatedRun { run_id, .. }) => run_id,
            Err(refusal) if refusal.code == ApiCode::ValidationError => {
                return Ok(CallResult::Refused(wrong_inputs(&refusal)));
            }
            Err(refusal) => return Err(refusal),
        };
        let watching =
            WatchedRun { call: &self, run_id, progress, client_requests, timeout, progress_interval };
        let end = tokio::select! {
            biased;
            end = watching.end() => end?,
            // The client disconnected. During a shutdown, the host closed the connection instead, so the run
            // continues.
            _ = gone => {
                // From here on another call may have the id of this one.
                drop(waits);
                if !*stopping.borrow() && !self.is_waiting(run_id).await {
                    self.cancel(run_id, "the client disconnected").await;
                }
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = waits.cancelled() => {
                self.cancel(run_id, "the client cancelled the call").await;
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = stopped(&mut stopping) => self.timed_out(run_id).await?,
        };
        Ok(CallResult::Ended(end))
    }

    async fn cancel(&self, run_id: &RunId, reason: &str) {
        // The run may have ended already. If it cannot be written to, its own limits apply.
        if let Err(refusal) =
            self.runs.commands().cancel(&self.caller, run_id, Some(reason.to_owned()), Direct).await
        {
            tracing::debug!(code = refusal.code.as_str(), "a run was not cancelled with its call");
        }
    }

    async fn is_waiting(&self, run_id: &RunId) -> bool {
        self.runs.queries().waiting(&self.caller, run_id).await.is_ok_and(|waiting| !waiting.is_empty())
    }

    /// The timeout is reached.
    async fn timed_out(&self, run_id: &RunId) -> Result<End, Refusal> {
        let waiting = self.runs.queries().waiting(&self.caller, run_id).await?;
        Ok(self
            .waiting(run_id, &waiting)
            .await?
            .unwrap_or_else(|| End::TimedOut { run_id: run_id.to_owned() }))
    }

    /// The result of a run, from its last event as readers see it, without sensitive values.
    async fn end(&self, run_id: &RunId, last: Option<RawEvent>) -> Result<End, Refusal> {
        let (view, _) = self.runs.queries().view(&self.caller, run_id).await?;
        let run_id = run_id.to_owned();
        Ok(match view.status {
            RunStatus::Completed => End::Completed(last.and_then(RawEvent::into_outputs).unwrap_or_default()),
            RunStatus::Failed => {
                let (code, message) = view.error.map(|error| (error.code, error.message)).unwrap_or_default();
                End::Failed { run_id, code, message }
            }
            RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Paused
            | RunStatus::WaitingApproval
            | RunStatus::WaitingInput
            | RunStatus::WaitingExternal
            | RunStatus::Cancelling
            | RunStatus::Cancelled => End::Cancelled { run_id },
        })
    }

    /// The result if a person is needed: the first run that waits for nothing else.
    async fn waiting(&self, run_id: &RunId, waiting: &[Waiting]) -> Result<Option<End>, Refusal> {
        let Some(run) = waiting.iter().find(|run| run.status.is_waiting()) else { return Ok(None) };
        let open = self.runs.queries().open_interrupts(&self.caller, &run.run_id).await?;
        let node_id = open.into_iter().next().map_or_else(|| NodeId::new(""), |open| open.node_id);
        let waiting_at = WaitingNode { run_id: run.run_id.clone(), status: run.status.to_string(), node_id };
        Ok(Some(End::Waiting { run_id: run_id.to_owned(), waiting_at }))
    }
}

/// A run while its call waits.
struct WatchedRun<'c> {
    call: &'c WorkflowCall,
    run_id: &'c RunId,
    progress: Option<Progress>,
    client_requests: Option<ClientRequests>,
    timeout: Duration,
    progress_interval: Duration,
}

/// What happened while waiting.
enum Wakeup {
    Events(Option<Batch>),
    Response(ElicitationResponse),
    /// The interval of progress reports elapsed.
    Tick,
    /// The timeout was reached.
    TimedOut,
}

impl WatchedRun<'_> {
    /// PendingCall for the end, and cancels the open request to the client.
    async fn end(mut self) -> Result<End, Refusal> {
        let end = self.until_end().await;
        if let Some(client_requests) = &mut self.client_requests {
            client_requests.withdraw("the call is answered").await;
        }
        end
    }

    /// PendingCall until the run ends, or needs a person other than the client's user.
    async fn until_end(&mut self) -> Result<End, Refusal> {
        let Self { call, run_id, .. } = *self;
        let mut following = call.runs.queries().follow(&call.caller.tenant, run_id, 0).await?.with_below();
        let mut deadline = Instant::now() + self.timeout;
        loop {
            while let Some(batch) = following.stored().await? {
                if let Some(end) = self.note(&batch).await? {
                    return Ok(end);
                }
            }
            let waiting = call.runs.queries().waiting(&call.caller, run_id).await?;
            match &mut self.client_requests {
                None => {
                    if let Some(end) = call.waiting(run_id, &waiting).await? {
                        return Ok(end);
                    }
                }
                Some(client_requests) => match client_requests.update(&waiting).await? {
                    NextStep::Wait => {}
                    NextStep::RestartTimeout => deadline = Instant::now() + self.timeout,
                    NextStep::EndCall => return call.timed_out(run_id).await,
                },
            }
            let beat = Instant::now() + self.progress_interval;
            let happened = tokio::select! {
                biased;
                // Handle the client's response first: it may precede the events.
                response = response(&mut self.client_requests) => Wakeup::Response(response),
                events = following.next() => Wakeup::Events(events?),
                () = sleep_until(deadline) => Wakeup::TimedOut,
                () = sleep_until(beat) => Wakeup::Tick,
            };
            match happened {
                Wakeup::Events(None) => return call.end(run_id, None).await,
                Wakeup::Events(Some(batch)) => {
                    if let Some(end) = self.note(&batch).await? {
                        return Ok(end);
                    }
                }
                Wakeup::Response(response) => match &mut self.client_requests {
                    None => {}
                    Some(client_requests) => match client_requests.handle_response(response).await? {
                        NextStep::RestartTimeout => deadline = Instant::now() + self.timeout,
                        NextStep::EndCall if call.is_waiting(run_id).await => {
                            return call.timed_out(run_id).await;
                        }
                        // The run was continued elsewhere at the same moment, so wait for its end.
                        NextStep::EndCall | NextStep::Wait => {}
                    },
                },
                Wakeup::Tick => {
                    if let Some(progress) = self.progress.as_mut().filter(|_| !waiting.is_empty()) {
                        progress.tick();
                    }
                }
                Wakeup::TimedOut => return call.timed_out(run_id).await,
            }
        }
    }

    /// Handles events. Returns the result if the run ended.
    async fn note(&mut self, batch: &Batch) -> Result<Option<End>, Refusal> {
        if self.progress.is_none() && !batch.is_last {
            return Ok(None);
        }
        let mut events = batch.decoded()?;
        if let Some(progress) = &mut self.progress {
            progress.note(events.iter().map(|event| &event.kind));
        }
        if !batch.is_last {
            return Ok(None);
        }
        self.call.end(self.run_id, events.pop()).await.map(Some)
    }
}

/// What is wrong with the inputs: each invalid field, or the message if no field is named.
fn wrong_inputs(refusal: &Refusal) -> Vec<Value> {
    let mut wrong = match refusal.details.get("fields") {
        Some(Value::Array(fields)) => fields.clone(),
        Some(_) | None => vec![refusal.message.as_str().into()],
    };
    // A message can quote an input.
    wrong.iter_mut().for_each(flow::redact::value);
    wrong
}

/// The client's response; pending forever if there is no open request.
async fn response(client_requests: &mut Option<ClientRequests>) -> ElicitationResponse {
    match client_requests {
        Some(client_requests) => client_requests.response().await,
        None => std::future::pending().await,
    }
}
