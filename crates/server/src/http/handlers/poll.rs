//! `GET /v1/runs/{runId}/events/poll`: long polling for the events after a sequence.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use flow::id::RunId;
use openwop::{Major, id};
use runs::{Batch, Refusal};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::v2::events::Translator;
use super::history::MAX_SEQUENCE;
use super::runs::join;

/// The maximum number of events in one reply, which is also the default.
const MAX_EVENTS: u64 = 1000;
/// The size in bytes after which no more events are added to a reply.
const ENOUGH_BYTES: usize = 4 << 20;
/// How long a poll waits, in seconds: the default and the maximum.
const WAIT_SECONDS: u64 = 30;
const MAX_WAIT_SECONDS: u64 = 60;

pub(in super::super) async fn poll(call: CheckedRequest) -> HandlerResult {
    let (cursor, shortest) = match call.major {
        Major::V1 => ("lastSequence", 0),
        Major::V2 => ("afterSequence", 1),
    };
    let from = match call.query.text(cursor) {
        // The client has no events yet.
        None | Some("-1") => 0,
        Some(_) => call.query.number(cursor, 0..=u64::MAX)?.map_or(0, |last| last.min(MAX_SEQUENCE) + 1),
    };
    let wait = call.query.number("timeout", shortest..=MAX_WAIT_SECONDS)?.unwrap_or(WAIT_SECONDS);
    let limit = match call.major {
        Major::V1 => call.query.number("limit", 1..=u64::MAX)?.unwrap_or(MAX_EVENTS).min(MAX_EVENTS),
        Major::V2 => MAX_EVENTS,
    };
    let run_id = call.run_id();
    let mut following = call.state.runs.queries().follow(&call.caller.tenant, &run_id, from).await?;
    let mut page = Page { limit: usize::try_from(limit).unwrap_or(usize::MAX), ..Page::default() };
    while !page.is_full()
        && let Some(batch) = following.stored().await?
    {
        page.add(batch);
    }
    let is_at_its_end = async |position: u64| -> Result<bool, Refusal> {
        let (status, next) = call.state.runs.queries().status(&call.caller, &run_id).await?;
        Ok(status.is_terminal() && next <= position)
    };
    if page.events.is_empty() && !is_at_its_end(following.position()).await? {
        let deadline = Instant::now() + Duration::from_secs(wait);
        let mut stopping = call.state.stopping.subscribe();
        let batch = tokio::select! {
            batch = timeout_at(deadline, following.next()) => batch.unwrap_or(Ok(None))?,
            _ = stopping.wait_for(|stopping| *stopping) => None,
            refusal = call.key_ended() => return Err(refusal),
        };
        batch.into_iter().for_each(|batch| page.add(batch));
    }
    if call.major == Major::V2 {
        return v2_page(&call, &run_id, page).await;
    }
    let is_complete = if page.events.is_empty() {
        is_at_its_end(following.position()).await?
    } else {
        page.is_complete || (!page.was_cut && is_at_its_end(following.position()).await?)
    };
    let mut body = BytesMut::from(&b"{\"events\":["[..]);
    join(&mut body, page.events.iter().map(|(_, text)| text.as_bytes()));
    body.extend_from_slice(format!("],\"isComplete\":{is_complete}}}").as_bytes());
    Ok(response::json_bytes(200, body.freeze()))
}

/// The reply of version 2. A client continues after `lastSequence`, so that is the last event of this page while there are more.
async fn v2_page(call: &CheckedRequest, run_id: &RunId, page: Page) -> HandlerResult {
    let mut translator = Translator::new(&call.state, &call.caller.tenant, run_id);
    let mut events = Vec::with_capacity(page.events.len());
    for (sequence, text) in &page.events {
        events.push(translator.event(*sequence, text).await?.text);
    }
    let (status, next) = call.state.runs.queries().status(&call.caller, run_id).await?;
    let end = next.checked_sub(1).map_or(json!(-1), |last| json!(last));
    let last = page.events.last().map_or(end, |(sequence, _)| json!(sequence));
    let is_all = page.events.last().is_none_or(|(sequence, _)| sequence + 1 >= next);
    let head = json!({
        "isTerminal": status.is_terminal() && is_all,
        "lastSequence": last,
        "runId": id::bind(call.caller.tenant.as_str(), run_id.as_str()),
        "status": status.as_str(),
    });
    let mut body = BytesMut::from(&b"{\"events\":["[..]);
    join(&mut body, events.iter().map(String::as_bytes));
    body.extend_from_slice(b"],");
    body.extend_from_slice(&head.to_string().as_bytes()[1..]);
    Ok(response::json_bytes(200, body.freeze()))
}

#[derive(Default)]
struct Page {
    events: Vec<(u64, Arc<str>)>,
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
        for (sequence, text) in batch.events.into_iter().take(room) {
            self.bytes += text.len();
            self.events.push((sequence, text));
        }
    }
}
