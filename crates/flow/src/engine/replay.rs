//! Repeats a run from its log.
//!
//! A replay makes the same decisions for the same inputs. The inputs are reconstructed from the log: each append starts with an event that
//! contains what came from outside, such as the end of a delay or the answer of a person. Pure nodes are computed again. Everything else
//! has its recorded result and time, and no effect is executed. `replay.diverged` records where the replay differs from the
//! source run.

mod inputs;

use std::collections::BTreeSet;

use canon::time::Timestamp;

use self::inputs::{Step, next_step};
use super::turn::Turn;
use super::{Decision, Limits, RunEnvironment};
use crate::definition::Definition;
use crate::event::data::run::{Divergence, ReplayDiverged};
use crate::event::{Event, EventData, EventKind, event_id, size};
use crate::id::{NodeId, RunId, WorkflowId};
use crate::run::SharedGenesis;
use crate::state::{RunError, RunState};

/// The source run of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub run_id: &'a RunId,
    pub events: &'a [Event],
}

impl Source<'_> {
    /// The events before a sequence number, as the fork has them: with event ids of the fork as causes.
    pub fn copied(&self, run_id: &RunId, before: u64) -> Vec<Event> {
        let prefix = event_id(self.run_id, 0);
        let prefix = prefix.strip_suffix('0').unwrap_or(&prefix);
        let own = event_id(run_id, 0);
        let own = own.strip_suffix('0').unwrap_or(&own);
        let events = self.events.iter().take_while(|event| event.sequence < before);
        events
            .map(|event| Event {
                causation_id: event.causation_id.as_ref().map(|cause| match cause.strip_prefix(prefix) {
                    Some(sequence) => format!("{own}{sequence}"),
                    None => cause.clone(),
                }),
                ..event.clone()
            })
            .collect()
    }
}

/// The log of the source run during a replay.
pub(super) struct Recorded<'a> {
    source: Source<'a>,
    /// The workflows of its child runs.
    workflows: &'a BTreeSet<&'a str>,
    diverged: bool,
}

impl<'a> Recorded<'a> {
    /// Whether a child run of that workflow was started.
    pub(super) fn started(&self, workflow_id: &WorkflowId) -> bool {
        self.workflows.contains(workflow_id.as_str())
    }

    /// Whether the event with that sequence number paused the run.
    pub(super) fn pauses(&self, sequence: u64) -> bool {
        self.at(sequence).is_some_and(|event| matches!(event.data, EventData::RunPaused(_)))
    }

    /// Whether the log has ended, or the replay has diverged from it.
    pub(super) fn is_over(&self, sequence: u64) -> bool {
        self.diverged || self.at(sequence).is_none()
    }

    /// A recorded payload, if the replay has not diverged.
    pub(super) fn data(&self, sequence: u64) -> Option<&'a EventData> {
        self.at(sequence).filter(|_| !self.diverged).map(|event| &event.data)
    }

    /// The error of a recorded `node.failed`.
    pub(super) fn failure(&self, sequence: u64) -> Option<RunError> {
        match self.data(sequence)? {
            EventData::NodeFailed(failed) => Some(failed.error.clone()),
            _ => None,
        }
    }

    /// The required confidence in a recorded `node.suspended`.
    pub(super) fn threshold(&self, sequence: u64) -> Option<f64> {
        match &self.at(sequence)?.data {
            EventData::NodeSuspended(suspended) => suspended.threshold.as_ref()?.as_f64(),
            _ => None,
        }
    }

    /// Whether the recorded event opened a conversation.
    pub(super) fn converses(&self, sequence: u64) -> bool {
        self.at(sequence).is_some_and(|event| matches!(event.data, EventData::ConversationOpened(_)))
    }

    /// The target of a recorded handoff.
    pub(super) fn handed_to(&self, sequence: u64) -> Option<String> {
        match self.data(sequence)? {
            EventData::AgentHandoff(handoff) => Some(handoff.to_agent_id.clone()),
            _ => None,
        }
    }

    fn at(&self, sequence: u64) -> Option<&'a Event> {
        self.source.events.get(usize::try_from(sequence).ok()?)
    }

    /// Compares a new event with the recorded one; returns the first difference.
    pub(super) fn compare(
        &mut self,
        sequence: u64,
        kind: &EventKind,
        node_id: Option<&NodeId>,
    ) -> Option<ReplayDiverged> {
        let ended = self.source.events.last().is_some_and(|event| event.kind().is_terminal());
        let difference = match self.at(sequence) {
            _ if self.diverged => None,
            Some(event) if event.kind() != *kind || event.node_id.as_ref() != node_id => {
                Some(Divergence::TypeMismatch)
            }
            None if ended => Some(Divergence::Extra),
            _ => None,
        }?;
        self.diverged = true;
        Some(diverged(&self.source, sequence, difference, kind.as_str()))
    }
}

fn diverged(source: &Source<'_>, sequence: u64, difference: Divergence, point: &str) -> ReplayDiverged {
    ReplayDiverged {
        at_sequence: sequence,
        divergence_kind: difference,
        divergence_point: point.to_owned(),
        original_event_id: event_id(source.run_id, sequence),
        source_run_id: source.run_id.to_owned(),
    }
}

/// Repeats a run. `from` is the first event that is not copied: the decision contains the events from there on.
///
/// A run that has ended is repeated to its end, without effects. A run that has not ended is repeated as far as its log goes; then it waits
/// for its own interrupts and timers, and a node that needs an effect or a child run fails.
pub fn replay(
    definition: &Definition,
    genesis: SharedGenesis,
    source: Source<'_>,
    from: u64,
    now: Timestamp,
    limits: &Limits,
    environment: &dyn RunEnvironment,
) -> (RunState, Decision) {
    let mut state = RunState::new(definition, genesis);
    let mut decision = Decision::default();
    let started = source.events.iter().filter_map(|event| match &event.data {
        EventData::NodeDispatched(dispatched) => Some(dispatched.child_workflow_id.as_str()),
        _ => None,
    });
    let workflows = started.collect();
    let mut has_diverged = false;
    while !state.status.is_terminal() && !has_diverged {
        let sequence = state.next_sequence;
        let Some(event) = usize::try_from(sequence).ok().and_then(|index| source.events.get(index)) else {
            break;
        };
        let step = next_step(definition, &state, source.events);
        let mut turn = Turn::new(definition, &mut state, event.timestamp, limits, environment);
        turn.recorded = Some(Recorded { source, workflows: &workflows, diverged: false });
        match step {
            // A refused input was accepted in the source run. The replay adds no event then, which is reported below.
            Some(Step::Input(input)) => drop(turn.process(*input)),
            Some(Step::InterruptDue(node)) => turn.interrupt_due(node),
            None => {}
        }
        turn.end_over_limit();
        has_diverged = turn.recorded.as_ref().is_some_and(|recorded| recorded.diverged);
        if turn.state.next_sequence == sequence {
            turn.diverge(diverged(&source, sequence, Divergence::Missing, ""));
            has_diverged = true;
        }
        decision.events.extend(turn.finish().events);
    }
    let keep = decision.events.iter().take_while(|event| event.sequence < from).count();
    let same = decision.events[..keep]
        .iter()
        .zip(source.events)
        .all(|(made, was)| made.kind() == was.kind() && made.node_id == was.node_id);
    if !same || u64::try_from(keep).is_ok_and(|keep| keep < from) {
        // This program does not produce the copied events. The fork keeps them as they are.
        return from_copies(definition, &state.genesis, source, from, now, limits, environment);
    }
    decision.events.drain(..keep);
    // The log starts with the recorded events, whose encoding may differ slightly from that of the repeated events.
    let recorded = source.events.iter().take_while(|event| event.sequence < from);
    state.bytes = recorded.chain(&decision.events).map(size::of_event).fold(0, u64::saturating_add);
    if !state.status.is_terminal() {
        let live = continue_run(definition, &mut state, now, limits, environment);
        decision.events.extend(live.events);
        decision.effects = live.effects;
    }
    (state, decision)
}

/// Continues from the copied events, if repeating them gives other events.
fn from_copies(
    definition: &Definition,
    genesis: &SharedGenesis,
    source: Source<'_>,
    from: u64,
    now: Timestamp,
    limits: &Limits,
    environment: &dyn RunEnvironment,
) -> (RunState, Decision) {
    let mut state = RunState::new(definition, genesis.clone());
    for event in &source.copied(&genesis.run_id, from) {
        // Sequence numbers have no gaps, so each event is the next one.
        let _ = state.apply(definition, event);
    }
    let mut turn = Turn::new(definition, &mut state, now, limits, environment);
    turn.diverge(diverged(&source, from, Divergence::Output, ""));
    turn.continue_run();
    turn.end_over_limit();
    let decision = turn.finish();
    (state, decision)
}

fn continue_run(
    definition: &Definition,
    state: &mut RunState,
    now: Timestamp,
    limits: &Limits,
    environment: &dyn RunEnvironment,
) -> Decision {
    let mut turn = Turn::new(definition, state, now, limits, environment);
    turn.continue_run();
    turn.end_over_limit();
    turn.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::event::data::node::NodeSkipped;

    #[test]
    fn copied_events_keep_their_sequence_and_refer_to_the_fork() {
        let event = |sequence: u64, cause: Option<&str>| Event {
            sequence,
            node_id: None,
            data: NodeSkipped { node_id: NodeId::new("a"), reason: "disabled".into() }.into(),
            extra: Map::new(),
            timestamp: Timestamp(sequence),
            causation_id: cause.map(str::to_owned),
        };
        let events = [event(0, None), event(1, Some("evt_source_0")), event(2, Some("evt_other_9"))];
        let source = Source { run_id: &RunId::new("source"), events: &events };
        let copy = source.copied(&RunId::new("fork"), 3);
        assert_eq!(copy.iter().map(|event| event.sequence).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(copy[1].causation_id.as_deref(), Some("evt_fork_0"));
        assert_eq!(copy[2].causation_id.as_deref(), Some("evt_other_9"));
        assert_eq!(source.copied(&RunId::new("fork"), 1).len(), 1);
    }
}
