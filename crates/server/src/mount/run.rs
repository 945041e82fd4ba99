//! One run for one call: begun, waited for, and ended with the call.
//!
//! The run is begun and watched by a task of its own. A client that hangs up drops the call and nothing else; the task notices, and
//! ends the run. So a run never outlives a client that left without anybody having decided so, not even one that was
//! just being made.

use std::time::Duration;

use host::runs::create::Creation;
use host::runs::{ApiCode, Batch, Caller, Refusal, Runs};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::pending::Waits;
use super::progress::Progress;

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
    Failed { run_id: String, code: String, message: String },
    /// It was ended.
    Cancelled { run_id: String },
    /// A person, or something outside, is needed: which run, and where in it.
    Waiting { run_id: String, status: String, node_id: String },
    /// It goes on, and the call waits no longer.
    Late { run_id: String },
}

/// How a run is watched.
#[derive(Debug)]
pub(super) struct Watch {
    /// For how long.
    pub(super) patience: Duration,
    /// Whether the host is being stopped.
    pub(super) stopping: watch::Receiver<bool>,
    /// Whether the client took the call back.
    pub(super) waits: Waits,
    /// Who is told how far it is.
    pub(super) progress: Option<Progress>,
}

/// Runs a workflow, and waits for its end.
pub(super) async fn run(runs: &Runs, caller: &Caller, body: Value, watch: Watch) -> Result<Started, Refusal> {
    let (here, gone) = oneshot::channel::<()>();
    let call = Call { runs: runs.clone(), caller: caller.clone() };
    let task = tokio::spawn(call.make(body, watch, gone));
    let made = task.await;
    drop(here);
    made.unwrap_or_else(|_| {
        Err(Refusal::new(ApiCode::InternalError, "the call could not be made; try again"))
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
        body: Value,
        Watch { patience, mut stopping, waits, mut progress }: Watch,
        gone: oneshot::Receiver<()>,
    ) -> Result<Started, Refusal> {
        let created = match self.runs.create(&self.caller, &body, Creation::default(), None).await {
            Ok(created) => created,
            Err(refusal) if refusal.code == ApiCode::ValidationError => {
                let told = refusal.body();
                let fields = told["details"]["fields"].as_array().cloned();
                return Ok(Started::Refused(fields.unwrap_or_else(|| vec![told["message"].clone()])));
            }
            Err(refusal) => return Err(refusal),
        };
        let created: Value = serde_json::from_slice(&created.body).unwrap_or_default();
        let run_id = created["runId"].as_str().unwrap_or_default();
        let end = tokio::select! {
            biased;
            end = self.watched(run_id, &mut progress) => end?,
            // Nobody is there to be told. Where the host is being stopped, clients are not the ones who left.
            _ = gone => {
                if !*stopping.borrow() {
                    self.cancel(run_id, "the client of the tool left").await;
                }
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = waits.cancelled() => {
                self.cancel(run_id, "the client took the call back").await;
                End::Cancelled { run_id: run_id.to_owned() }
            }
            () = tokio::time::sleep(patience) => End::Late { run_id: run_id.to_owned() },
            () = stopped(&mut stopping) => End::Late { run_id: run_id.to_owned() },
        };
        Ok(Started::Ended(end))
    }

    async fn cancel(&self, run_id: &str, reason: &str) {
        // One that has ended meanwhile needs no end; for one that cannot be written to, its own limits are left.
        if let Err(refusal) = self.runs.cancel(&self.caller, run_id, Some(reason.to_owned()), None).await {
            tracing::debug!(code = refusal.code.as_str(), "a run was not ended with its call");
        }
    }

    /// Waits until the run is at its end, or needs somebody.
    async fn watched(&self, run_id: &str, progress: &mut Option<Progress>) -> Result<End, Refusal> {
        let mut note = |batch: &Batch| {
            if let Some(progress) = progress {
                progress.note(batch.events.iter().map(|(_, text)| text.as_ref()));
            }
        };
        let mut following = self.runs.follow(&self.caller.tenant, run_id, 0)?;
        loop {
            while let Some(batch) = following.stored()? {
                note(&batch);
                if batch.is_last {
                    return self.end(run_id, batch.events.last().map(|(_, text)| text.as_ref()));
                }
            }
            let (status, _) = self.runs.status(&self.caller, run_id)?;
            if status.is_waiting() {
                return self.waiting(run_id, status.as_str());
            }
            match following.next().await? {
                Some(batch) => {
                    note(&batch);
                    if batch.is_last {
                        return self.end(run_id, batch.events.last().map(|(_, text)| text.as_ref()));
                    }
                }
                None => return self.end(run_id, None),
            }
        }
    }

    /// The end of a run, as its last event tells it to readers: what is sensitive is not there.
    fn end(&self, run_id: &str, last: Option<&str>) -> Result<End, Refusal> {
        let mut last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let (status, _) = self.runs.status(&self.caller, run_id)?;
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

    fn waiting(&self, run_id: &str, status: &str) -> Result<End, Refusal> {
        let open = self.runs.open_interrupts(&self.caller, run_id)?;
        let node_id = open.into_iter().next().map(|open| open.node_id).unwrap_or_default();
        Ok(End::Waiting { run_id: run_id.to_owned(), status: status.to_owned(), node_id })
    }
}
