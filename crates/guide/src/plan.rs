//! What one call adds to a session: all of it, or nothing.
//!
//! An [`AppendPlan`] can only be made here, and making it is the check. Whoever holds one knows
//! that the fold of the session took its events one by one, that none of them happened before, that
//! every advance they tell of is told whole, that they fit into one segment, and that the reader of
//! the log accepts the very bytes which will be written. The store does not have to think about any
//! of it again.

mod unfinished;

use canon::error::Envelope;

pub use unfinished::{UnfinishedAdvance, unfinished_advance};

use crate::record::budgets::{PLAN_BYTES, PLAN_EVENTS};
use crate::record::{DecodeError, Event, EventData, EventId, EventIndex, SessionId, SnapshotRef};
use crate::state::{FoldError, SESSION_EVENTS, SessionState};

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
    pub snapshot_ref: SnapshotRef,
}

impl AppendPlan {
    /// Checks the events that are to follow a log, and folds them into its state.
    ///
    /// Folding first is what keeps an event out of the log that decodes and cannot follow: it would
    /// be written, and refused by everybody who reads it. The state is then ahead of the log until
    /// the plan is appended, so whoever does not get that far throws it away.
    ///
    /// # Errors
    /// The first rule that the events break; see [`PlanError`]. The state may hold some of the events
    /// then, and is of no further use either.
    #[expect(clippy::new_ret_no_self, reason = "what was recorded before is no plan any more")]
    pub fn new(log: &mut SessionState, events: Vec<Event>) -> Result<Planned, PlanError> {
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

    /// The index of the first event.
    pub fn first(&self) -> EventIndex {
        self.events.first().expect("a plan has events").event_index
    }

    /// The index of the last event.
    pub fn last(&self) -> EventIndex {
        self.events.last().expect("a plan has events").event_index
    }

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
    TooManyEvents { measured: usize },
    /// More bytes than a segment holds.
    #[error("the plan has {measured} bytes or more; one append takes at most {PLAN_BYTES}")]
    TooManyBytes {
        /// How many were counted before giving up.
        measured: usize,
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
        index: EventIndex,
        #[source]
        cause: DecodeError,
    },
    /// The reader would understand something else.
    #[error("event {} reads back as another event", index.0)]
    ReadsDifferently { index: EventIndex },
    /// An advance without the node and the edge that it leads to.
    #[error("the plan tells of an advance that it does not make")]
    Unfinished {
        #[source]
        cause: UnfinishedAdvance,
    },
    /// The fold refuses what would be written.
    #[error("event {} cannot follow the ones before it", index.0)]
    CannotFollow {
        index: EventIndex,
        #[source]
        cause: Box<FoldError>,
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
    fn a_plan_holds_the_bytes_that_the_reader_reads_and_is_folded() {
        let mut log = SessionState::new(session());
        let Planned::Append(plan) =
            AppendPlan::new(&mut log, vec![created(), observed(1, "b"), observed(2, "c")]).unwrap()
        else {
            panic!("nothing is recorded yet")
        };
        assert_eq!((plan.first(), plan.last()), (EventIndex(0), EventIndex(2)));
        let read: Vec<_> = plan.segment().split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(read.len(), 3);
        assert_eq!(Event::decode(&read[1][..read[1].len() - 1]).unwrap(), plan.events()[1]);
        assert_eq!(log, SessionState::fold(session(), plan.events()).unwrap());
    }

    #[test]
    fn plans_that_are_refused() {
        let log = SessionState::fold(session(), &[created(), observed(1, "a")]).unwrap();
        let long = "x".repeat(81);
        let stranger = Event { session_id: SessionId::derived(&["other"]), ..observed(2, "b") };
        let nowhere =
            Event { scope: Scope::Run(crate::record::RunId::derived(&["none"])), ..observed(2, "b") };
        let cases: Vec<(&str, Vec<Event>, &str)> = vec![
            ("nothing", vec![], "at least one"),
            ("a gap", vec![observed(3, "b")], "event 3 cannot follow"),
            ("again from the start", vec![observed(0, "b")], "event 0 cannot follow"),
            ("another session", vec![stranger], "event 2 cannot follow"),
            ("a scope that its kind does not have", vec![nowhere], "could not be read back"),
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
                "event 3 cannot follow",
            ),
            ("a key twice", vec![observed(2, "b"), observed(3, "b")], "event 3 cannot follow"),
            ("half known", vec![observed(2, "a"), observed(3, "b")], "is in the log"),
            ("half known, later", vec![observed(2, "b"), observed(3, "a")], "is in the log"),
            (
                "what no reader takes",
                vec![Event { dedupe_key: DedupeKey::of("x", &["y"]), ..observed(2, &long) }],
                "could not be read back",
            ),
            (
                "too many",
                (2..=514).map(|n| observed(n, &n.to_string())).collect(),
                "513 events; one append takes at most 512",
            ),
        ];
        for (name, events, expected) in cases {
            let error = AppendPlan::new(&mut log.clone(), events).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert_eq!(error.envelope().code(), "PLAN_REFUSED", "{name}");
        }
    }

    #[test]
    fn a_plan_that_was_appended_is_recorded() {
        let mut log = SessionState::fold(session(), &[created(), observed(1, "a")]).unwrap();
        let before = log.clone();
        assert!(matches!(AppendPlan::new(&mut log, vec![observed(2, "a")]), Ok(Planned::Recorded)));
        assert_eq!(log, before, "and nothing is folded twice");
    }
}
