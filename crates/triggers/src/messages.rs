//! A trigger that listens to a queue.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use flow::definition::trigger::MAX_RETRY_DELAY_MS;
use runs::Refusal;
use runs::commands::Started;
use surfaces::queue::{Consume, Delivery, LEASE_MS};
use surfaces::{Code, SurfaceError};
use tokio::task::JoinSet;

use super::AFTER_FAILURE;
use super::task::{LONGEST_WAIT, StartResult, TriggerTask};

/// The maximum number of concurrent messages of one trigger. They share commits.
const MAX_CONCURRENT: usize = 16;
/// How long the server of a queue waits for a message before it replies.
const SERVER_WAIT: Duration = Duration::from_secs(5);
/// The delay of a message that the workflow does not want any more. By then, this trigger has ended.
const UNWANTED_MS: u64 = 1000;

/// Starts a run for every message until the trigger ends.
pub(super) async fn listen(task: Arc<TriggerTask>) {
    // Messages that the previous process held, or that wait for a retry, are delivered again now.
    let name = consumer_name(&task);
    task.retry_queue(|| async { task.queue.release(&task.scope(), name.clone()).await }).await;
    let mut in_progress = JoinSet::new();
    while !task.is_ending() {
        while in_progress.len() >= MAX_CONCURRENT || in_progress.try_join_next().is_some() {
            if in_progress.len() >= MAX_CONCURRENT {
                in_progress.join_next().await;
            }
        }
        // Subscribe before reading, so that no publication in between is missed.
        let published = task.published.notified();
        tokio::pin!(published);
        published.as_mut().enable();
        let since = tokio::time::Instant::now();
        match consume(&task, &name).await {
            Some(Ok(Some(delivery))) => drop(in_progress.spawn(start_run(Arc::clone(&task), delivery))),
            Some(Ok(None)) => {
                // A server that waited for a message is asked again immediately. If it replied early, wait here instead.
                let waited = task.queue.waits() && since.elapsed() * 2 > SERVER_WAIT;
                let wait = if waited { Duration::ZERO } else { until_due(&task).await };
                tokio::select! {
                    () = published => {}
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
    while in_progress.join_next().await.is_some() {}
}

/// The consumer name of the trigger in the queue. It is a digest, so that any workflow and trigger id is valid.
fn consumer_name(task: &TriggerTask) -> String {
    let named = format!("{}\0{}", task.listener.workflow_id, task.listener.trigger.consumer);
    format!("trigger-{}", Digest::of_bytes(named.as_bytes()).to_hex())
}

/// The next message; `None` if the trigger ends.
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
        // The call returns immediately. Cancelling it could lose a message that was already delivered.
        return Some(consumed.await);
    }
    tokio::select! {
        consumed = consumed => Some(consumed),
        () = task.ending() => None,
    }
}

/// The time until the queue expects the next message.
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

/// Starts the run of a message, and completes the message.
async fn start_run(task: Arc<TriggerTask>, delivery: Delivery) {
    match task.start(&delivery.id, &delivery.payload, None).await {
        StartResult::Started(Started::Now | Started::Before) => acknowledge(&task, &delivery).await,
        StartResult::Started(Started::Unwanted) => postpone(&task, &delivery, UNWANTED_MS).await,
        StartResult::Refused(refusal) => refuse(&task, &delivery, &refusal).await,
        StartResult::Ending => {
            // The next consumer gets the message immediately. If this fails, the lease expires.
            let _ = task.queue.nack(&task.scope(), delivery.token.clone(), true).await;
        }
    }
}

async fn acknowledge(task: &TriggerTask, delivery: &Delivery) {
    let acked =
        task.retry_queue(|| async { task.queue.ack(&task.scope(), delivery.token.clone()).await }).await;
    // The claim may be deleted only if the message is gone. If it was delivered again, its new consumer needs the claim.
    if let Some(Ok(true)) = acked {
        task.retry_store(|| task.runs.listeners().forget_message(&task.listener.tenant, &delivery.id)).await;
    }
}

async fn postpone(task: &TriggerTask, delivery: &Delivery, delay_ms: u64) {
    task.retry_queue(|| async { task.queue.postpone(&task.scope(), delivery.token.clone(), delay_ms).await })
        .await;
}

/// Postpones the message for another attempt, or dead-letters it after the last.
async fn refuse(task: &TriggerTask, delivery: &Delivery, refusal: &Refusal) {
    let trigger = &task.listener.trigger;
    if delivery.deliveries < trigger.max_attempts {
        postpone(task, delivery, trigger.retry_after_ms(delivery.deliveries)).await;
        return;
    }
    let reason = TriggerTask::reason(refusal);
    let moved = task
        .retry_queue(|| async {
            task.queue.dead_letter(&task.scope(), delivery.token.clone(), reason.clone()).await
        })
        .await;
    match moved {
        Some(Ok(Some(_))) => task.report_dead_letter(&delivery.id, &reason),
        // Another consumer has the message.
        None | Some(Ok(None)) => {}
        Some(Err(error)) if error.code == Code::QueueDeliveryTokenExpired => {}
        // A message can be dead-lettered only a limited number of times. It is kept until the workflow is fixed.
        Some(Err(_)) => postpone(task, delivery, MAX_RETRY_DELAY_MS).await,
    }
}
