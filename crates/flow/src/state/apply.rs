//! How each event changes the state.
//!
//! `nodes.rs` has the life of a node, `facts.rs` what nodes leave behind: variables, channels, children, decisions.

mod facts;
mod nodes;

use canon::time::Timestamp;
use serde_json::Value;

use super::{Draining, OutOfOrder, RunError, RunState};
use crate::definition::{Definition, NodeIndex};
use crate::engine::DrainPolicy;
use crate::event::{Event, EventKind, size};
use crate::run::RunStatus;

impl RunState {
    /// Folds one event in.
    ///
    /// # Errors
    /// When another event is next. The state is then as it was.
    pub fn apply(&mut self, definition: &Definition, event: &Event) -> Result<(), OutOfOrder> {
        if event.sequence != self.next_sequence {
            return Err(OutOfOrder { expected: self.next_sequence, found: event.sequence });
        }
        self.next_sequence += 1;
        self.last_event_at = Some(event.timestamp);
        self.bytes = self.bytes.saturating_add(size::of_event(event));
        self.schedule.last_steps = 0;
        let node = event.node_id.as_ref().and_then(|id| self.place(id));
        if let Some(node) = node {
            self.nodes[node].last_sequence = Some(event.sequence);
        }
        match &event.kind {
            EventKind::RunStarted => {
                self.status = RunStatus::Running;
                self.started_at = Some(event.timestamp);
                self.begin(definition);
            }
            EventKind::RunPaused => {
                let immediate = text(event, "drainPolicy") == Some("immediate");
                let policy = if immediate { DrainPolicy::Immediate } else { DrainPolicy::DrainCurrentNode };
                self.paused = Some((event.timestamp, policy));
                self.draining = None;
                self.rounds.add(&event.payload);
            }
            EventKind::PauseRequested => {
                let reason = text(event, "reason").map(str::to_owned);
                self.draining = Some(Draining { since: event.timestamp, reason });
                self.rounds.add(&event.payload);
            }
            EventKind::RunResumed => {
                if let Some((since, _)) = self.paused.take() {
                    self.paused_ms = self.paused_ms.saturating_add(event.timestamp.since(since));
                }
                // A restart changes nothing about what somebody wants.
                if text(event, "cause").is_none() {
                    self.draining = None;
                }
            }
            EventKind::RunCompleted => self.end(RunStatus::Completed, event),
            EventKind::RunCancelled => self.end(RunStatus::Cancelled, event),
            EventKind::RunFailed => {
                self.error = event.payload.get("error").map(RunError::from_json);
                self.end(RunStatus::Failed, event);
            }
            _ => {
                if let Some(node) = node {
                    self.apply_to_node(definition, node, event);
                }
                self.apply_fact(definition, node, event);
            }
        }
        if let Some(node) = node
            && (event.kind == EventKind::NodeDispatched
                || self.schedule.held.contains(&definition.graph.rank[node]))
        {
            self.hold(definition, node);
        }
        self.settle(definition);
        self.count_waiting(event.timestamp);
        Ok(())
    }

    fn end(&mut self, status: RunStatus, event: &Event) {
        self.status = status;
        self.completed_at = Some(event.timestamp);
        self.paused = None;
        self.draining = None;
        self.schedule.ready.clear();
    }

    /// Works out what a reader sees.
    fn settle(&mut self, definition: &Definition) {
        if self.status.is_terminal() || self.started_at.is_none() {
            return;
        }
        self.status = if self.paused.is_some() {
            RunStatus::Paused
        } else if self.schedule.running > self.schedule.held.len() || !self.schedule.ready.is_empty() {
            RunStatus::Running
        } else {
            // Nothing works, so the first of what is under way waits for somebody, or a child of it does.
            let first = self.schedule.active.first().map(|rank| definition.graph.order[*rank]);
            first.and_then(|node| self.waits_for(definition, node)).unwrap_or(RunStatus::Running)
        };
    }

    /// What a node waits for that does not work: what it asked, or what the first of its children waits for.
    fn waits_for(&self, definition: &Definition, node: NodeIndex) -> Option<RunStatus> {
        if let Some(interrupt) = self.interrupts.get(&definition.nodes[node].id) {
            return Some(waiting(&interrupt.kind));
        }
        let children = self.nodes[node].children.iter().map(|place| &self.children[*place]);
        children
            .filter(|child| child.ended.is_none())
            .map(|child| child.status)
            .find(|status| status.is_waiting())
    }

    /// Counts the time in which the run only waits for people. An agent that is guided works meanwhile.
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

/// The state of a run that waits for a kind of interrupt.
fn waiting(kind: &str) -> RunStatus {
    match kind {
        "approval" | "low-confidence" | "conversation.exchange" => RunStatus::WaitingApproval,
        "external-event" => RunStatus::WaitingExternal,
        _ => RunStatus::WaitingInput,
    }
}

fn text<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    event.payload.get(name).and_then(Value::as_str)
}

fn number(event: &Event, name: &str) -> Option<u64> {
    event.payload.get(name).and_then(Value::as_u64)
}

fn small(event: &Event, name: &str) -> Option<u32> {
    number(event, name).and_then(|number| u32::try_from(number).ok())
}
