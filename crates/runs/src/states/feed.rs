//! Delivers new events from the writer of a run to its watchers.
//!
//! Each live run has a channel that holds the last few appends. A watcher that is new or lags reads the store from the
//! sequence that it needs next. A slow watcher uses only its own buffer.

use std::borrow::Cow;
use std::sync::Arc;

use flow::definition::Definition;
use flow::event::wire::{self, RawEvent};
use flow::id::{RunId, Tenant};
use flow::mask::Mask;
use flow::redact;
use ports::runs::StoredAppend;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::States;
use super::unreadable_event;
use crate::Refusal;

/// How many appends a watcher may lag before it reads the store.
const BEHIND: usize = 32;
/// How much a watcher reads from the store at once.
const PAGE_EVENTS: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

/// The channel of one run.
pub(crate) struct Feed(Sender<FeedMessage>);

/// A message to watchers.
#[derive(Clone)]
pub(crate) enum FeedMessage {
    /// Events were appended to the run.
    Append { append: Arc<StoredAppend>, snapshot: Arc<[u8]>, is_last: bool },
    /// A note beside the log: sent to current subscribers and not stored.
    Note(Arc<str>),
    /// A descendant waits, or one of its interrupts was closed.
    Wake,
}

impl Default for Feed {
    fn default() -> Self {
        Self(channel(BEHIND).0)
    }
}

impl Feed {
    pub(crate) fn send(&self, append: StoredAppend, snapshot: Arc<[u8]>, is_last: bool) {
        // A channel without watchers is not an error.
        let _ = self.0.send(FeedMessage::Append { append: Arc::new(append), snapshot, is_last });
    }

    /// Subscribes to new messages.
    pub(crate) fn subscribe(&self) -> Receiver<FeedMessage> {
        self.0.subscribe()
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(crate) fn send_annotation(&self, text: String) {
        let _ = self.0.send(FeedMessage::Note(text.into()));
    }

    /// Notifies watchers to look at the descendants again.
    pub(crate) fn send_wake(&self) {
        let _ = self.0.send(FeedMessage::Wake);
    }
}

/// Consecutive events of a run.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The JSON texts of the events, with their sequences.
    pub events: Vec<(u64, Arc<str>)>,
    /// The snapshot after them, if it is available without a read.
    pub snapshot: Option<Arc<[u8]>>,
    /// Whether the run ended with these events.
    pub is_last: bool,
    /// A note, for watchers that asked for notes. Notes are not part of the log.
    pub note: Option<Arc<str>>,
}

impl Batch {
    /// The events as values, for callers in this process.
    ///
    /// # Errors
    /// If an event cannot be read.
    pub fn decoded(&self) -> Result<Vec<RawEvent>, Refusal> {
        let texts = self.events.iter().map(|(_, text)| text.as_bytes());
        texts.map(|text| wire::decode_raw(text).map_err(unreadable_event)).collect()
    }
}

/// A watcher of one run.
pub struct Following {
    states: Arc<States>,
    run_id: RunId,
    next: u64,
    messages: Option<Receiver<FeedMessage>>,
    ended: bool,
    /// Whether the store may have events that were not received. This is a field because a caller may stop waiting during the
    /// read.
    missed: bool,
    /// Whether notes are wanted.
    notes: bool,
    /// Whether to return an empty batch when descendants may have new interrupts.
    below: bool,
    /// The workflow of the run, if it marks values as sensitive. They are hidden in events.
    hiding: Option<Arc<Definition>>,
}

impl States {
    /// Watches a run of the tenant, from a sequence on.
    ///
    /// # Errors
    /// If there is no such run.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        tenant: &Tenant,
        run_id: &RunId,
        from: u64,
    ) -> Result<Following, Refusal> {
        let row = self.records.store().run(Some(tenant), run_id).await?.ok_or_else(Refusal::no_run)?;
        // Subscribe before the first read of the store, so that no event in between is missed.
        let messages = (!row.status.is_terminal()).then(|| self.live.get_or_insert(run_id).feed.subscribe());
        let hiding = Some(self.pinned(&row).await?).filter(|definition| Mask::of(definition).is_some());
        Ok(Following {
            states: Arc::clone(self),
            run_id: run_id.to_owned(),
            next: from,
            messages,
            ended: false,
            missed: false,
            notes: false,
            below: false,
            hiding,
        })
    }
}

impl Following {
    /// The stored events that follow, as many as fit into one batch. `None` once all were returned.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn stored(&mut self) -> Result<Option<Batch>, Refusal> {
        if self.ended {
            return Ok(None);
        }
        let appends =
            self.states.records.store().appends(&self.run_id, self.next, PAGE_EVENTS, PAGE_BYTES).await?;
        let events = self.shown(appends.iter().flat_map(|append| lines(append, self.next)));
        let Some((last, text)) = events.last() else { return Ok(None) };
        self.next = last + 1;
        let is_last = is_terminal(text);
        self.ended = is_last;
        Ok(Some(Batch { events, snapshot: None, is_last, note: None }))
    }

    /// Waits for the next events. `None` when none can follow.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn next(&mut self) -> Result<Option<Batch>, Refusal> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.missed {
                match self.stored().await? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.missed = false,
                }
            }
            let Some(messages) = &mut self.messages else {
                let batch = self.stored().await?;
                self.ended = batch.is_none();
                return Ok(batch);
            };
            match messages.recv().await {
                Ok(FeedMessage::Note(_)) if !self.notes => {}
                Ok(FeedMessage::Note(note)) => {
                    let note = Some(note);
                    return Ok(Some(Batch { events: Vec::new(), snapshot: None, is_last: false, note }));
                }
                Ok(FeedMessage::Wake) if !self.below => {}
                Ok(FeedMessage::Wake) => {
                    return Ok(Some(Batch {
                        events: Vec::new(),
                        snapshot: None,
                        is_last: false,
                        note: None,
                    }));
                }
                Ok(FeedMessage::Append { append, .. }) if append.last < self.next => {}
                Ok(FeedMessage::Append { append, snapshot, is_last }) if append.first <= self.next => {
                    let events = self.shown(lines(&append, self.next));
                    self.next = append.last + 1;
                    self.ended = is_last;
                    return Ok(Some(Batch { events, snapshot: Some(snapshot), is_last, note: None }));
                }
                // The store has the events that were not received.
                Ok(_) | Err(RecvError::Lagged(_)) => self.missed = true,
                Err(RecvError::Closed) => {
                    // The run left memory, usually because it ended. The store has the rest.
                    let row = self.states.records.store().run(None, &self.run_id).await?;
                    let is_active = row.is_some_and(|row| !row.status.is_terminal());
                    self.messages =
                        is_active.then(|| self.states.live.get_or_insert(&self.run_id).feed.subscribe());
                    self.missed = true;
                }
            }
        }
    }

    /// Also returns notes that are sent while it watches.
    #[must_use]
    pub fn with_notes(mut self) -> Self {
        self.notes = true;
        self
    }

    /// Also returns an empty batch whenever the caller should look at the [descendants](crate::Queries::waiting) again.
    #[must_use]
    pub fn with_below(mut self) -> Self {
        self.below = true;
        self
    }

    /// The events as a reader may see them.
    fn shown(&self, events: impl Iterator<Item = (u64, Arc<str>)>) -> Vec<(u64, Arc<str>)> {
        let mask = self.hiding.as_deref().and_then(Mask::of);
        let shown =
            events.filter_map(|(sequence, text)| Some((sequence, shown(mask.as_ref(), &self.run_id, text)?)));
        shown.collect()
    }

    /// The sequence of the next event.
    pub fn position(&self) -> u64 {
        self.next
    }
}

/// The text of an event as a reader may see it, whatever the channel: without values that the author marked as sensitive, and
/// without what looks like a credential. Most events have neither and are returned unchanged. An event that cannot be parsed
/// cannot be masked, so it is not shown.
pub(crate) fn shown(mask: Option<&Mask<'_>>, run_id: &RunId, text: Arc<str>) -> Option<Arc<str>> {
    let text = match mask {
        None => text,
        Some(mask) => {
            let event = match wire::decode(text.as_bytes()) {
                Ok(event) => event,
                Err(error) => {
                    let cause = &error as &dyn std::error::Error;
                    tracing::warn!(
                        run.id = run_id.as_str(),
                        cause,
                        "an event is not shown: it cannot be masked, because it cannot be read"
                    );
                    return None;
                }
            };
            match mask.payload(&event) {
                Some(payload) => wire::encode_payload(run_id, &event, &payload).into(),
                None => text,
            }
        }
    };
    let clean = match redact::json(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(clean) => Some(clean.into()),
    };
    Some(clean.unwrap_or(text))
}

/// The events of an append from a sequence on.
pub(crate) fn lines(append: &StoredAppend, from: u64) -> impl Iterator<Item = (u64, Arc<str>)> {
    let text = std::str::from_utf8(&append.events).unwrap_or_default();
    let numbered = (append.first..).zip(text.lines());
    let wanted = numbered.filter(move |(sequence, _)| *sequence >= from);
    wanted.map(|(sequence, line)| (sequence, Arc::from(line))).collect::<Vec<_>>().into_iter()
}

/// Whether an event is the last of its run. The type of an event is part of its text, so a substring search rules out most events
/// before they are parsed.
fn is_terminal(text: &str) -> bool {
    let terminal = ["\"run.completed\"", "\"run.failed\"", "\"run.cancelled\""];
    terminal.iter().any(|kind| text.contains(kind))
        && wire::decode_raw(text.as_bytes()).is_ok_and(|event| event.kind.is_terminal())
}
