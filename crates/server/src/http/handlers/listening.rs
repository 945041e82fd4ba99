//! `GET /v1/mcp`: notifications for MCP clients that the lists of tools, resources or prompts have changed.
//!
//! A notification says only that a list changed; the client requests the list again. Registering an unchanged workflow sends nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event as Frame;
use futures_util::stream;
use runs::exposed::Changes;
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use super::super::exchange::CheckedRequest;
use super::super::metrics::ActiveGuard;
use super::super::route::HandlerResult;
use super::mount;
use crate::mount::lists::Lists;

/// How long changes are collected. Many workflows are often registered together, and all of them are one change of the lists.
const GATHERED: Duration = Duration::from_millis(100);

/// A client that listens for notifications.
struct Listener {
    call: CheckedRequest,
    changes: Changes,
    stopping: watch::Receiver<bool>,
    /// The lists at the last check.
    seen: Lists,
    /// Notifications that are not sent yet.
    to_send: VecDeque<&'static str>,
    _place: OwnedSemaphorePermit,
    _counted: ActiveGuard,
}

pub(in super::super) async fn listen(call: CheckedRequest) -> HandlerResult {
    mount::check_served(&call)?;
    mount::check_edition(&call)?;
    if !mount::takes_streams(&call) {
        let message = "the reply is an event stream; send `Accept: text/event-stream`";
        return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "Accept"));
    }
    let place = Arc::clone(&call.state.streams).try_acquire_owned().map_err(|_| {
        let message = "too many open streams; retry later, or poll the lists";
        Refusal::new(ApiCode::RateLimited, message).detail("scope", "global").retry_after(5)
    })?;
    let every = call.state.settings.keep_alive;
    // Subscribed before the first read, so that no change is missed.
    let changes = call.state.runs.definitions().exposed_changes(&call.caller.tenant);
    let listener = Listener {
        changes,
        stopping: call.state.stopping.subscribe(),
        seen: Lists::of(&call.state.runs, &call.caller).await?,
        to_send: VecDeque::new(),
        _place: place,
        _counted: call.state.metrics.stream(),
        call,
    };
    let frames = stream::unfold(listener, |mut listener| async move {
        let message = listener.next().await?;
        Some((Ok::<_, Infallible>(Frame::default().data(message.to_string())), listener))
    });
    Ok(mount::streamed(frames, every))
}

impl Listener {
    /// The next notification; `None` when the host stops.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(of) = self.to_send.pop_front() {
                return Some(json!({"jsonrpc": "2.0", "method": format!("notifications/{of}/list_changed")}));
            }
            tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                () = async { self.changes.next().await; sleep(GATHERED).await } => self.changes.forget(),
            }
            // If the lists cannot be read now, the next change checks them again.
            if let Ok(lists) = Lists::of(&self.call.state.runs, &self.call.caller).await {
                self.to_send.extend(self.seen.changed(&lists));
                self.seen = lists;
            }
        }
    }
}
