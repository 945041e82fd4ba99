//! Starts runs from queue messages, and logs trigger events.

use std::sync::Arc;
use std::time::Duration;

use runs::{Runs, SilentTrigger};
use tokio::task::JoinHandle;
use triggers::{TriggerEvent, TriggerName};

/// How long shutdown waits for triggers to return their messages. Unreturned messages are
/// redelivered and start nothing twice.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts runs for messages until the host is drained.
pub(super) async fn keep(runs: &Runs) {
    triggers::keep_listening(runs, Arc::new(log_event)).await;
}

/// Waits for stopped triggers.
pub(super) async fn end(mut listening: JoinHandle<()>) {
    if tokio::time::timeout(PATIENCE, &mut listening).await.is_err() {
        listening.abort();
    }
}

/// Logs triggers registered by an earlier version that never fire because their type is not
/// supported.
pub(super) async fn warn_of_silent(runs: &Runs) {
    match runs.definitions().silent_triggers().await {
        Ok(silent) => {
            for SilentTrigger { tenant, workflow_id, trigger } in silent {
                tracing::warn!(
                    tenant = tenant.as_str(),
                    workflow_id = workflow_id.as_str(),
                    trigger_id = trigger.id,
                    trigger_type = trigger.kind.as_str(),
                    "this trigger never fires because its type is not supported; register the workflow again without it"
                );
            }
        }
        Err(refusal) => {
            tracing::warn!(reason = refusal.message, "cannot check the triggers of stored workflows");
        }
    }
}

fn log_event(event: TriggerEvent) {
    match event {
        TriggerEvent::Begun(TriggerName { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(
                tenant = tenant.as_str(),
                workflow_id = workflow_id.as_str(),
                trigger_id,
                source,
                "trigger started"
            );
        }
        TriggerEvent::Ended(TriggerName { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(
                tenant = tenant.as_str(),
                workflow_id = workflow_id.as_str(),
                trigger_id,
                source,
                "trigger stopped"
            );
        }
        TriggerEvent::DeadLetter {
            trigger: TriggerName { tenant, workflow_id, trigger_id, source },
            message_id,
            reason,
        } => {
            tracing::warn!(
                tenant = tenant.as_str(),
                workflow_id = workflow_id.as_str(),
                trigger_id,
                source,
                message_id,
                reason,
                "cannot start a run for a message; moved it to the dead letters"
            );
        }
    }
}
