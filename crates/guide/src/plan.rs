//! What one call adds to a session: all of it, or nothing.
//!
//! An [`AppendPlan`] can only be made here, and making it is the check. Whoever holds one knows
//! that its events follow the log without a gap, that none of them happened before, that they
//! fit into one segment, and that the reader of the log accepts the very bytes which will be
//! written. The store does not have to think about any of it again.

use std::collections::BTreeSet;

use canon::digest::Digest;
use canon::error::Envelope;

use crate::record::budgets::{PLAN_BYTES, PLAN_EVENTS};
use crate::record::{DecodeError, DedupeKey, Event, EventData, EventId, EventIndex, SessionId, SnapshotRef};
use crate::state::{SESSION_EVENTS, SessionState};

/// A log as a plan has to know it: where it ends, and what happened in it.
pub trait LogView {
    /// The session.
    fn session_id(&self) -> &SessionId;

    /// The index that the next event gets.
    fn next_index(&self) -> EventIndex;

    /// Whether an event with this key is in the log.
    fn contains(&self, key: &DedupeKey) -> bool;
}

impl LogView for SessionState {
    fn session_id(&self) -> &SessionId {
        self.session_id()
    }

    fn next_index(&self) -> EventIndex {
        self.next_index()
    }

    fn contains(&self, key: &DedupeKey) -> bool {
        self.contains(key)
    }
}

/// The dedupe keys of a log, and with them where it ends: for whoever does not fold its state, as an
/// import does.
///
/// The two belong together: a plan that was checked against the keys of an older log must not be
/// appended to a newer one. Keys are kept as 128 bits of their digest, since a long session has
/// thousands and every cached session keeps them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKeys {
    session_id: SessionId,
    next: EventIndex,
    keys: BTreeSet<[u8; 16]>,
}

impl LogKeys {
    /// The keys of a log without events.
    pub const fn new(session_id: SessionId) -> Self {
        Self { session_id, next: EventIndex::FIRST, keys: BTreeSet::new() }
    }

    /// Takes the next event of the log into account.
    ///
    /// # Errors
    /// The event is of another session, or not the next one.
    pub fn record(&mut self, event: &Event) -> Result<(), PlanError> {
        follows(event, &self.session_id, self.next)?;
        self.keys.insert(short(&event.dedupe_key));
        self.next = self.next.next();
        Ok(())
    }
}

impl LogView for LogKeys {
    fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    fn next_index(&self) -> EventIndex {
        self.next
    }

    fn contains(&self, key: &DedupeKey) -> bool {
        self.keys.contains(&short(key))
    }
}

/// What comes of planning.
#[derive(Clone, Debug)]
pub enum Planned {
    /// There is something to append.
    Append(AppendPlan),
    /// Every event is in the log already: the call was made before, and is answered from the log.
    Recorded,
}

/// Events that are appended together.
#[derive(Clone, Debug)]
pub struct AppendPlan {
    session_id: SessionId,
    events: Vec<Event>,
    segment: Vec<u8>,
    pins: Vec<Pin>,
}

/// A snapshot that has to be kept from now on, because a node of the plan needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The event that introduces it.
    pub event_index: EventIndex,
    /// The same event, by its id.
    pub event_id: EventId,
    /// The snapshot.
    pub snapshot_ref: SnapshotRef,
}

impl AppendPlan {
    /// Checks the events that are to follow a log.
    ///
    /// # Errors
    /// The first rule that the events break; see [`PlanError`].
    #[expect(clippy::new_ret_no_self, reason = "what was recorded before is no plan any more")]
    pub fn new(log: &impl LogView, events: Vec<Event>) -> Result<Planned, PlanError> {
        if events.is_empty() {
            return Err(PlanError::Empty);
        }
        if events.len() > PLAN_EVENTS {
            return Err(PlanError::TooManyEvents { measured: events.len() });
        }
        // What could be appended but not folded would make the session unreadable.
        if log.next_index().0 + events.len() as u64 > SESSION_EVENTS {
            return Err(PlanError::SessionFull);
        }
        let known = events.iter().filter(|event| log.contains(&event.dedupe_key)).count();
        if known == events.len() {
            return Ok(Planned::Recorded);
        }
        if known > 0 {
            let key = events.iter().find(|event| log.contains(&event.dedupe_key));
            let key = key.expect("one of them is known").dedupe_key.as_str().to_owned();
            return Err(PlanError::PartlyRecorded { key });
        }
        let mut segment = Vec::with_capacity(events.len() * 512);
        let mut keys = BTreeSet::new();
        let session_id = log.session_id().clone();
        let mut next = log.next_index();
        for event in &events {
            follows(event, &session_id, next)?;
            if !keys.insert(&event.dedupe_key) {
                return Err(PlanError::KeyTwice { key: event.dedupe_key.as_str().to_owned() });
            }
            let line = event.encode();
            let unreadable = |cause| PlanError::Unreadable { index: event.event_index, cause };
            let read_back = Event::decode(&line).map_err(unreadable)?;
            if read_back != *event {
                return Err(PlanError::ReadsDifferently { index: event.event_index });
            }
            segment.extend_from_slice(&line);
            segment.push(b'\n');
            if segment.len() > PLAN_BYTES {
                return Err(PlanError::TooManyBytes { measured: segment.len() });
            }
            next = next.next();
        }
        let pins = pins_of(&events);
        Ok(Planned::Append(Self { session_id, events, segment, pins }))
    }

    /// The session.
    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// The index of the first event.
    pub fn first(&self) -> EventIndex {
        self.events.first().expect("a plan has events").event_index
    }

    /// The index of the last event.
    pub fn last(&self) -> EventIndex {
        self.events.last().expect("a plan has events").event_index
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events, for whoever goes on with them after the append.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// The bytes of the segment: one event to a line.
    pub fn segment(&self) -> &[u8] {
        &self.segment
    }

    /// The snapshots that the events introduce, in their order.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }
}

/// The snapshots that events introduce: one pin for each node, in the order of the events.
pub fn pins_of(events: &[Event]) -> Vec<Pin> {
    let pin = |event: &Event| match &event.data {
        EventData::NodeCreated { snapshot_ref, .. } => Some(Pin {
            event_index: event.event_index,
            event_id: event.event_id.clone(),
            snapshot_ref: *snapshot_ref,
        }),
        _ => None,
    };
    events.iter().filter_map(pin).collect()
}

fn short(key: &DedupeKey) -> [u8; 16] {
    let digest = Digest::of_bytes(key.as_str().as_bytes());
    *digest.as_bytes().first_chunk().expect("a digest has 32 bytes")
}

fn follows(event: &Event, session: &SessionId, expected: EventIndex) -> Result<(), PlanError> {
    if event.session_id != *session {
        return Err(PlanError::OtherSession { index: event.event_index });
    }
    if event.event_index != expected {
        return Err(PlanError::NotContiguous { expected, found: event.event_index });
    }
    Ok(())
}

/// Why events are no plan. Each is a fault of the program that made them, not of its caller.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Nothing to append.
    #[error("a plan has at least one event")]
    Empty,
    /// More events than a session holds.
    #[error("a session holds at most {SESSION_EVENTS} events, and this one is full: start a new run")]
    SessionFull,
    /// More events than a segment holds.
    #[error("the plan has {measured} events; one append takes at most {PLAN_EVENTS}")]
    TooManyEvents {
        /// How many.
        measured: usize,
    },
    /// More bytes than a segment holds.
    #[error("the plan has {measured} bytes or more; one append takes at most {PLAN_BYTES}")]
    TooManyBytes {
        /// How many were counted before giving up.
        measured: usize,
    },
    /// An event of another session.
    #[error("event {} belongs to another session", index.0)]
    OtherSession {
        /// Which one.
        index: EventIndex,
    },
    /// A gap, or an event in the wrong place.
    #[error("expected event {}, found event {}", expected.0, found.0)]
    NotContiguous {
        /// The index that comes next.
        expected: EventIndex,
        /// The index that came.
        found: EventIndex,
    },
    /// Two events of the plan have the same dedupe key.
    #[error("the dedupe key {key} stands twice in the plan")]
    KeyTwice {
        /// Which key.
        key: String,
    },
    /// Some events are in the log and some are not: it is neither a new call nor a repeated one.
    #[error("the dedupe key {key} is in the log, and others of the plan are not")]
    PartlyRecorded {
        /// The first known key.
        key: String,
    },
    /// The reader refuses what would be written.
    #[error("event {} could not be read back", index.0)]
    Unreadable {
        /// Which one.
        index: EventIndex,
        /// Why.
        #[source]
        cause: DecodeError,
    },
    /// The reader would understand something else.
    #[error("event {} reads back as another event", index.0)]
    ReadsDifferently {
        /// Which one.
        index: EventIndex,
    },
}

canon::error_codes! {
    /// The codes of plans.
    pub enum PlanErrorCode {
        /// The engine made a plan that breaks a rule of the log.
        Refused => "PLAN_REFUSED",
    }
}

impl PlanError {
    /// The code that programs branch on.
    pub const fn code(&self) -> PlanErrorCode {
        PlanErrorCode::Refused
    }

    /// The refusal as a caller is told it.
    pub fn envelope(&self) -> Envelope {
        Envelope::new(self.code(), format!("Nothing was recorded: {self}.")).suggest(
            "Repeat the call once. If it fails again, report it with the output of `interlock session verify`: \
             the log is unharmed.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Confidence, ObservationKey, ObservationValue, Scope};

    fn session() -> SessionId {
        SessionId::derived(&["plan"])
    }

    fn observed(index: u64, value: &str) -> Event {
        Event {
            event_id: EventId::derived(&["plan", &index.to_string()]),
            event_index: EventIndex(index),
            session_id: session(),
            scope: Scope::Session,
            dedupe_key: DedupeKey::of("observation_recorded", &[value]),
            timestamp_ms: 0,
            data: EventData::ObservationRecorded {
                key: ObservationKey::GitBranch,
                value: ObservationValue::ShortString(value.to_owned()),
                confidence: Confidence::High,
            },
        }
    }

    #[test]
    fn a_plan_holds_the_bytes_that_the_reader_reads() {
        let Planned::Append(plan) =
            AppendPlan::new(&LogKeys::new(session()), vec![observed(0, "a"), observed(1, "b")]).unwrap()
        else {
            panic!("nothing is recorded yet")
        };
        assert_eq!((plan.first(), plan.last()), (EventIndex(0), EventIndex(1)));
        let read: Vec<_> = plan.segment().split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(read.len(), 2);
        assert_eq!(Event::decode(&read[1][..read[1].len() - 1]).unwrap(), plan.events()[1]);
    }

    #[test]
    fn plans_that_are_refused() {
        let mut log = LogKeys::new(session());
        log.record(&observed(0, "a")).unwrap();
        let long = "x".repeat(81);
        let stranger = Event { session_id: SessionId::derived(&["other"]), ..observed(1, "b") };
        let cases: Vec<(&str, Vec<Event>, &str)> = vec![
            ("nothing", vec![], "at least one"),
            ("a gap", vec![observed(2, "b")], "expected event 1, found event 2"),
            ("again from the start", vec![observed(0, "b")], "expected event 1, found event 0"),
            ("another session", vec![stranger], "another session"),
            ("a key twice", vec![observed(1, "b"), observed(2, "b")], "stands twice"),
            ("half known", vec![observed(1, "a"), observed(2, "b")], "is in the log"),
            ("half known, later", vec![observed(1, "b"), observed(2, "a")], "is in the log"),
            (
                "what no reader takes",
                vec![Event { dedupe_key: DedupeKey::of("x", &["y"]), ..observed(1, &long) }],
                "could not be read back",
            ),
            (
                "too many",
                (1..=513).map(|n| observed(n, &n.to_string())).collect(),
                "513 events; one append takes at most 512",
            ),
        ];
        for (name, events, expected) in cases {
            let error = AppendPlan::new(&log, events).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert_eq!(error.envelope().code(), "PLAN_REFUSED", "{name}");
        }
    }

    #[test]
    fn a_plan_that_was_appended_is_recorded() {
        let mut log = LogKeys::new(session());
        log.record(&observed(0, "a")).unwrap();
        assert!(matches!(AppendPlan::new(&log, vec![observed(1, "a")]), Ok(Planned::Recorded)));
        assert!(log.record(&observed(2, "c")).is_err());
        assert_eq!(log.next_index(), EventIndex(1));
    }
}
