//! Live updates of an open page.
//!
//! When something happens, the stream renders the page again and sends the regions that changed.
//! Each message contains complete regions, never differences, so a reader that reconnects is up to
//! date after one message. The message id identifies the state that the reader then has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use canon::digest::Digest;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use crate::bidi::show_controls;
use crate::call::{PageRequest, Region};
use crate::dispatch::contained;
use crate::page::{PageResponse, Wake};
use crate::provider::Handler;
use crate::sign_in::Session;
use crate::sign_in::ended::SessionName;

/// The shortest time between two updates of a page about one run. Changes in between are batched.
const RUN_AT_MOST_EVERY: Duration = Duration::from_millis(250);
/// The same for pages that any run can change.
const RUNS_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The polling interval for pages without change notifications.
const OFTEN: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) async fn stream(
    call: Arc<PageRequest>,
    handler: Handler,
    session: &Session,
    headers: &HeaderMap,
) -> Response {
    let Ok(place) = Arc::clone(&call.console.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many live views are open. Close one or retry later.")
            .into_response();
    };
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let changes = call.runs().queries().changes();
    let over = Box::pin(over(Arc::clone(&call), session.name));
    let watching = LivePage {
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

/// Waits until the reader signs out or the key is revoked or expires.
async fn over(call: Arc<PageRequest>, session: SessionName) {
    tokio::select! {
        () = call.console.sessions.ended.ended(&session) => {}
        _ = call.console.runs.keys().ended(session.key, &call.caller) => {}
    }
}

struct LivePage {
    call: Arc<PageRequest>,
    handler: Handler,
    /// The reader's credentials, checked again before each message.
    key: Digest,
    changes: watch::Receiver<u64>,
    /// The state that the reader reported.
    last: Option<String>,
    /// The last sent markup of each region.
    sent: BTreeMap<String, Digest>,
    /// What the page depends on; unknown until it is rendered once.
    wake: Option<Wake>,
    /// The position of the run when the page was rendered, for pages about one run.
    sequence: Option<u64>,
    _place: OwnedSemaphorePermit,
}

impl LivePage {
    /// The next message, or `None` when the page can no longer change.
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
                    // Some run changed. Checking whether it was this one is cheaper than rendering.
                    let (_, sequence) =
                        self.call.runs().queries().status(&self.call.caller, &run_id).await.ok()?;
                    if self.sequence.replace(sequence) == Some(sequence) {
                        continue;
                    }
                }
            }
            // Read the position before rendering, so that changes during rendering are not missed.
            self.changes.mark_unchanged();
            let regions = self.render().await?;
            if let Some(event) = self.message(&regions) {
                return Some(event);
            }
        }
    }

    /// The current regions; `None` if the page is gone or the reader may no longer see it.
    async fn render(&mut self) -> Option<Vec<Region>> {
        let caller = self.call.console.runs.keys().authenticate_hash(self.key).await.ok()?;
        if caller != self.call.caller {
            return None;
        }
        let call = Arc::new(PageRequest {
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
            Some(Ok(PageResponse::Page(page))) => {
                self.wake = Some(page.wake);
                Some(call.regions())
            }
            _ => None,
        }
    }

    /// The regions that differ from what the reader has.
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
        // A line break starts a new `data:` line, which the browser joins again, so no escaping is
        // needed.
        let markup = show_controls(markup.replace('\r', ""));
        (!markup.is_empty()).then(|| Event::default().event("regions").id(id).data(markup))
    }
}
