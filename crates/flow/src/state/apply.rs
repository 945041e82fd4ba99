//! How each event changes the state.
//!
//! `nodes.rs` has the life of a node, `facts.rs` what nodes leave behind: variables, channels, children, decisions.

mod facts;
mod nodes;

use serde_json::Value;

use super::{OutOfOrder, RunError, RunState};
use crate::definition::Definition;
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
        let node = event.node_id.as_deref().and_then(|id| self.place(id));
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
                self.rounds.add(&event.payload);
            }
            EventKind::RunResumed => {
                if let Some((since, _)) = self.paused.take() {
                    self.paused_ms = self.paused_ms.saturating_add(event.timestamp.since(since));
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
        self.settle(definition);
        Ok(())
    }

    fn end(&mut self, status: RunStatus, event: &Event) {
        self.status = status;
        self.completed_at = Some(event.timestamp);
        self.paused = None;
        self.schedule.ready.clear();
    }

    /// Works out what a reader sees.
    fn settle(&mut self, definition: &Definition) {
        if self.status.is_terminal() || self.started_at.is_none() {
            return;
        }
        self.status = if self.paused.is_some() {
            RunStatus::Paused
        } else if self.schedule.running > 0 || !self.schedule.ready.is_empty() {
            RunStatus::Running
        } else {
            // Nothing runs, so the first of what is under way is suspended.
            let first = self.schedule.active.first().map(|rank| definition.graph.order[*rank]);
            let interrupt = first.and_then(|node| self.interrupts.get(&definition.nodes[node].id));
            interrupt.map_or(RunStatus::Running, |interrupt| waiting(&interrupt.kind))
        };
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
