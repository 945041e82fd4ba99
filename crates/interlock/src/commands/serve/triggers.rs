//! Messages that start runs, and what is told of them.

use std::sync::Arc;
use std::time::Duration;

use host::runs::{Runs, SilentTrigger};
use host::triggers::{Heard, Named};
use tokio::task::JoinHandle;

/// How long a stop waits for triggers to give back what they hold. What they still hold then comes back by itself, and starts nothing twice.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the runs of messages until the host is drained.
pub(super) async fn keep(runs: &Runs) {
    runs.keep_listening(Arc::new(told)).await;
}

/// Waits for triggers that were told to end.
pub(super) async fn end(mut listening: JoinHandle<()>) {
    if tokio::time::timeout(PATIENCE, &mut listening).await.is_err() {
        listening.abort();
    }
}

/// Names the triggers that were registered by an earlier version and never fire: their workflows run, and nothing starts them.
pub(super) fn warn_of_silent(runs: &Runs) {
    match runs.silent_triggers() {
        Ok(silent) => {
            for SilentTrigger { tenant, workflow_id, trigger } in silent {
                tracing::warn!(
                    tenant = tenant.as_str(),
                    workflow_id = workflow_id.as_str(),
                    trigger_id = trigger.id,
                    trigger_type = trigger.kind.as_str(),
                    "this trigger is enabled and never fires: its type is not served; register the workflow again without it"
                );
            }
        }
        Err(refusal) => {
            tracing::warn!(reason = refusal.message, "the triggers of stored workflows were not checked");
        }
    }
}

fn told(heard: Heard) {
    match heard {
        Heard::Begun(Named { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(
                tenant = tenant.as_str(),
                workflow_id = workflow_id.as_str(),
                trigger_id,
                source,
                "a trigger listens"
            );
        }
        Heard::Ended(Named { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(
                tenant = tenant.as_str(),
                workflow_id = workflow_id.as_str(),
                trigger_id,
                source,
                "a trigger does not listen any more"
            );
        }
        Heard::DeadLetter {
            trigger: Named { tenant, workflow_id, trigger_id, source },
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
                "no run could be started for a message, which is a dead letter now"
            );
        }
    }
}
