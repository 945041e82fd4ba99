//! What all triggers have in common.

use std::sync::Arc;
use std::time::Duration;

use canon::time::Timestamp;
use ports::runs::Change;
use runs::commands::Started;
use runs::listeners::Listener;
use runs::{Refusal, Runs};
use serde_json::Value;
use surfaces::queue::Queue;
use surfaces::{Code, Scope, SurfaceError, Tenant};
use system::backoff::{Backoff, millis};
use system::causes;
use tokio::sync::{Notify, watch};

use super::{TriggerEvent, TriggerName, TriggerObserver};

/// The maximum time to wait for a notification. One can be missing, if the clock was changed or a server was unreachable.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The maximum length of the reason of a dead letter, in bytes.
const MAX_REASON_BYTES: usize = 1000;

/// A listening trigger.
pub(super) struct TriggerTask {
    pub(super) runs: Runs,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) observer: TriggerObserver,
    pub(super) tenant: Tenant,
    pub(super) listener: Listener,
    /// Notified when something is published to its source.
    pub(super) published: Arc<Notify>,
    /// Whether the trigger must end.
    pub(super) ended: watch::Receiver<bool>,
}

/// The result of starting a run for a message.
pub(super) enum StartResult {
    /// The run exists: it was started now or before.
    Started(Started),
    /// The run was refused.
    Refused(Refusal),
    /// The trigger ends, and the message is not completed.
    Ending,
}

impl TriggerTask {
    pub(super) fn named(&self) -> TriggerName {
        TriggerName {
            tenant: self.listener.tenant.clone(),
            workflow_id: self.listener.workflow_id.clone(),
            trigger_id: self.listener.trigger.id.clone(),
            source: self.listener.trigger.source.clone(),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope::new(self.tenant.clone(), Timestamp(self.runs.records().now().0))
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the trigger must end.
    pub(super) async fn ending(&self) {
        // If the sender is gone, the trigger must end, too.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Waits. Returns whether the trigger still listens afterwards.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.ending() => false,
        }
    }

    /// Starts the run of a message. Retries while the host is overloaded or fails.
    pub(super) async fn start(
        &self,
        message_id: &str,
        payload: &Value,
        moved: Option<&Change>,
    ) -> StartResult {
        let mut backoff = Backoff::new();
        loop {
            let started = self
                .runs
                .commands()
                .start_by_message(&self.listener, message_id, payload, moved.cloned())
                .await;
            let refusal = match started {
                Ok(started) => return StartResult::Started(started),
                Err(refusal) => refusal,
            };
            if !refusal.is_host_failure() && refusal.retry_after.is_none() {
                return StartResult::Refused(refusal);
            }
            let step = backoff.failed_until(refusal.retry_after);
            if !self.retry(step, &refusal, "the run of a message could not be started; retrying").await {
                return StartResult::Ending;
            }
        }
    }

    /// Calls the queue until it responds; `None` if the trigger ends before.
    pub(super) async fn retry_queue<T, F>(&self, call: impl Fn() -> F) -> Option<Result<T, SurfaceError>>
    where
        F: Future<Output = Result<T, SurfaceError>>,
    {
        let mut backoff = Backoff::new();
        loop {
            let error = match call().await {
                Err(error) if error.code == Code::QueueBackendUnavailable => error,
                result => return Some(result),
            };
            if !self.retry(backoff.failed(), &error, "the queue of a trigger did not respond; retrying").await
            {
                return None;
            }
        }
    }

    /// Calls the run store until it succeeds; `None` if the trigger ends before.
    pub(super) async fn retry_store<T, F>(&self, call: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let mut backoff = Backoff::new();
        loop {
            let refusal = match call().await {
                Ok(done) => return Some(done),
                Err(refusal) => refusal,
            };
            if !self.retry(backoff.failed(), &refusal, "the store failed for a trigger; retrying").await {
                return None;
            }
        }
    }

    /// Logs a failed attempt, and waits. Returns whether the trigger still listens afterwards.
    async fn retry(
        &self,
        (attempt, pause): (u32, Duration),
        error: &(dyn std::error::Error + Send + Sync + 'static),
        what: &'static str,
    ) -> bool {
        self.warn(Some(attempt), pause, error, what);
        self.pause(pause).await
    }

    /// Logs a retry.
    pub(super) fn warn(
        &self,
        attempt: Option<u32>,
        pause: Duration,
        error: &(dyn std::error::Error + Send + Sync + 'static),
        what: &'static str,
    ) {
        let Listener { tenant, workflow_id, trigger } = &self.listener;
        tracing::warn!(
            tenant = tenant.as_str(),
            workflow.id = workflow_id.as_str(),
            trigger.id = trigger.id,
            attempt,
            retry_in_ms = millis(pause),
            cause = causes(error),
            "{what}",
        );
    }

    /// Why no run was started, for the reader of the dead letter.
    pub(super) fn reason(refusal: &Refusal) -> String {
        let mut reason = flow::redact::text(&refusal.to_string()).to_string();
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason
    }

    pub(super) fn report_dead_letter(&self, message_id: &str, reason: &str) {
        (self.observer)(TriggerEvent::DeadLetter {
            trigger: self.named(),
            message_id: message_id.to_owned(),
            reason: reason.to_owned(),
        });
    }
}
