//! Pausing, resuming, cancelling and failing.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::turn::Turn;
use super::{DrainPolicy, Effect, Refusal, TimerKey, bounds};
use crate::definition::NodeIndex;
use crate::event::data::node::NodeCancelled;
use crate::event::data::run::{PauseRequested, RunCancelled, RunFailed, RunPaused, RunResumed};
use crate::event::data::value::LogAppended;
use crate::id::{InterruptId, Principal, RunId};
use crate::state::RunError;

/// The reason of a run that is cancelled with its parent.
const PARENT_CANCELLED: &str = "parent-cancelled";

impl Turn<'_> {
    pub(super) fn pause(&mut self, reason: Option<String>, policy: DrainPolicy) -> Result<(), Refusal> {
        if self.state.status.is_terminal() {
            return Err(Refusal::Conflict { status: self.state.status });
        }
        if let Some((since, _)) = self.state.paused {
            return Err(Refusal::Paused { since, draining: false });
        }
        // A caller may replace a pending pause with an immediate one.
        if let Some(draining) = self.state.draining.as_ref().filter(|_| policy != DrainPolicy::Immediate) {
            return Err(Refusal::Paused { since: draining.since, draining: true });
        }
        self.state.rounds.check(&Value::Null)?;
        self.begin();
        if policy == DrainPolicy::DrainCurrentNode && self.drains_first() {
            let requested = PauseRequested { drain_policy: policy, reason, requested_at: self.now };
            self.emit(requested, None, None);
        } else {
            self.halt(reason, policy);
        }
        Ok(())
    }

    /// Whether nodes must end before the run is paused. Earlier versions did not wait for them; a replay repeats that.
    fn drains_first(&self) -> bool {
        let recorded = self.recorded.as_ref();
        self.state.is_executing(self.definition)
            && !recorded.is_some_and(|recorded| recorded.pauses(self.state.next_sequence))
    }

    fn halt(&mut self, reason: Option<String>, policy: DrainPolicy) {
        self.emit(RunPaused { drain_policy: policy, paused_at: self.now, reason }, None, None);
    }

    /// Performs a requested pause when no node is being executed any more. Returns whether no node may start.
    pub(super) fn halt_if_drained(&mut self) -> bool {
        let Some(draining) = self.state.draining.clone().filter(|_| !self.is_halted()) else {
            return self.is_halted();
        };
        if !self.state.is_executing(self.definition) {
            self.halt(draining.reason, DrainPolicy::DrainCurrentNode);
        }
        true
    }

    pub(super) fn resume(&mut self, reason: Option<String>) -> Result<(), Refusal> {
        let was_draining = self.state.draining.is_some();
        if self.state.paused.is_none() && !was_draining {
            return Err(Refusal::Conflict { status: self.state.status });
        }
        let reason = reason.map(Cow::Owned);
        self.emit(RunResumed { cause: None, reason, resumed_at: Some(self.now) }, None, None);
        if was_draining {
            // Active nodes were never stopped and must not be started again. Only retries were held back.
            self.restart_retries();
            self.drain();
        } else {
            self.continue_run();
        }
        Ok(())
    }

    /// Sets variables from outside the run. Only nodes write to channels.
    pub(super) fn assign(&mut self, variables: &Map<String, Value>) -> Result<(), Refusal> {
        if self.state.status.is_terminal() {
            return Err(Refusal::Conflict { status: self.state.status });
        }
        if let Some(name) = variables.keys().find(|name| self.definition.channels.contains_key(*name)) {
            let message = format!("`{name}` is a channel, not a variable");
            return Err(Refusal::BadAnswer { message, details: json!({"field": name}), semantic: false });
        }
        for (name, next) in variables {
            bounds::check_answer(name, next)?;
        }
        for (name, next) in variables {
            self.set_variable(None, name, next, None);
        }
        Ok(())
    }

    pub(super) fn cancel(
        &mut self,
        reason: Option<String>,
        by: &Principal,
        parent_run_id: Option<RunId>,
    ) -> Result<(), Refusal> {
        if self.state.status.is_terminal() {
            return Err(Refusal::Conflict { status: self.state.status });
        }
        self.closing = true;
        self.begin();
        self.end_active("run-cancelled");
        let reason = if parent_run_id.is_some() { Some(PARENT_CANCELLED.to_owned()) } else { reason };
        let cancelled =
            RunCancelled { cancelled_by: by.clone(), duration_ms: self.elapsed(), parent_run_id, reason };
        self.emit(cancelled, None, None);
        self.ask_host(Effect::ClearTimer { timer: TimerKey::Run });
        Ok(())
    }

    pub(super) fn fail_run(&mut self, error: &RunError, node: Option<NodeIndex>, cause: Option<u64>) {
        self.closing = true;
        self.end_active("run-failed");
        let failed = RunFailed {
            duration_ms: self.elapsed(),
            error: error.clone(),
            failed_node_id: node.map(|node| self.node_id(node)),
        };
        self.emit(failed, None, cause);
        self.ask_host(Effect::ClearTimer { timer: TimerKey::Run });
    }

    /// Ends all active nodes, with their timers, interrupts and children.
    fn end_active(&mut self, reason: &'static str) {
        for node in self.state.active_nodes(self.definition) {
            self.stop_waiting(node);
            let cancelled = NodeCancelled { node_id: self.node_id(node), reason: reason.into() };
            self.emit(cancelled, Some(node), None);
        }
    }

    /// Releases everything that a node waits for.
    pub(super) fn stop_waiting(&mut self, node: NodeIndex) {
        let state = &self.state.nodes[node];
        if state.due.is_some() || state.retry_at.is_some() {
            let timer = self.node_timer(node);
            self.ask_host(Effect::ClearTimer { timer });
        }
        if let Some(interrupt) = self.state.interrupts.get(&self.node(node).id) {
            let (interrupt_id, timed) = (interrupt.id.clone(), interrupt.deadline.is_some());
            self.close_interrupt(interrupt_id, timed);
        }
        self.cancel_children(node);
        self.end_guide(node);
    }

    pub(super) fn close_interrupt(&mut self, interrupt_id: InterruptId, timed: bool) {
        if timed {
            let timer = TimerKey::Interrupt { interrupt_id: interrupt_id.clone() };
            self.ask_host(Effect::ClearTimer { timer });
        }
        self.ask_host(Effect::InterruptClosed { interrupt_id });
    }

    /// Cancels the running children of a node that end with their parent.
    pub(super) fn cancel_children(&mut self, node: NodeIndex) {
        let open = self.own_children(node).into_iter().map(|index| &self.state.children[index]);
        let open = open.filter(|child| child.ended.is_none() && child.cancelled_with_parent);
        let open: Vec<RunId> = open.map(|child| child.run_id.clone()).collect();
        for run_id in open {
            self.ask_host(Effect::CancelChild { run_id });
        }
    }

    /// Adds a log line to the run.
    pub(super) fn log(&mut self, node: NodeIndex, message: &str, fields: Value) {
        let line = LogAppended {
            content_trust: None,
            fields: Some(fields),
            level: "info".into(),
            message: message.to_owned(),
            node_id: Some(self.node_id(node)),
        };
        self.emit(line, Some(node), None);
    }
}
