//! A trigger that listens to a stream.
//!
//! Records start their runs one after the other, in their order. How far the trigger has read is recorded in the commit of each run.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use flow::store::Change;
use serde_json::json;
use surfaces::Scope;
use surfaces::queue::{DEAD_LETTERS, ReadFrom, Record};

use super::AFTER_FAILURE;
use super::task::{LONGEST_WAIT, TriggerTask, Verdict};
use crate::runs::Refusal;
use crate::runs::listeners::{Started, first_move};

/// How many records are read at once.
const PAGE: usize = 16;
/// How often a stream of a server is looked at again after its signal: the signal may be there before the record.
const LOOKS: u32 = 6;
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// How long to wait with a record that the workflow does not want any more: by then this trigger has ended.
const UNWANTED: Duration = Duration::from_secs(1);

/// Where the trigger is after a record.
enum Step {
    Behind(String),
    /// Somewhere that only the store knows.
    Elsewhere,
    /// It is to end.
    Over,
}

/// Starts a run for every record, until the trigger is to end.
pub(super) async fn listen(task: Arc<TriggerTask>) {
    let Some(mut place) = begin(&task).await else { return };
    let mut looks = 0;
    while !task.is_over() {
        // Before the look, so that nothing which is published meanwhile is missed.
        let heard = task.heard.notified();
        tokio::pin!(heard);
        heard.as_mut().enable();
        let from = place.clone().map_or(ReadFrom::Beginning, ReadFrom::Cursor);
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
            let wait = match looks {
                0 => LONGEST_WAIT,
                left => FIRST_LOOK * (1 << (LOOKS - left)),
            };
            looks = looks.saturating_sub(1);
            tokio::select! {
                () = heard => looks = if task.queue.waits() { LOOKS } else { 0 },
                _ = task.pause(wait) => {}
            }
            continue;
        }
        looks = 0;
        for record in &page.records {
            match take(&task, place.as_ref(), record).await {
                Step::Behind(next) => place = Some(next),
                Step::Elsewhere => {
                    let Some(found) = stored(&task).await else { return };
                    place = found;
                    break;
                }
                Step::Over => return,
            }
        }
    }
}

async fn stored(task: &TriggerTask) -> Option<Option<String>> {
    task.persist(|| async { task.runs.listener_place(&task.listener) }).await
}

/// Where reading begins. A stream that is read from now on has its place from its registration, unless its server did not answer then.
async fn begin(task: &TriggerTask) -> Option<Option<String>> {
    let place = stored(task).await?;
    let trigger = &task.listener.trigger;
    if place.is_some() || trigger.from_beginning {
        return Some(place);
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
    task.persist(|| task.runs.move_listener(moved.clone())).await?;
    stored(task).await
}

/// Starts the run of a record.
async fn take(task: &TriggerTask, place: Option<&String>, record: &Record) -> Step {
    let trigger = &task.listener.trigger;
    let moved = Change::MoveListener {
        tenant: task.listener.tenant.clone(),
        workflow_id: task.listener.workflow_id.clone(),
        consumer: trigger.consumer.clone(),
        from: place.cloned(),
        to: record.next.clone(),
    };
    let mut attempts = 0;
    loop {
        let refusal = match task.start(&record.id, &record.payload, Some(&moved)).await {
            Verdict::Started(Started::Now) => return Step::Behind(record.next.clone()),
            Verdict::Started(Started::Before) => return Step::Elsewhere,
            Verdict::Started(Started::Unwanted) => {
                if !task.pause(UNWANTED).await {
                    return Step::Over;
                }
                continue;
            }
            Verdict::Refused(refusal) => refusal,
            Verdict::Over => return Step::Over,
        };
        attempts += 1;
        if attempts >= trigger.max_attempts {
            return bury(task, record, &moved, &refusal).await;
        }
        if !task.pause(Duration::from_millis(trigger.retry_after_ms(attempts))).await {
            return Step::Over;
        }
    }
}

/// Puts a record aside as a message, and reads on behind it. Whatever dies in between, it is put aside once: it has an identity.
async fn bury(task: &TriggerTask, record: &Record, moved: &Change, refusal: &Refusal) -> Step {
    let (listener, reason) = (&task.listener, TriggerTask::reason(refusal));
    let subject = format!("{}{DEAD_LETTERS}", listener.trigger.source);
    let letter = json!({"original": record.payload, "deadLetterReason": reason});
    let named = format!("{}\0{}\0{}", listener.workflow_id, listener.trigger.consumer, record.id);
    let effect = format!("dead-{}", Digest::of_bytes(named.as_bytes()).to_hex());
    let published = task.insist(|| async {
        let scope = Scope { effect: Some(effect.clone()), ..task.scope() };
        task.queue.publish(&scope, subject.clone(), letter.clone()).await
    });
    // One that is too large for a message is left where it is: in its stream.
    if published.await.is_none() {
        return Step::Over;
    }
    match task.persist(|| task.runs.move_listener(moved.clone())).await {
        None => Step::Over,
        Some(true) => {
            task.tell_dead_letter(&record.id, &reason);
            Step::Behind(record.next.clone())
        }
        Some(false) => Step::Elsewhere,
    }
}
