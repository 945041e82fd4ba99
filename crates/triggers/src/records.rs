//! A trigger that listens to a stream.
//!
//! Records start their runs one after the other. The commit of each run also stores the position in the stream.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use ports::runs::Change;
use runs::Refusal;
use runs::commands::Started;
use runs::listeners::first_move;
use serde_json::json;
use surfaces::Scope;
use surfaces::queue::{DEAD_LETTERS, ReadFrom, Record};

use super::AFTER_FAILURE;
use super::task::{LONGEST_WAIT, StartResult, TriggerTask};

/// The number of records per read.
const PAGE: usize = 16;
/// How often a stream on a server is read again after a notification. The notification can arrive before the record.
const READS: u32 = 6;
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// The delay after a record that the workflow does not want any more. By then, this trigger has ended.
const UNWANTED: Duration = Duration::from_secs(1);

/// The position of the trigger after a record.
enum Position {
    After(String),
    /// Another process moved it: read it from the store.
    Unknown,
    Ending,
}

/// Starts a run for every record until the trigger ends.
pub(super) async fn listen(task: Arc<TriggerTask>) {
    let Some(mut position) = first_position(&task).await else { return };
    let mut reads = 0;
    while !task.is_ending() {
        // Subscribe before reading, so that no publication in between is missed.
        let published = task.published.notified();
        tokio::pin!(published);
        published.as_mut().enable();
        let from = position.clone().map_or(ReadFrom::Beginning, ReadFrom::Cursor);
        let source = task.listener.trigger.source.clone();
        let page = match task.queue.stream_read(&task.scope(), source, from, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                task.warn(None, AFTER_FAILURE, &error, "the stream of a trigger failed; retrying");
                task.pause(AFTER_FAILURE).await;
                continue;
            }
        };
        if page.records.is_empty() {
            let wait = match reads {
                0 => LONGEST_WAIT,
                left => FIRST_DELAY * (1 << (READS - left)),
            };
            reads = reads.saturating_sub(1);
            tokio::select! {
                () = published => reads = if task.queue.waits() { READS } else { 0 },
                _ = task.pause(wait) => {}
            }
            continue;
        }
        reads = 0;
        for record in &page.records {
            match start_run(&task, position.as_ref(), record).await {
                Position::After(next) => position = Some(next),
                Position::Unknown => {
                    let Some(stored) = stored_position(&task).await else { return };
                    position = stored;
                    break;
                }
                Position::Ending => return,
            }
        }
    }
}

async fn stored_position(task: &TriggerTask) -> Option<Option<String>> {
    task.retry_store(|| task.runs.listeners().position(&task.listener)).await
}

/// The position where reading starts. For a stream that is read from its end, registration stores the position, unless the server did not
/// respond then.
async fn first_position(task: &TriggerTask) -> Option<Option<String>> {
    let position = stored_position(task).await?;
    let trigger = &task.listener.trigger;
    if position.is_some() || trigger.from_beginning {
        return Some(position);
    }
    let end = loop {
        let read = task.queue.stream_read(&task.scope(), trigger.source.clone(), ReadFrom::Now, 1).await;
        match read {
            Ok(end) => break end.next,
            Err(error) => {
                task.warn(None, AFTER_FAILURE, &error, "the stream of a trigger failed; retrying");
                if !task.pause(AFTER_FAILURE).await {
                    return None;
                }
            }
        }
    };
    let moved = first_move(&task.listener.tenant, &task.listener.workflow_id, trigger, end);
    task.retry_store(|| task.runs.listeners().move_position(moved.clone())).await?;
    stored_position(task).await
}

async fn start_run(task: &TriggerTask, position: Option<&String>, record: &Record) -> Position {
    let trigger = &task.listener.trigger;
    let moved = Change::MoveListener {
        tenant: task.listener.tenant.clone(),
        workflow_id: task.listener.workflow_id.clone(),
        consumer: trigger.consumer.clone(),
        from: position.cloned(),
        to: record.next.clone(),
    };
    let mut attempts = 0;
    loop {
        let refusal = match task.start(&record.id, &record.payload, Some(&moved)).await {
            StartResult::Started(Started::Now) => return Position::After(record.next.clone()),
            StartResult::Started(Started::Before) => return Position::Unknown,
            StartResult::Started(Started::Unwanted) => {
                if !task.pause(UNWANTED).await {
                    return Position::Ending;
                }
                continue;
            }
            StartResult::Refused(refusal) => refusal,
            StartResult::Ending => return Position::Ending,
        };
        attempts += 1;
        if attempts >= trigger.max_attempts {
            return dead_letter(task, record, &moved, &refusal).await;
        }
        if !task.pause(Duration::from_millis(trigger.retry_after_ms(attempts))).await {
            return Position::Ending;
        }
    }
}

/// Publishes a record as a dead letter, and moves the position after it. The effect id makes sure that it is published only once, even after
/// a crash.
async fn dead_letter(task: &TriggerTask, record: &Record, moved: &Change, refusal: &Refusal) -> Position {
    let (listener, reason) = (&task.listener, TriggerTask::reason(refusal));
    let subject = format!("{}{DEAD_LETTERS}", listener.trigger.source);
    let letter = json!({"original": record.payload, "deadLetterReason": reason});
    let named = format!("{}\0{}\0{}", listener.workflow_id, listener.trigger.consumer, record.id);
    let effect = format!("dead-{}", Digest::of_bytes(named.as_bytes()).to_hex());
    let published = task.retry_queue(|| async {
        let scope = Scope { effect: Some(effect.clone()), ..task.scope() };
        task.queue.publish(&scope, subject.clone(), letter.clone()).await
    });
    // A record that is too large for a message stays only in its stream.
    if published.await.is_none() {
        return Position::Ending;
    }
    match task.retry_store(|| task.runs.listeners().move_position(moved.clone())).await {
        None => Position::Ending,
        Some(true) => {
            task.report_dead_letter(&record.id, &reason);
            Position::After(record.next.clone())
        }
        Some(false) => Position::Unknown,
    }
}
