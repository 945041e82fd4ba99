//! Turns decisions into the changes of a commit, and says what to do once it is durable.

use std::sync::Arc;

use canon::time::Timestamp;
use flow::definition::Definition;
use flow::engine::{Decision, Effect};
use flow::event::{Event, EventData, wire};
use flow::id::{RunId, Tenant};
use flow::snapshot::Snapshot;
use flow::state::RunState;
use ports::runs::{Bytes, Change, StoredAppend};

use super::counts::Tally;
use super::family::for_parent;
use super::new_children::NamedChildren;
use super::timers::timer_key;
use super::{Uses, guide};
use crate::webhooks::Subscriptions;

/// How many copied events are stored in one row. This bounds what the read of a page has to load.
const COPIED_AT_ONCE: usize = 500;

/// The result of a decision, and what is left to do once it is durable.
pub(crate) struct DecisionOutcome {
    pub(super) run_id: RunId,
    pub(super) tenant: Tenant,
    pub(super) append: Option<(StoredAppend, Bytes)>,
    /// Whether the run ended with this append.
    pub(super) is_last: bool,
    pub(super) effects: Vec<Effect>,
    /// Whether a timer was set, so that the timer loop must check again.
    pub(super) timer_set: bool,
    /// Whether a webhook delivery was queued.
    pub(super) queued: bool,
    /// What the counters add for this decision.
    pub(super) tally: Tally,
    /// The final state of the run, for its parent.
    pub(super) ended: Option<Box<RunState>>,
    /// The parent whose watchers must look again at its descendants.
    pub(super) stirs: Option<RunId>,
    /// The parent to notify that this run waits for a person, or continues.
    pub(super) waits: Option<RunId>,
    /// The children that were created in the same commit and have not begun.
    pub(super) newborn: Vec<RunId>,
}

/// What is read before the changes of a decision are written.
pub(crate) struct Prepared {
    pub(super) subscribers: Subscriptions,
    pub(super) children: NamedChildren,
}

impl DecisionOutcome {
    /// Whether nothing is left to do: the run is new and ended immediately, no parent waits for it, and nothing can watch it yet.
    pub(super) fn is_all(&self) -> bool {
        self.is_last
            && !self.timer_set
            && !self.queued
            && self.effects.is_empty()
            && self.ended.is_none()
            && self.waits.is_none()
    }
}

/// Turns decisions into changes. It changes nothing itself.
pub(crate) struct Recorder<'a> {
    pub(super) uses: &'a Arc<Uses>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(uses: &'a Arc<Uses>) -> Self {
        Self { uses }
    }

    /// Reads what [`Recorder::outcome`] needs from the store.
    pub(crate) async fn prepare(&self, state: &RunState, decision: &Decision) -> Prepared {
        Prepared {
            subscribers: self.uses.webhooks.subscribers(&state.genesis).await,
            children: self.find_new_children(state, decision).await,
        }
    }

    /// The consequences of a decision: the changes for the commit, and what to do after it.
    pub(crate) fn outcome(
        &self,
        definition: &Definition,
        state: &RunState,
        decision: Decision,
        prepared: &Prepared,
        changes: &mut Vec<Change>,
    ) -> DecisionOutcome {
        let run_id = &state.genesis.run_id;
        let is_new = decision.events.first().is_some_and(|event| event.sequence == 0);
        let before = for_parent(decision.before);
        let tally = Tally::of(&decision.events, state);
        let append = self.append(definition, state, &decision.events, &prepared.subscribers, changes);
        changes.extend(self.uses.states.state_checkpoint(state, &decision.events));
        let newborn = self.create_children(state, &decision, prepared, changes);
        let (mut effects, mut closed) = (Vec::new(), false);
        for effect in decision.effects {
            match effect {
                Effect::SetTimer { timer, at } => {
                    changes.push(Change::SetTimer { run_id: run_id.clone(), key: timer_key(&timer), at });
                }
                Effect::ClearTimer { timer } => {
                    let key = timer_key(&timer);
                    // A timer that one decision sets and clears is not set at all. A new run has no other timers to clear.
                    changes.retain(|change| !is_timer(change, |set| *set == key));
                    if !is_new {
                        changes.push(Change::ClearTimer { run_id: run_id.clone(), key });
                    }
                }
                Effect::StoreArtifact { artifact_id, mut document } => {
                    self.uses.records.secrets().redact(&state.genesis.tenant, &mut document);
                    changes.push(Change::PutArtifact {
                        run_id: run_id.clone(),
                        artifact_id,
                        document: document.to_string().into_bytes().into(),
                    });
                }
                Effect::InterruptRaised { node_id } => {
                    self.uses.webhooks.queue_callback(state, &node_id, changes);
                }
                Effect::InterruptClosed { .. } => closed = true,
                Effect::EndGuide { ref node_id, ref session_id } => {
                    changes.push(guide::end_later(run_id, node_id, session_id, self.uses.records.now()));
                    effects.push(effect);
                }
                Effect::StartChild(_)
                | Effect::CancelChild { .. }
                | Effect::Activity(_)
                | Effect::Guide(_) => effects.push(effect),
            }
        }
        let is_child = state.genesis.parent.is_some() && state.genesis.fork.is_none();
        let changed_child = is_child && append.is_some();
        let ended = state.status.is_terminal() && changed_child;
        let stirs = changed_child && (closed || state.awaits(definition).is_some());
        let waits = changed_child && !ended && for_parent(state.status) != before;
        let waits = state.genesis.parent.as_ref().filter(|_| waits).map(|parent| parent.run_id.clone());
        let stirs = state.genesis.parent.as_ref().filter(|_| stirs).map(|parent| parent.run_id.clone());
        DecisionOutcome {
            run_id: run_id.clone(),
            tenant: state.genesis.tenant.clone(),
            append,
            is_last: state.status.is_terminal(),
            effects,
            timer_set: changes.iter().any(|change| is_timer(change, |_| true)),
            tally,
            queued: changes.iter().any(|change| matches!(change, Change::PutDelivery { .. })),
            ended: ended.then(|| Box::new(state.clone())),
            stirs,
            waits,
            newborn,
        }
    }

    /// The change that makes events durable, with the append for streams.
    pub(super) fn append(
        &self,
        definition: &Definition,
        state: &RunState,
        events: &[Event],
        subscribers: &Subscriptions,
        changes: &mut Vec<Change>,
    ) -> Option<(StoredAppend, Bytes)> {
        let (first, last) = (events.first()?, events.last()?);
        let (run_id, tenant) = (&state.genesis.run_id, &state.genesis.tenant);
        let texts: Vec<_> = events.iter().map(|event| self.encode(tenant, run_id, event)).collect();
        self.uses.webhooks.queue(definition, &state.genesis, subscribers, (events, &texts), changes);
        let events: Bytes = texts.join("\n").into_bytes().into();
        let snapshot = self.snapshot(definition, state, last.timestamp);
        changes.push(Change::Append {
            run_id: run_id.clone(),
            first: first.sequence,
            last: last.sequence,
            events: Arc::clone(&events),
            status: state.status,
            snapshot: Arc::clone(&snapshot),
            at: last.timestamp,
        });
        Some((StoredAppend { first: first.sequence, last: last.sequence, events }, snapshot))
    }

    /// The snapshot of a run, with known secrets removed.
    fn snapshot(&self, definition: &Definition, state: &RunState, at: Timestamp) -> Bytes {
        const PLAIN: &str = "names are strings, so this cannot fail";
        let snapshot = Snapshot::of(definition, state, at);
        let tenant = &state.genesis.tenant;
        if self.uses.records.secrets().are_known_of(tenant) {
            let mut snapshot = serde_json::to_value(snapshot).expect(PLAIN);
            self.uses.records.secrets().redact_known(tenant, &mut snapshot);
            return snapshot.to_string().into_bytes().into();
        }
        let mut bytes = Vec::with_capacity(1024);
        serde_json::to_writer(&mut bytes, &snapshot).expect(PLAIN);
        bytes.into()
    }

    /// The JSON text of an event, with known secrets removed.
    fn encode(&self, tenant: &Tenant, run_id: &RunId, event: &Event) -> String {
        if !self.uses.records.secrets().are_known_of(tenant) {
            return wire::encode(run_id, event);
        }
        let mut payload = event.payload();
        for name in payload.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = payload.get_mut(&name) else { continue };
            let known = member.clone();
            self.uses.records.secrets().redact_known(tenant, member);
            // A secret can equal a word of the protocol, such as the status of a child. It stays where the protocol needs the word,
            // because the run would become unreadable otherwise. Everywhere else it is removed.
            if *member != known && EventData::read(event.kind(), payload.clone()).is_err() {
                payload.insert(name, known);
            }
        }
        wire::encode_payload(run_id, event, &payload)
    }

    /// Makes the copied events of a fork durable. No deliveries are queued, because subscribers already received these events.
    pub(crate) fn copy(
        &self,
        definition: &Definition,
        state: &RunState,
        events: &[Event],
        changes: &mut Vec<Change>,
    ) {
        let run_id = &state.genesis.run_id;
        // The snapshot of the last change counts, because readers see the commit as a whole.
        let at = state.last_event_at.unwrap_or(self.uses.records.now());
        let snapshot = self.snapshot(definition, state, at);
        for part in events.chunks(COPIED_AT_ONCE) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let texts: Vec<_> = part.iter().map(|event| wire::encode(run_id, event)).collect();
            changes.push(Change::Append {
                run_id: run_id.clone(),
                first: first.sequence,
                last: last.sequence,
                events: texts.join("\n").into_bytes().into(),
                status: state.status,
                snapshot: Arc::clone(&snapshot),
                at,
            });
        }
    }
}

/// Whether a change sets a timer whose key matches.
fn is_timer(change: &Change, such: impl FnOnce(&String) -> bool) -> bool {
    matches!(change, Change::SetTimer { key, .. } if such(key))
}
