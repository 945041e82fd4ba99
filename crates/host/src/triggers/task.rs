//! What every trigger does, whatever it listens to.

use std::sync::Arc;
use std::time::Duration;

use canon::time::Timestamp;
use flow::store::Change;
use serde_json::Value;
use surfaces::queue::Queue;
use surfaces::{Code, Scope, SurfaceError, Tenant};
use tokio::sync::{Notify, watch};

use super::{TriggerEvent, TriggerName, TriggerObserver};
use crate::backoff::{Backoff, millis};
use crate::causes;
use crate::runs::listeners::{Listener, Started};
use crate::runs::{Refusal, Runs};

/// How long it is waited for a signal at most: the clock may have been set, or a server may have been away.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest reason of a dead letter, in bytes.
const MAX_REASON_BYTES: usize = 1000;

/// One trigger that listens.
pub(super) struct TriggerTask {
    pub(super) runs: Runs,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) observer: TriggerObserver,
    pub(super) tenant: Tenant,
    pub(super) listener: Listener,
    /// Notified when something is published where it listens.
    pub(super) heard: Arc<Notify>,
    /// Whether it is to end.
    pub(super) ended: watch::Receiver<bool>,
}

/// What came of a message.
pub(super) enum Verdict {
    /// It has its run, from now on or from before.
    Started(Started),
    /// No run can be started for it.
    Refused(Refusal),
    /// The trigger is to end, and the message is not done with.
    Over,
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
        Scope::new(self.tenant.clone(), Timestamp(self.runs.now().0))
    }

    pub(super) fn is_over(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the trigger is to end.
    pub(super) async fn over(&self) {
        // Whoever would say so being gone is as good as being observer.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Waits, and says whether the trigger still listens afterwards.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.over() => false,
        }
    }

    /// Starts the run of a message. As long as the host cannot take it, it is waited for.
    pub(super) async fn start(&self, message_id: &str, payload: &Value, moved: Option<&Change>) -> Verdict {
        let mut backoff = Backoff::new();
        loop {
            let started =
                self.runs.start_by_message(&self.listener, message_id, payload, moved.cloned()).await;
            let refusal = match started {
                Ok(started) => return Verdict::Started(started),
                Err(refusal) => refusal,
            };
            if !refusal.is_host_failure() && refusal.retry_after.is_none() {
                return Verdict::Refused(refusal);
            }
            let step = backoff.failed_until(refusal.retry_after);
            if !self.retry(step, &refusal, "the run of a message could not be started; retrying").await {
                return Verdict::Over;
            }
        }
    }

    /// Asks the queue until it answers; nothing where the trigger is to end before.
    pub(super) async fn insist<T, F>(&self, ask: impl Fn() -> F) -> Option<Result<T, SurfaceError>>
    where
        F: Future<Output = Result<T, SurfaceError>>,
    {
        let mut backoff = Backoff::new();
        loop {
            let error = match ask().await {
                Err(error) if error.code == Code::QueueBackendUnavailable => error,
                answered => return Some(answered),
            };
            if !self.retry(backoff.failed(), &error, "the queue of a trigger did not answer; retrying").await
            {
                return None;
            }
        }
    }

    /// Does something with the store of runs until it is done; nothing where the trigger is to end before.
    pub(super) async fn persist<T, F>(&self, act: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let mut backoff = Backoff::new();
        loop {
            let refusal = match act().await {
                Ok(done) => return Some(done),
                Err(refusal) => refusal,
            };
            if !self.retry(backoff.failed(), &refusal, "the store failed for a trigger; retrying").await {
                return None;
            }
        }
    }

    /// Logs an attempt that failed, and waits. Says whether the trigger still listens afterwards.
    async fn retry(
        &self,
        (attempt, pause): (u32, Duration),
        error: &(dyn std::error::Error + Send + Sync + 'static),
        what: &'static str,
    ) -> bool {
        self.warn(Some(attempt), pause, error, what);
        self.pause(pause).await
    }

    /// Logs that something is tried again.
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

    /// Why no run was started, for whoever reads the dead letter.
    pub(super) fn reason(refusal: &Refusal) -> String {
        let mut reason = flow::redact::text(&refusal.to_string()).to_string();
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason
    }

    pub(super) fn tell_dead_letter(&self, message_id: &str, reason: &str) {
        (self.observer)(TriggerEvent::DeadLetter {
            trigger: self.named(),
            message_id: message_id.to_owned(),
            reason: reason.to_owned(),
        });
    }
}
