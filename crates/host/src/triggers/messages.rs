//! A trigger that listens to a queue.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use flow::definition::trigger::MAX_RETRY_DELAY_MS;
use surfaces::queue::{Consume, Delivery, LEASE_MS};
use surfaces::{Code, SurfaceError};
use tokio::task::JoinSet;

use super::AFTER_FAILURE;
use super::task::{LONGEST_WAIT, TriggerTask, Verdict};
use crate::runs::Refusal;
use crate::runs::listeners::Started;

/// How many messages of one trigger are under way at once: they share commits.
const AT_ONCE: usize = 16;
/// How long a server is waited at for a message before it is asked anew.
const SERVER_WAIT: Duration = Duration::from_secs(5);
/// How long a message is left alone that the workflow does not want any more: by then this trigger has ended.
const UNWANTED_MS: u64 = 1000;

/// Starts a run for every message, until the trigger is to end.
pub(super) async fn listen(task: Arc<TriggerTask>) {
    // What the last process held when it ended, and what waits for another attempt, is worth one now.
    let name = name(&task);
    task.insist(|| async { task.queue.release(&task.scope(), name.clone()).await }).await;
    let mut at_work = JoinSet::new();
    while !task.is_over() {
        while at_work.len() >= AT_ONCE || at_work.try_join_next().is_some() {
            if at_work.len() >= AT_ONCE {
                at_work.join_next().await;
            }
        }
        // Before the look, so that nothing which is published meanwhile is missed.
        let heard = task.heard.notified();
        tokio::pin!(heard);
        heard.as_mut().enable();
        let since = tokio::time::Instant::now();
        match consume(&task, &name).await {
            Some(Ok(Some(delivery))) => drop(at_work.spawn(take(Arc::clone(&task), delivery))),
            Some(Ok(None)) => {
                // A server that was waited at is waited at again, unless it did not let itself be waited at.
                let waited = task.queue.waits() && since.elapsed() * 2 > SERVER_WAIT;
                let wait = if waited { Duration::ZERO } else { until_due(&task).await };
                tokio::select! {
                    () = heard => {}
                    _ = task.pause(wait) => {}
                }
            }
            Some(Err(error)) => {
                task.warn(None, AFTER_FAILURE, &error, "the queue of a trigger failed; retrying");
                task.pause(AFTER_FAILURE).await;
            }
            None => {}
        }
    }
    while at_work.join_next().await.is_some() {}
}

/// The name under which the queue knows the trigger. Any workflow and any trigger has one that fits.
fn name(task: &TriggerTask) -> String {
    let named = format!("{}\0{}", task.listener.workflow_id, task.listener.trigger.consumer);
    format!("trigger-{}", Digest::of_bytes(named.as_bytes()).to_hex())
}

/// The next message, or nothing where the trigger is to end.
async fn consume(task: &TriggerTask, name: &str) -> Option<Result<Option<Delivery>, SurfaceError>> {
    let scope = task.scope();
    let consume = Consume {
        subject: task.listener.trigger.source.clone(),
        consumer: Some(name.to_owned()),
        lease_ms: LEASE_MS,
        wait_ms: u64::try_from(SERVER_WAIT.as_millis()).unwrap_or(u64::MAX),
    };
    let consumed = task.queue.consume(&scope, consume);
    if !task.queue.waits() {
        // It answers at once; given up, it might have handed over a message to nobody.
        return Some(consumed.await);
    }
    tokio::select! {
        consumed = consumed => Some(consumed),
        () = task.over() => None,
    }
}

/// How long nothing will be there, as far as the queue knows.
async fn until_due(task: &TriggerTask) -> Duration {
    let scope = task.scope();
    match task.queue.due(&scope, &task.listener.trigger.source).await {
        Ok(None) => LONGEST_WAIT,
        Ok(Some(due)) => Duration::from_millis(due.0.saturating_sub(scope.now.0).max(1)).min(LONGEST_WAIT),
        Err(error) => {
            task.warn(None, AFTER_FAILURE, &error, "the queue of a trigger failed; retrying");
            AFTER_FAILURE
        }
    }
}

/// Starts the run of a message, and is done with it.
async fn take(task: Arc<TriggerTask>, delivery: Delivery) {
    match task.start(&delivery.id, &delivery.payload, None).await {
        Verdict::Started(Started::Now | Started::Before) => acknowledge(&task, &delivery).await,
        Verdict::Started(Started::Unwanted) => postpone(&task, &delivery, UNWANTED_MS).await,
        Verdict::Refused(refusal) => refuse(&task, &delivery, &refusal).await,
        Verdict::Over => {
            // At once for whoever comes next; where that fails, the lease ends by itself.
            let _ = task.queue.nack(&task.scope(), delivery.token.clone(), true).await;
        }
    }
}

async fn acknowledge(task: &TriggerTask, delivery: &Delivery) {
    let acked = task.insist(|| async { task.queue.ack(&task.scope(), delivery.token.clone()).await }).await;
    // Only who has seen it go may forget it. Where it was handed over again, whoever has it now finds the claim.
    if let Some(Ok(true)) = acked {
        task.persist(|| task.runs.forget_message(&task.listener.tenant, &delivery.id)).await;
    }
}

async fn postpone(task: &TriggerTask, delivery: &Delivery, delay_ms: u64) {
    task.insist(|| async { task.queue.postpone(&task.scope(), delivery.token.clone(), delay_ms).await })
        .await;
}

/// The message waits for another attempt, or is put aside after the last.
async fn refuse(task: &TriggerTask, delivery: &Delivery, refusal: &Refusal) {
    let trigger = &task.listener.trigger;
    if delivery.deliveries < trigger.max_attempts {
        postpone(task, delivery, trigger.retry_after_ms(delivery.deliveries)).await;
        return;
    }
    let reason = TriggerTask::reason(refusal);
    let buried = task
        .insist(|| async {
            task.queue.dead_letter(&task.scope(), delivery.token.clone(), reason.clone()).await
        })
        .await;
    match buried {
        Some(Ok(Some(_))) => task.tell_dead_letter(&delivery.id, &reason),
        // Somebody else has it.
        None | Some(Ok(None)) => {}
        Some(Err(error)) if error.code == Code::QueueDeliveryTokenExpired => {}
        // A dead letter of dead letters has an end. It is kept for whoever mends the workflow.
        Some(Err(_)) => postpone(task, delivery, MAX_RETRY_DELAY_MS).await,
    }
}
