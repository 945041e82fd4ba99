//! A trigger that listens to a stream.
//!
//! Records start their runs one after the other, in their order. How far the trigger has read is recorded in the commit of each run.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use flow::store::Change;
use serde_json::json;
use surfaces::Scope;
use surfaces::queue::{DEAD_LETTERS, From, Record};

use super::AFTER_FAILURE;
use super::ear::{Ear, LONGEST_WAIT, Verdict};
use crate::runs::Refusal;
use crate::runs::listening::{Started, first_move};

/// How many records are read at once.
const PAGE: usize = 16;
/// How often a stream of a server is looked at again after its signal: the signal may be there before the record.
const LOOKS: u32 = 6;
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// How long to wait with a record that the workflow does not want any more: by then this trigger has ended.
const UNWANTED: Duration = Duration::from_secs(1);

/// Where the trigger is after a record.
enum Step {
    /// Behind it.
    Behind(String),
    /// Somewhere that only the store knows.
    Elsewhere,
    /// It is to end.
    Over,
}

/// Starts a run for every record, until the trigger is to end.
pub(super) async fn listen(ear: Arc<Ear>) {
    let Some(mut place) = begin(&ear).await else { return };
    let mut looks = 0;
    while !ear.is_over() {
        // Before the look, so that nothing which is published meanwhile is missed.
        let heard = ear.heard.notified();
        tokio::pin!(heard);
        heard.as_mut().enable();
        let from = place.clone().map_or(From::Beginning, From::Cursor);
        let source = ear.listener.trigger.source.clone();
        let page = match ear.queue.stream_read(&ear.scope(), source, from, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                ear.warn(None, AFTER_FAILURE, &error, "the stream of a trigger failed; retrying");
                ear.pause(AFTER_FAILURE).await;
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
                () = heard => looks = if ear.queue.waits() { LOOKS } else { 0 },
                _ = ear.pause(wait) => {}
            }
            continue;
        }
        looks = 0;
        for record in &page.records {
            match take(&ear, place.as_ref(), record).await {
                Step::Behind(next) => place = Some(next),
                Step::Elsewhere => {
                    let Some(found) = stored(&ear).await else { return };
                    place = found;
                    break;
                }
                Step::Over => return,
            }
        }
    }
}

async fn stored(ear: &Ear) -> Option<Option<String>> {
    ear.persist(|| async { ear.runs.listener_place(&ear.listener) }).await
}

/// Where reading begins. A stream that is read from now on has its place from its registration, unless its server did not answer then.
async fn begin(ear: &Ear) -> Option<Option<String>> {
    let place = stored(ear).await?;
    let trigger = &ear.listener.trigger;
    if place.is_some() || trigger.from_beginning {
        return Some(place);
    }
    let end = loop {
        let read = ear.queue.stream_read(&ear.scope(), trigger.source.clone(), From::Now, 1).await;
        match read {
            Ok(end) => break end.next,
            Err(error) => {
                ear.warn(None, AFTER_FAILURE, &error, "the stream of a trigger failed; retrying");
                if !ear.pause(AFTER_FAILURE).await {
                    return None;
                }
            }
        }
    };
    let moved = first_move(&ear.listener.tenant, &ear.listener.workflow_id, trigger, end);
    ear.persist(|| ear.runs.move_listener(moved.clone())).await?;
    stored(ear).await
}

/// Starts the run of a record.
async fn take(ear: &Ear, place: Option<&String>, record: &Record) -> Step {
    let trigger = &ear.listener.trigger;
    let moved = Change::MoveListener {
        tenant: ear.listener.tenant.clone(),
        workflow_id: ear.listener.workflow_id.clone(),
        consumer: trigger.consumer.clone(),
        from: place.cloned(),
        to: record.next.clone(),
    };
    let mut attempts = 0;
    loop {
        let refusal = match ear.start(&record.id, &record.payload, Some(&moved)).await {
            Verdict::Started(Started::Now) => return Step::Behind(record.next.clone()),
            Verdict::Started(Started::Before) => return Step::Elsewhere,
            Verdict::Started(Started::Unwanted) => {
                if !ear.pause(UNWANTED).await {
                    return Step::Over;
                }
                continue;
            }
            Verdict::Refused(refusal) => refusal,
            Verdict::Over => return Step::Over,
        };
        attempts += 1;
        if attempts >= trigger.max_attempts {
            return bury(ear, record, &moved, &refusal).await;
        }
        if !ear.pause(Duration::from_millis(trigger.retry_after_ms(attempts))).await {
            return Step::Over;
        }
    }
}

/// Puts a record aside as a message, and reads on behind it. Whatever dies in between, it is put aside once: it has an identity.
async fn bury(ear: &Ear, record: &Record, moved: &Change, refusal: &Refusal) -> Step {
    let (listener, reason) = (&ear.listener, Ear::reason(refusal));
    let subject = format!("{}{DEAD_LETTERS}", listener.trigger.source);
    let letter = json!({"original": record.payload, "deadLetterReason": reason});
    let named = format!("{}\0{}\0{}", listener.workflow_id, listener.trigger.consumer, record.id);
    let effect = format!("dead-{}", Digest::of_bytes(named.as_bytes()).to_hex());
    let published = ear.insist(|| async {
        let scope = Scope { effect: Some(effect.clone()), ..ear.scope() };
        ear.queue.publish(&scope, subject.clone(), letter.clone()).await
    });
    // One that is too large for a message is left where it is: in its stream.
    if published.await.is_none() {
        return Step::Over;
    }
    match ear.persist(|| ear.runs.move_listener(moved.clone())).await {
        None => Step::Over,
        Some(true) => {
            ear.tell_dead_letter(&record.id, &reason);
            Step::Behind(record.next.clone())
        }
        Some(false) => Step::Elsewhere,
    }
}
