//! The events that one call adds to a session, appended atomically.
//!
//! An [`AppendPlan`] can only be created here, and creating it validates it: the session's state accepts its
//! events one by one, none of them is in the log yet, every advance is complete, the events fit into one
//! segment, and the reader of the log decodes the exact bytes that will be written. The store need not check
//! any of this again.

mod unfinished;

use canon::error::Envelope;

pub use unfinished::{UnfinishedAdvance, unfinished_advance};

use crate::record::budgets::{PLAN_BYTES, PLAN_EVENTS};
use crate::record::{DecodeError, Event, EventData, EventId, EventIndex, SessionId, SnapshotRef};
use crate::state::{FoldError, SESSION_EVENTS, SessionState};

#[derive(Clone, Debug)]
pub enum Planned {
    /// The events are new.
    Append(AppendPlan),
    /// All events are already in the log: the call is a repetition and is answered from the log.
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

/// A snapshot that must be kept from now on, because a node of the plan needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The event that introduces the snapshot.
    pub event_index: EventIndex,
    pub event_id: EventId,
    pub snapshot_ref: SnapshotRef,
}

impl AppendPlan {
    /// Validates events that are to follow a log, and applies them to its state.
    ///
    /// Applying them first prevents writing an event that decodes but is not valid at its position: no reader
    /// would accept the log afterwards. Until the plan is appended, the state is ahead of the log. Discard
    /// the state if the append fails.
    ///
    /// # Errors
    /// The first rule that the events violate; see [`PlanError`]. The state may then contain some of the
    /// events and must be discarded.
    #[expect(clippy::new_ret_no_self, reason = "events that are already recorded need no plan")]
    pub fn new(log: &mut SessionState, events: Vec<Event>) -> Result<Planned, PlanError> {
        if events.is_empty() {
            return Err(PlanError::Empty);
        }
        if events.len() > PLAN_EVENTS {
            return Err(PlanError::TooManyEvents { measured: events.len() });
        }
        // An event that can be appended but not applied would make the session unreadable.
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
        for event in &events {
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
        }
        if let Some(cause) = unfinished_advance(&events) {
            return Err(PlanError::Unfinished { cause });
        }
        for event in &events {
            log.apply(event).map_err(|cause| PlanError::CannotFollow {
                index: event.event_index,
                cause: Box::new(cause),
            })?;
        }
        let pins = pins_of(&events);
        Ok(Planned::Append(Self { session_id: log.session_id().clone(), events, segment, pins }))
    }

    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    pub fn first(&self) -> EventIndex {
        self.events.first().expect("a plan has events").event_index
    }

    pub fn last(&self) -> EventIndex {
        self.events.last().expect("a plan has events").event_index
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events, to use after the append.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// The bytes of the segment: one event per line.
    pub fn segment(&self) -> &[u8] {
        &self.segment
    }

    /// The snapshots that the events introduce, in event order.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }
}

/// The snapshots that events introduce: one pin per node, in event order.
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

/// Why events cannot be appended. Every variant is a bug in this program, not an error of the caller.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("the plan has no events")]
    Empty,
    /// The session would exceed its limit of events.
    #[error("the session has reached its limit of {SESSION_EVENTS} events; start a new session")]
    SessionFull,
    /// One append would exceed its limit of events.
    #[error("the plan has {measured} events; the limit of one append is {PLAN_EVENTS}")]
    TooManyEvents { measured: usize },
    /// One append would exceed its limit of bytes.
    #[error("the plan has at least {measured} bytes; the limit of one append is {PLAN_BYTES}")]
    TooManyBytes {
        /// The bytes counted before stopping.
        measured: usize,
    },
    /// Some events are in the log and some are not: the call is neither new nor a repetition.
    #[error("the dedupe key {key} is in the log, but other keys of the plan are not")]
    PartlyRecorded {
        /// The first recorded key.
        key: String,
    },
    /// The reader cannot decode the event.
    #[error("event {} cannot be decoded again", index.0)]
    Unreadable {
        index: EventIndex,
        #[source]
        cause: DecodeError,
    },
    /// The reader decodes a different event.
    #[error("event {} decodes to a different event", index.0)]
    ReadsDifferently { index: EventIndex },
    /// An advance without its node and edge.
    #[error("the plan contains an incomplete advance")]
    Unfinished {
        #[source]
        cause: UnfinishedAdvance,
    },
    /// The state does not accept the event.
    #[error("event {} is not valid after the previous events", index.0)]
    CannotFollow {
        index: EventIndex,
        #[source]
        cause: Box<FoldError>,
    },
}

canon::error_codes! {
    pub enum PlanErrorCode {
        /// The engine planned events that violate a rule of the log.
        Refused => "PLAN_REFUSED",
    }
}

impl PlanError {
    /// The code that programs branch on.
    pub const fn code(&self) -> PlanErrorCode {
        PlanErrorCode::Refused
    }

    /// The error envelope for the caller.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code(), format!("Nothing was recorded: {self}.")).suggest(
            "Repeat the call once. If it fails again, report it with the output of `interlock session verify`: \
             the log is unharmed.",
        );
        match std::error::Error::source(self) {
            Some(cause) => envelope.detail("cause", cause.to_string()),
            None => envelope,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Confidence, DedupeKey, ObservationKey, ObservationValue, Scope};

    fn session() -> SessionId {
        SessionId::derived(&["plan"])
    }

    fn event(index: u64, key: DedupeKey, data: EventData) -> Event {
        Event {
            event_id: EventId::derived(&["plan", &index.to_string()]),
            event_index: EventIndex(index),
            session_id: session(),
            scope: Scope::Session,
            dedupe_key: key,
            timestamp_ms: 0,
            data,
        }
    }

    fn created() -> Event {
        let key = DedupeKey::of("session_created", &[session().as_str()]);
        event(0, key, EventData::SessionCreated { parent_session_id: None })
    }

    fn observed(index: u64, value: &str) -> Event {
        event(
            index,
            DedupeKey::of("observation_recorded", &[value]),
            EventData::ObservationRecorded {
                key: ObservationKey::GitBranch,
                value: ObservationValue::ShortString(value.to_owned()),
                confidence: Confidence::High,
            },
        )
    }

    #[test]
    fn a_plan_has_the_bytes_that_the_reader_decodes_and_is_applied() {
        let mut log = SessionState::new(session());
        let Planned::Append(plan) =
            AppendPlan::new(&mut log, vec![created(), observed(1, "b"), observed(2, "c")]).unwrap()
        else {
            panic!("the log is empty")
        };
        assert_eq!((plan.first(), plan.last()), (EventIndex(0), EventIndex(2)));
        let read: Vec<_> = plan.segment().split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(read.len(), 3);
        assert_eq!(Event::decode(&read[1][..read[1].len() - 1]).unwrap(), plan.events()[1]);
        assert_eq!(log, SessionState::fold(session(), plan.events()).unwrap());
    }

    #[test]
    fn plans_that_are_rejected() {
        let log = SessionState::fold(session(), &[created(), observed(1, "a")]).unwrap();
        let long = "x".repeat(81);
        let stranger = Event { session_id: SessionId::derived(&["other"]), ..observed(2, "b") };
        let nowhere =
            Event { scope: Scope::Run(crate::record::RunId::derived(&["none"])), ..observed(2, "b") };
        let cases: Vec<(&str, Vec<Event>, &str)> = vec![
            ("nothing", vec![], "no events"),
            ("a gap", vec![observed(3, "b")], "event 3 is not valid after"),
            ("again from the start", vec![observed(0, "b")], "event 0 is not valid after"),
            ("another session", vec![stranger], "event 2 is not valid after"),
            ("a scope that its kind does not allow", vec![nowhere], "cannot be decoded again"),
            (
                "created again",
                vec![
                    observed(2, "b"),
                    Event {
                        event_index: EventIndex(3),
                        dedupe_key: DedupeKey::of("session_created", &["again"]),
                        ..created()
                    },
                ],
                "event 3 is not valid after",
            ),
            ("a key twice", vec![observed(2, "b"), observed(3, "b")], "event 3 is not valid after"),
            ("partly recorded", vec![observed(2, "a"), observed(3, "b")], "is in the log"),
            ("partly recorded, later", vec![observed(2, "b"), observed(3, "a")], "is in the log"),
            (
                "a value over its limit",
                vec![Event { dedupe_key: DedupeKey::of("x", &["y"]), ..observed(2, &long) }],
                "cannot be decoded again",
            ),
            (
                "too many",
                (2..=514).map(|n| observed(n, &n.to_string())).collect(),
                "513 events; the limit of one append is 512",
            ),
        ];
        for (name, events, expected) in cases {
            let error = AppendPlan::new(&mut log.clone(), events).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert_eq!(error.envelope().code(), "PLAN_REFUSED", "{name}");
        }
    }

    #[test]
    fn an_appended_plan_is_recorded() {
        let mut log = SessionState::fold(session(), &[created(), observed(1, "a")]).unwrap();
        let before = log.clone();
        assert!(matches!(AppendPlan::new(&mut log, vec![observed(2, "a")]), Ok(Planned::Recorded)));
        assert_eq!(log, before, "no event is applied twice");
    }
}
