//! `GET /v1/runs/{runId}/events`: the events of a run as a live stream, or its log as one document.
//!
//! A stream shows updates unless `streamMode` selects something else. A document is the whole log unless `streamMode` filters it.
//!
//! The reader pulls the stream: first recorded events, then new ones, without a gap and without a separate task. A slow reader holds
//! one batch and its position; it reads the events it missed from the store.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use axum::response::sse::{Event as Frame, Sse};
use bytes::BytesMut;
use flow::event::EventKind;
use flow::id::RunId;
use flow::stream::{StreamMode, StreamModes};
use futures_util::stream::unfold;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderMap, HeaderName, HeaderValue};
use openwop::Major;
use runs::{ApiCode, Batch, Caller, Following, Refusal};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::super::exchange::CheckedRequest;
use super::super::metrics::ActiveGuard;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::state::Service;
use super::super::v2::events::Translator;
use super::history::MAX_SEQUENCE;
use super::runs::join;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The longest time for which events are buffered, in milliseconds.
const MAX_BUFFER_MS: u64 = 5000;
/// The maximum number of events in a buffered frame.
const MAX_GATHERED: usize = 1000;
/// The maximum size of a reply that is not a stream, in bytes. The client reads the rest with `Last-Event-ID`.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// The part of an event that decides whether it is shown.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

pub(in super::super) async fn stream(call: CheckedRequest) -> HandlerResult {
    // All parameters are validated before the media type is negotiated.
    let mode = call.query.text("streamMode");
    let modes = StreamModes::parse(mode).map_err(|error| {
        let supported: Vec<_> = StreamMode::ALL.iter().map(|mode| mode.as_str()).collect();
        Refusal::new(ApiCode::UnsupportedStreamMode, error.to_string()).detail("supported", supported)
    })?;
    let buffer = call.query.number("bufferMs", 0..=MAX_BUFFER_MS)?.filter(|milliseconds| *milliseconds > 0);
    let from = last_event_id(&call.headers)?.map_or(0, |last| last.min(MAX_SEQUENCE) + 1);
    let run_id = call.run_id();
    let following = call.state.runs.queries().follow(&call.caller.tenant, &run_id, from).await?;
    if wants_json(&call.headers) {
        let filter = mode.is_some().then_some(&modes);
        return page(following, filter, &call, &run_id).await;
    }
    let place = Arc::clone(&call.state.streams).try_acquire_owned().map_err(|_| {
        let message = "too many open streams; retry later, or poll `/events/poll`";
        Refusal::new(ApiCode::RateLimited, message).detail("scope", "global").retry_after(5)
    })?;
    let messages = call.query.text("streamMode").is_some_and(|text| text.contains("messages"));
    let resumed = from > 0;
    // Notes belong to the events that readers of updates see.
    let notes = !modes.is_values() && modes.show(&EventKind::Other("run.annotated".into()));
    let following = if notes { following.with_notes() } else { following };
    let translator = match call.major {
        Major::V1 => None,
        Major::V2 => Some(Translator::new(&call.state, &call.caller.tenant, &run_id)),
    };
    let watch = Watch {
        translator,
        _place: place,
        _counted: call.state.metrics.stream(),
        stopping: call.state.stopping.subscribe(),
        span: tracing::Span::current(),
        keep_alive: call.state.settings.keep_alive,
        state: call.state,
        caller: call.caller,
        run_id,
        following,
        modes,
        messages,
        buffer: buffer.map(Duration::from_millis),
        gathered: Vec::new(),
        flush_at: None,
        ready: VecDeque::new(),
        phase: if resumed { Phase::Resuming } else { Phase::Recorded },
    };
    let frames =
        unfold(watch, |mut watch| async move { Some((Ok::<_, Infallible>(watch.next().await?), watch)) });
    let mut response = Sse::new(frames).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The sequence of the last event that the client has received.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let sequence = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    sequence.map(Some).ok_or_else(|| {
        let message =
            "the header Last-Event-ID must be the sequence number of an event, a non-negative integer";
        Refusal::new(ApiCode::ValidationError, message).detail("field", "Last-Event-ID")
    })
}

/// Whether the client accepts JSON and not event streams.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let media: Vec<_> = accepted
        .flat_map(|value| value.split(','))
        .map(|media| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .collect();
    media.iter().any(|media| media == "application/json")
        && !media.iter().any(|media| media == "text/event-stream")
}

/// The recorded events as one document: all of them, or those that the modes of a filter show.
async fn page(
    mut following: Following,
    filter: Option<&StreamModes>,
    call: &CheckedRequest,
    run_id: &RunId,
) -> HandlerResult {
    let mut body = BytesMut::from(&b"{\"events\":["[..]);
    let mut events: Vec<Arc<str>> = Vec::new();
    let mut translator = match call.major {
        Major::V1 => None,
        Major::V2 => Some(Translator::new(&call.state, &call.caller.tenant, run_id)),
    };
    let (mut size, mut is_last) = (0, false);
    while size < MAX_PAGE_BYTES
        && let Some(batch) = following.stored().await?
    {
        is_last = batch.is_last;
        for (sequence, text) in batch.events {
            let is_shown = filter.is_none_or(|modes| shows(modes, &text));
            let text = match &mut translator {
                None => text,
                Some(translator) => translator.event(sequence, &text).await?.text.into(),
            };
            if is_shown {
                size += text.len();
                events.push(text);
            }
        }
    }
    let (status, next) = call.state.runs.queries().status(&call.caller, run_id).await?;
    let is_complete = is_last || (status.is_terminal() && following.position() >= next);
    join(&mut body, events.iter().map(|text| text.as_bytes()));
    body.extend_from_slice(format!("],\"isComplete\":{is_complete}}}").as_bytes());
    Ok(response::json_bytes(200, body.freeze()))
}

fn shows(modes: &StreamModes, text: &str) -> bool {
    shape(text).is_some_and(|shape| modes.show(&EventKind::parse(&shape.kind)))
}

fn shape(text: &str) -> Option<Shape<'_>> {
    serde_json::from_str(text).ok()
}

/// The phase of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The stream resumes an earlier one. A stream of snapshots sends the latest snapshot first.
    Resuming,
    /// Recorded events are being read.
    Recorded,
    /// The stream waits for new events.
    Live,
    /// The stream has ended.
    Ended,
}

/// One open stream.
struct Watch {
    state: Service,
    caller: Caller,
    run_id: RunId,
    following: Following,
    modes: StreamModes,
    messages: bool,
    buffer: Option<Duration>,
    /// Translates events, for a reader of version 2.
    translator: Option<Translator>,
    gathered: Vec<(u64, Arc<str>)>,
    flush_at: Option<Instant>,
    ready: VecDeque<Frame>,
    phase: Phase,
    keep_alive: Duration,
    stopping: watch::Receiver<bool>,
    /// The span of the request, for log lines.
    span: tracing::Span,
    _place: OwnedSemaphorePermit,
    _counted: ActiveGuard,
}

impl Watch {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            match self.phase {
                Phase::Resuming => {
                    self.phase = Phase::Recorded;
                    if self.modes.is_values() {
                        self.show_snapshot(None).await;
                    }
                }
                Phase::Recorded => match self.following.stored().await {
                    Ok(Some(batch)) => self.take(batch).await,
                    Ok(None) => self.phase = Phase::Live,
                    Err(refusal) => self.fail(&refusal),
                },
                Phase::Live => self.wait().await,
                Phase::Ended => return None,
            }
        }
    }

    /// Waits for the next new event, the time to flush the buffer, or the time to send a keep-alive.
    async fn wait(&mut self) {
        let quiet_until = Instant::now() + self.keep_alive;
        let wake_at = self.flush_at.map_or(quiet_until, |flush_at| flush_at.min(quiet_until));
        let (following, stopping) = (&mut self.following, &mut self.stopping);
        let stopped = async {
            // An error means that the service is gone, which also counts as stopping.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        tokio::select! {
            batch = following.next() => match batch {
                Ok(Some(batch)) => self.take(batch).await,
                Ok(None) => self.end(),
                Err(refusal) => self.fail(&refusal),
            },
            () = sleep_until(wake_at) => {
                if self.flush_at.is_some_and(|flush_at| flush_at <= Instant::now()) {
                    self.flush();
                } else {
                    self.ready.push_back(Frame::default().comment("keepalive"));
                    self.look_again().await;
                }
            }
            () = stopped => self.end(),
        }
    }

    /// A run may have ended without a notification, so this reads its record again.
    async fn look_again(&mut self) {
        match self.following.stored().await {
            Ok(Some(batch)) => self.take(batch).await,
            Ok(None) => {
                let status = self.state.runs.queries().status(&self.caller, &self.run_id).await;
                if status
                    .is_ok_and(|(status, next)| status.is_terminal() && next <= self.following.position())
                {
                    self.end();
                }
            }
            Err(refusal) => self.fail(&refusal),
        }
    }

    async fn take(&mut self, batch: Batch) {
        if let Some(note) = &batch.note {
            // Without an id: a note is not in the log, so a client cannot resume after it.
            let note = match &self.translator {
                None => note.to_string(),
                Some(translator) => translator.note(note),
            };
            self.ready.push_back(Frame::default().event("run.annotated").data(note));
            return;
        }
        if self.modes.is_values() {
            let shown =
                batch.events.iter().rev().find(|(_, text)| self.shows(text)).map(|(sequence, _)| *sequence);
            if let Some(sequence) = shown {
                // An append is one step, so the states between its events never existed.
                match &batch.snapshot {
                    Some(snapshot) => self.push_snapshot(Some(sequence), snapshot),
                    None if batch.is_last || self.is_newest().await => {
                        self.show_snapshot(Some(sequence)).await;
                    }
                    None => {}
                }
            }
        } else {
            for (sequence, text) in batch.events {
                if let Err(refusal) = self.take_event(sequence, text).await {
                    return self.fail(&refusal);
                }
            }
        }
        if batch.is_last {
            self.end();
        }
    }

    /// Whether all recorded events have been read.
    async fn is_newest(&self) -> bool {
        let status = self.state.runs.queries().status(&self.caller, &self.run_id).await;
        status.is_ok_and(|(_, next)| next <= self.following.position())
    }

    fn shows(&self, text: &str) -> bool {
        shows(&self.modes, text)
    }

    async fn take_event(&mut self, sequence: u64, text: Arc<str>) -> Result<(), Refusal> {
        let Some(shape) = shape(&text) else { return Ok(()) };
        let kind = EventKind::parse(&shape.kind);
        // Events that are not shown are translated too: later ones may refer to them.
        let translated = match &mut self.translator {
            None => None,
            Some(translator) => Some(translator.event(sequence, &text).await?),
        };
        if !self.modes.show(&kind) {
            return Ok(());
        }
        let Some(buffer) = self.buffer else {
            let is_chunk = kind == EventKind::OutputChunk && self.messages;
            let frame = match &translated {
                None if is_chunk => frame("ai.message.chunk", sequence, shape.payload.get()),
                None => frame(&shape.kind, sequence, &text),
                Some(event) if is_chunk => frame("ai.message.chunk", sequence, &event.payload.to_string()),
                Some(event) => frame(&event.kind, sequence, &event.text),
            };
            self.ready.push_back(frame);
            return Ok(());
        };
        let at_once = kind.is_terminal() || kind == EventKind::NodeSuspended;
        self.gathered.push((sequence, translated.map_or(text, |event| event.text.into())));
        self.flush_at.get_or_insert_with(|| Instant::now() + buffer);
        if at_once || self.gathered.len() >= MAX_GATHERED {
            self.flush();
        }
        Ok(())
    }

    /// Sends the buffered events.
    fn flush(&mut self) {
        self.flush_at = None;
        let gathered = std::mem::take(&mut self.gathered);
        let Some((last, _)) = gathered.last() else { return };
        let texts: Vec<&str> = gathered.iter().map(|(_, text)| &**text).collect();
        self.ready.push_back(frame("batch", *last, &format!("[{}]", texts.join(","))));
    }

    /// Sends the current snapshot.
    async fn show_snapshot(&mut self, sequence: Option<u64>) {
        match self.state.runs.queries().read(&self.caller, &self.run_id).await {
            Ok((snapshot, next)) => {
                let sequence = sequence.or_else(|| next.checked_sub(1));
                self.push_snapshot(sequence, &snapshot);
            }
            Err(refusal) => self.fail(&refusal),
        }
    }

    fn push_snapshot(&mut self, sequence: Option<u64>, snapshot: &[u8]) {
        let text = match &self.translator {
            None => std::str::from_utf8(snapshot).unwrap_or_default().to_owned(),
            Some(translator) => translator.snapshot(snapshot),
        };
        let mut snapshot = Frame::default().event("state.snapshot").data(text);
        if let Some(sequence) = sequence {
            snapshot = snapshot.id(sequence.to_string());
        }
        self.ready.push_back(snapshot);
    }

    /// Ends a stream after an error. The client reconnects with `Last-Event-ID`; the cause is logged under the id of the request.
    fn fail(&mut self, refusal: &Refusal) {
        let (run_id, cause) = (&self.run_id, system::causes(refusal));
        self.span.in_scope(|| tracing::error!(run.id = run_id.as_str(), cause, "an event stream failed"));
        self.end();
    }

    fn end(&mut self) {
        self.flush();
        self.phase = Phase::Ended;
    }
}

/// A frame. The data is JSON without raw line breaks. An event type with a line break would break the frame, so its name is omitted.
fn frame(name: &str, sequence: u64, data: &str) -> Frame {
    let name = if name.contains(['\n', '\r']) { "message" } else { name };
    Frame::default().id(sequence.to_string()).event(name).data(data)
}
