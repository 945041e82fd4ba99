//! `GET /v1/runs/{runId}/events/poll`: long polling for the events after a sequence.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use host::runs::{Batch, Refusal};
use tokio::time::{Instant, timeout_at};

use super::super::exchange::Call;
use super::super::response;
use super::super::route::Answered;
use super::history::MAX_SEQUENCE;
use super::runs::join;

/// The maximum number of events in one reply, which is also the default.
const MAX_EVENTS: u64 = 1000;
/// The size in bytes after which no more events are added to a reply.
const ENOUGH_BYTES: usize = 4 << 20;
/// How long a poll waits, in seconds: the default and the maximum.
const WAIT_SECONDS: u64 = 30;
const MAX_WAIT_SECONDS: u64 = 60;

pub(in super::super) async fn poll(call: Call) -> Answered {
    let from = match call.query.text("lastSequence") {
        // The client has no events yet.
        None | Some("-1") => 0,
        Some(_) => {
            call.query.number("lastSequence", 0..=u64::MAX)?.map_or(0, |last| last.min(MAX_SEQUENCE) + 1)
        }
    };
    let wait = call.query.number("timeout", 0..=MAX_WAIT_SECONDS)?.unwrap_or(WAIT_SECONDS);
    let limit = call.query.number("limit", 1..=u64::MAX)?.unwrap_or(MAX_EVENTS).min(MAX_EVENTS);
    let run_id = call.run_id();
    let mut following = call.state.runs.follow(&call.caller.tenant, &run_id, from).await?;
    let mut page = Page { limit: usize::try_from(limit).unwrap_or(usize::MAX), ..Page::default() };
    while !page.is_full()
        && let Some(batch) = following.stored().await?
    {
        page.add(batch);
    }
    let is_at_its_end = async |position: u64| -> Result<bool, Refusal> {
        let (status, next) = call.state.runs.status(&call.caller, &run_id).await?;
        Ok(status.is_terminal() && next <= position)
    };
    if page.events.is_empty() && !is_at_its_end(following.position()).await? {
        let deadline = Instant::now() + Duration::from_secs(wait);
        let mut stopping = call.state.stopping.subscribe();
        let told = tokio::select! {
            told = timeout_at(deadline, following.next()) => told.unwrap_or(Ok(None))?,
            _ = stopping.wait_for(|stopping| *stopping) => None,
            refusal = call.key_ended() => return Err(refusal),
        };
        told.into_iter().for_each(|batch| page.add(batch));
    }
    let is_complete = if page.events.is_empty() {
        is_at_its_end(following.position()).await?
    } else {
        page.is_complete || (!page.was_cut && is_at_its_end(following.position()).await?)
    };
    let mut body = BytesMut::from(&b"{\"events\":["[..]);
    join(&mut body, page.events.iter().map(|text| text.as_bytes()));
    body.extend_from_slice(format!("],\"isComplete\":{is_complete}}}").as_bytes());
    Ok(response::json_bytes(200, body.freeze()))
}

#[derive(Default)]
struct Page {
    events: Vec<Arc<str>>,
    bytes: usize,
    limit: usize,
    /// Whether the page contains the last event of the run.
    is_complete: bool,
    /// Whether events were omitted.
    was_cut: bool,
}

impl Page {
    fn is_full(&self) -> bool {
        self.events.len() >= self.limit || self.bytes >= ENOUGH_BYTES
    }

    fn add(&mut self, batch: Batch) {
        let room = self.limit - self.events.len();
        self.was_cut = batch.events.len() > room;
        self.is_complete = batch.is_last && !self.was_cut;
        for (_, text) in batch.events.into_iter().take(room) {
            self.bytes += text.len();
            self.events.push(text);
        }
    }
}
