//! Messages that start runs, and what is told of them.

use std::sync::Arc;
use std::time::Duration;

use host::runs::Runs;
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

fn told(heard: Heard) {
    match heard {
        Heard::Begun(Named { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(tenant, workflow_id, trigger_id, source, "a trigger listens");
        }
        Heard::Ended(Named { tenant, workflow_id, trigger_id, source }) => {
            tracing::info!(tenant, workflow_id, trigger_id, source, "a trigger does not listen any more");
        }
        Heard::DeadLetter {
            trigger: Named { tenant, workflow_id, trigger_id, source },
            message_id,
            reason,
        } => {
            tracing::warn!(
                tenant,
                workflow_id,
                trigger_id,
                source,
                message_id,
                reason,
                "no run could be started for a message, which is a dead letter now"
            );
        }
    }
}
