//! How each event changes the state.
//!
//! `nodes.rs` applies the events of nodes and interrupts, `facts.rs` those of variables, channels, child runs and decisions.

mod facts;
mod nodes;

use canon::time::Timestamp;

use super::{AnswerState, Draining, NodeStatus, OutOfOrder, RunState};
use crate::definition::{Definition, NodeIndex};
use crate::event::{Event, EventData, size};
use crate::run::RunStatus;

impl RunState {
    /// Applies one event.
    ///
    /// # Errors
    /// The event has an unexpected sequence number. The state is unchanged then.
    pub fn apply(&mut self, definition: &Definition, event: &Event) -> Result<(), OutOfOrder> {
        self.apply_sized(definition, event, size::of_event(event))
    }

    /// Like [`RunState::apply`], for an event whose size is already known.
    pub(crate) fn apply_sized(
        &mut self,
        definition: &Definition,
        event: &Event,
        bytes: u64,
    ) -> Result<(), OutOfOrder> {
        if event.sequence != self.next_sequence {
            return Err(OutOfOrder { expected: self.next_sequence, found: event.sequence });
        }
        self.next_sequence += 1;
        self.last_event_at = Some(event.timestamp);
        self.bytes = self.bytes.saturating_add(bytes);
        self.schedule.last_steps = 0;
        let node = event.node_id.as_ref().and_then(|id| self.node_index(id));
        if let Some(node) = node {
            self.nodes[node].last_sequence = Some(event.sequence);
        }
        self.apply_data(definition, node, event);
        if let Some(node) = node
            && (matches!(event.data, EventData::NodeDispatched(_))
                || self.schedule.held.contains(&definition.graph.rank[node]))
        {
            self.update_held(definition, node);
        }
        self.update_status(definition);
        self.count_waiting(event.timestamp);
        Ok(())
    }

    /// Applies the payload of an event. The match is exhaustive: kinds that do not change the state are listed, too.
    fn apply_data(&mut self, definition: &Definition, node: Option<NodeIndex>, event: &Event) {
        match (&event.data, node) {
            (EventData::RunStarted(_), _) => {
                self.status = RunStatus::Running;
                self.started_at = Some(event.timestamp);
                self.begin(definition);
            }
            (EventData::RunPaused(paused), _) => {
                self.paused = Some((event.timestamp, paused.drain_policy));
                self.draining = None;
                self.rounds.add(&event.payload());
            }
            (EventData::PauseRequested(requested), _) => {
                self.draining =
                    Some(Draining { since: event.timestamp, reason: requested.reason.clone() });
                self.rounds.add(&event.payload());
            }
            (EventData::RunResumed(resumed), _) => {
                if let Some((since, _)) = self.paused.take() {
                    self.paused_ms = self.paused_ms.saturating_add(event.timestamp.since(since));
                }
                // A restart of the host does not revoke a requested pause.
                if resumed.cause.is_none() {
                    self.draining = None;
                }
            }
            (EventData::RunCompleted(_), _) => self.end(RunStatus::Completed, event),
            (EventData::RunCancelled(_), _) => self.end(RunStatus::Cancelled, event),
            (EventData::RunFailed(failed), _) => {
                self.error = Some(failed.error.clone());
                self.end(RunStatus::Failed, event);
            }

            (EventData::NodeStarted(started), Some(node)) => self.start(definition, node, started, event),
            (EventData::NodeSuspended(_), Some(node)) => {
                self.move_to(definition, node, NodeStatus::Suspended);
                let state = &mut self.nodes[node];
                state.interrupts += 1;
                state.answer = AnswerState::None;
            }
            (EventData::NodeResumed(_), Some(node)) => self.move_to(definition, node, NodeStatus::Running),
            (EventData::NodeRetried(retried), Some(node)) => self.retry(definition, node, retried, event),
            (EventData::NodeCompleted(completed), Some(node)) => {
                self.complete(definition, node, completed, event);
            }
            (EventData::NodeFailed(failed), Some(node)) => {
                self.nodes[node].error = Some(failed.error.clone());
                self.leave(definition, node, NodeStatus::Failed, event);
            }
            (EventData::NodeSkipped(_), Some(node)) => {
                self.leave(definition, node, NodeStatus::Skipped, event);
            }
            (EventData::NodeCancelled(_), Some(node)) => {
                self.leave(definition, node, NodeStatus::Cancelled, event);
            }
            (EventData::NodeDispatched(dispatched), Some(node)) => {
                self.dispatch(definition, node, dispatched, event);
            }

            (EventData::InterruptRequested(requested), Some(node)) => {
                self.ask(definition, node, requested, event);
            }
            (EventData::InterruptResolved(resolved), Some(node)) => {
                self.answer(definition, node, resolved, event);
            }
            (EventData::ApprovalReceived(received), node) => {
                self.vote(definition, node, &received.decided_by, &received.action, event);
                self.rounds.add(&event.payload());
            }
            (EventData::ApprovalGranted(granted), node) => {
                self.vote(definition, node, &granted.principal, "accept", event);
                self.rounds.add(&event.payload());
            }
            (EventData::ApprovalRejected(rejected), node) => {
                self.vote(definition, node, &rejected.principal, "reject", event);
                self.rounds.add(&event.payload());
            }
            (EventData::ApprovalOverridden(overridden), node) => {
                self.vote(definition, node, &overridden.principal, "accept", event);
            }
            (EventData::ConversationExchanged(exchanged), node) => {
                self.exchange(definition, node, exchanged.turn_index);
                self.rounds.add(&event.payload());
            }

            (EventData::VariableChanged(changed), _) => self.change(changed),
            (EventData::ChannelWritten(written), _) => self.write(definition, node, written, event.timestamp),
            (EventData::ArtifactCreated(created), _) => {
                self.artifacts.insert(created.artifact_id.clone(), created.clone());
            }
            (EventData::LogAppended(_), _) => self.rounds.add(&event.payload()),
            (EventData::OrchestratorDecided(decided), _) => {
                self.decide(definition, node, decided, event.sequence);
            }
            (EventData::DispatchFanOut(_), Some(node)) => {
                self.nodes[node].fan_out = Some(event.sequence);
            }
            (EventData::WorkflowChainEvent(chain), _) => self.hand_off(chain, event.sequence),
            (EventData::LoopbackLimit(_), _) => self.schedule.exhausted = None,
            (EventData::ProviderUsage(usage), Some(_)) => self.spend(usage),

            // Events of nodes that the definition does not have. A run is pinned to its definition, so no program writes them.
            (
                EventData::NodeStarted(_)
                | EventData::NodeSuspended(_)
                | EventData::NodeResumed(_)
                | EventData::NodeRetried(_)
                | EventData::NodeCompleted(_)
                | EventData::NodeFailed(_)
                | EventData::NodeSkipped(_)
                | EventData::NodeCancelled(_)
                | EventData::NodeDispatched(_)
                | EventData::InterruptRequested(_)
                | EventData::InterruptResolved(_)
                | EventData::DispatchFanOut(_)
                | EventData::ProviderUsage(_),
                None,
            )
            // Informational events. A separate event changes the state.
            | (
                EventData::ApprovalRequested(_)
                | EventData::ClarificationRequested(_)
                | EventData::ClarificationResolved(_)
                | EventData::ConversationOpened(_)
                | EventData::ConversationClosed(_)
                | EventData::OutputChunk(_)
                | EventData::VersionPinned(_)
                | EventData::CapBreached(_)
                | EventData::ReplayDiverged(_)
                | EventData::AgentReasoned(_)
                | EventData::AgentReasoningDelta(_)
                | EventData::AgentToolCalled(_)
                | EventData::AgentToolReturned(_)
                | EventData::AgentHandoff(_)
                | EventData::AgentDecided(_)
                | EventData::AgentPromptResolved(_)
                | EventData::PromptComposed(_)
                | EventData::ConfidenceEscalated(_)
                | EventData::DispatchJoin(_)
                | EventData::ModelCapabilityInsufficient(_)
                | EventData::ModelCapabilitySubstituted(_)
                | EventData::EnvelopeRetryAttempted(_)
                | EventData::EnvelopeRetryExhausted(_)
                | EventData::EnvelopeRefusal(_)
                | EventData::EnvelopeTruncated(_)
                | EventData::EnvelopeNlToFormatEngaged(_)
                | EventData::EnvelopeRecoveryApplied(_)
                | EventData::Other { .. },
                _,
            ) => {}
        }
    }

    fn end(&mut self, status: RunStatus, event: &Event) {
        self.status = status;
        self.completed_at = Some(event.timestamp);
        self.paused = None;
        self.draining = None;
        self.schedule.ready.clear();
    }

    /// Computes the status that readers see.
    fn update_status(&mut self, definition: &Definition) {
        if self.status.is_terminal() || self.started_at.is_none() {
            return;
        }
        self.status = if self.paused.is_some() {
            RunStatus::Paused
        } else if self.schedule.running > self.schedule.held.len() || !self.schedule.ready.is_empty() {
            RunStatus::Running
        } else {
            // No node is being executed, so the first active node, or a child of it, waits for a person or an external event.
            let first = self.schedule.active.first().map(|rank| definition.graph.order[*rank]);
            first.and_then(|node| self.waits_for(definition, node)).unwrap_or(RunStatus::Running)
        };
    }

    /// What a node waits for: its own interrupt, or what the first of its waiting children waits for.
    fn waits_for(&self, definition: &Definition, node: NodeIndex) -> Option<RunStatus> {
        if let Some(interrupt) = self.interrupts.get(&definition.nodes[node].id) {
            return Some(interrupt.kind.waiting());
        }
        let children = self.nodes[node].children.iter().map(|index| &self.children[*index]);
        children
            .filter(|child| child.ended.is_none())
            .map(|child| child.status)
            .find(|status| status.is_waiting())
    }

    /// Counts the time in which the run waits only for people. It does not count while a guided agent works.
    fn count_waiting(&mut self, now: Timestamp) {
        let only_waits = self.status.is_waiting() && self.schedule.guiding == 0;
        match (only_waits, self.waiting_since) {
            (true, None) => self.waiting_since = Some(now),
            (false, Some(since)) => {
                self.waited_ms = self.waited_ms.saturating_add(now.since(since));
                self.waiting_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}
