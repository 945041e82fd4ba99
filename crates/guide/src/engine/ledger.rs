//! Builds the events of one append.

use crate::derive;
use crate::record::{DedupeKey, Event, EventData, EventId, EventIndex, Scope, SessionId};

/// Events in progress. Each gets the next index and the id derived from it.
pub(super) struct Ledger {
    session_id: SessionId,
    next: EventIndex,
    now_ms: u64,
    events: Vec<Event>,
}

impl Ledger {
    pub(super) const fn new(session_id: SessionId, next: EventIndex, now_ms: u64) -> Self {
        Self { session_id, next, now_ms, events: Vec::new() }
    }

    /// Adds an event; `parts` follow the kind and the session in its dedupe key.
    pub(super) fn add(&mut self, scope: Scope, parts: &[&str], data: EventData) -> EventId {
        let event_id = derive::event_id(&self.session_id, self.next);
        let all: Vec<&str> = std::iter::once(self.session_id.as_str()).chain(parts.iter().copied()).collect();
        self.events.push(Event {
            event_id: event_id.clone(),
            event_index: self.next,
            session_id: self.session_id.clone(),
            scope,
            dedupe_key: DedupeKey::of(data.kind(), &all),
            timestamp_ms: self.now_ms,
            data,
        });
        self.next = self.next.next();
        event_id
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
