//! A page that is being looked at.
//!
//! A stream renders its page again when something has happened, and sends the regions that are others than those the reader has.
//! What is sent is always a whole region as it is now, never a difference, so a reader that missed something, was cut off
//! or came back is right after one message. The id of a message names what the reader then has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use canon::digest::Digest;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use host::console_sessions::SessionName;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use crate::call::{Call, Region};
use crate::dispatch::contained;
use crate::door::Session;
use crate::page::{Answer, Wake};
use crate::provider::Handler;

/// The shortest time between two messages about one run: what happens meanwhile is in the next one.
const RUN_AT_MOST_EVERY: Duration = Duration::from_millis(250);
/// The same for pages that any run may change.
const RUNS_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// How often a page is looked at that nobody announces changes of.
const OFTEN: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Follows a page.
pub(crate) async fn stream(
    call: Arc<Call>,
    handler: Handler,
    session: &Session,
    headers: &HeaderMap,
) -> Response {
    let Ok(place) = Arc::clone(&call.console.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "as many live views are open as this host takes")
            .into_response();
    };
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let changes = call.runs().changes();
    let over = Box::pin(over(Arc::clone(&call), session.name));
    let watching = Watching {
        call,
        handler,
        key: session.key,
        changes,
        last,
        sent: BTreeMap::new(),
        wake: None,
        sequence: None,
        _place: place,
    };
    let events = unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((Ok::<_, Infallible>(event), watching))
    });
    let events = events.take_until(over);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Waits until the reader has signed out, or their key is good no more.
async fn over(call: Arc<Call>, session: SessionName) {
    tokio::select! {
        () = call.console.sessions.ended.ended(&session) => {}
        _ = call.console.runs.key_ended(session.key, &call.caller) => {}
    }
}

struct Watching {
    call: Arc<Call>,
    handler: Handler,
    /// What the caller signed in with: looked up again before each message.
    key: Digest,
    changes: watch::Receiver<u64>,
    /// What the reader has, as it said.
    last: Option<String>,
    /// What was sent, by region.
    sent: BTreeMap<String, Digest>,
    /// What the page depends on; not known before it was rendered once.
    wake: Option<Wake>,
    /// How far the run was when the page was rendered, where it is about one.
    sequence: Option<u64>,
    _place: OwnedSemaphorePermit,
}

impl Watching {
    /// The next message, or none when nothing more will happen.
    async fn next(&mut self) -> Option<Event> {
        loop {
            match self.wake.clone() {
                None => {}
                Some(Wake::Never) => return None,
                Some(Wake::Often) => sleep(OFTEN).await,
                Some(Wake::Runs) => {
                    sleep(RUNS_AT_MOST_EVERY).await;
                    self.changes.changed().await.ok()?;
                }
                Some(Wake::Run(run_id)) => {
                    sleep(RUN_AT_MOST_EVERY).await;
                    self.changes.changed().await.ok()?;
                    // Something happened somewhere: a glance tells whether here, which is cheaper than rendering.
                    let (_, sequence) = self.call.runs().status(&self.call.caller, &run_id).ok()?;
                    if self.sequence.replace(sequence) == Some(sequence) {
                        continue;
                    }
                }
            }
            // Seen before it is rendered, so that what happens during that is not missed.
            self.changes.mark_unchanged();
            let regions = self.render().await?;
            if let Some(event) = self.message(&regions) {
                return Some(event);
            }
        }
    }

    /// The regions as they are now; none when the page is there no more, or the reader may not look any more.
    async fn render(&mut self) -> Option<Vec<Region>> {
        let caller = self.call.console.runs.authenticate_hash(self.key).ok()?;
        if caller != self.call.caller {
            return None;
        }
        let call = Arc::new(Call {
            console: Arc::clone(&self.call.console),
            shell: Arc::clone(&self.call.shell),
            caller,
            params: self.call.params.clone(),
            query: self.call.query.clone(),
            form: self.call.form.clone(),
            now: self.call.console.now(),
            handle: self.call.handle.clone(),
            path: self.call.path.clone(),
            csrf: self.call.csrf.clone(),
            regions: Mutex::default(),
        });
        match contained(self.handler, Arc::clone(&call)).await {
            Some(Ok(Answer::Page(page))) => {
                self.wake = Some(page.wake);
                Some(call.regions())
            }
            _ => None,
        }
    }

    /// What the reader does not have yet.
    fn message(&mut self, regions: &[Region]) -> Option<Event> {
        let now: BTreeMap<String, Digest> = regions
            .iter()
            .map(|region| (region.id.clone(), Digest::of_bytes(region.markup.as_bytes())))
            .collect();
        let id = regions.iter().fold(String::new(), |text, region| text + &now[&region.id].to_hex());
        let id = Digest::of_bytes(id.as_bytes()).to_hex().split_off(40);
        let is_known = self.last.take().is_some_and(|last| last == id);
        let is_new = |region: &&Region| !is_known && self.sent.get(&region.id) != now.get(&region.id);
        let markup: String = regions.iter().filter(is_new).map(|region| region.markup.as_str()).collect();
        self.sent = now;
        // A line end would begin another line of the message, which the reader puts together again: nothing to do but to know it.
        (!markup.is_empty()).then(|| Event::default().event("regions").id(id).data(markup.replace('\r', "")))
    }
}
