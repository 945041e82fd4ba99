//! Continues active nodes: after a restart, after a pause, and at the start of a fork.

use super::turn::Turn;
use super::{Effect, Refusal, Reported, TimerKey, bounds, nodes};
use crate::definition::{NodeConfig, NodeIndex};
use crate::event::data::run::RunResumed;
use crate::id::NodeId;
use crate::run::RunStatus;
use crate::state::{AnswerState, NodeStatus, RunError};

impl Turn<'_> {
    /// The host loaded the run after a restart.
    pub(super) fn recover(&mut self) {
        if self.has_only_begun() {
            self.create();
            return;
        }
        if self.is_halted() {
            return;
        }
        // A run that waits only for people was not interrupted by the restart, so none is recorded.
        if self.state.status == RunStatus::Running {
            let (cause, reason) = (Some("restart".into()), Some("restart".into()));
            self.emit(RunResumed { cause, reason, resumed_at: None }, None, None);
        }
        self.continue_run();
    }

    /// The run was forked. A pause of its source does not apply to it.
    pub(super) fn fork(&mut self) {
        if self.state.paused.is_some() || self.state.draining.is_some() {
            let reason = Some("fork".into());
            self.emit(RunResumed { cause: None, reason, resumed_at: None }, None, None);
        }
        self.continue_run();
    }

    /// Starts active nodes again, and continues the run.
    pub(super) fn continue_run(&mut self) {
        if self.state.started_at.is_none() {
            self.create();
            return;
        }
        if self.is_halted() {
            return;
        }
        self.set_deadline();
        if self.end_with_failure() || self.refuse_task() {
            return;
        }
        for node in self.state.active_nodes(self.definition) {
            if !self.is_halted() {
                self.restart_node(node);
            }
        }
        self.drain();
    }

    /// Continues the nodes that are between two attempts.
    pub(super) fn restart_retries(&mut self) {
        for node in self.state.active_nodes(self.definition) {
            if self.state.nodes[node].retry_at.is_some() && !self.is_halted() {
                self.restart_node(node);
            }
        }
    }

    fn restart_node(&mut self, node: NodeIndex) {
        let state = &self.state.nodes[node];
        if matches!(state.answer, AnswerState::Given(_)) {
            self.resume_node(node);
            return;
        }
        if let Some(retry_at) = state.retry_at {
            // No attempt starts in a run that is about to be paused. It starts when the run is resumed.
            if self.state.draining.is_some() {
                return;
            }
            if retry_at <= self.now {
                self.attempt(node, state.attempt, state.last_sequence);
            } else {
                self.set_node_timer(node);
            }
            return;
        }
        if state.status == NodeStatus::Suspended
            && let Some(interrupt) = self.state.interrupts.get(&self.node(node).id)
        {
            if let Some(at) = interrupt.deadline {
                let timer = TimerKey::Interrupt { interrupt_id: interrupt.id.clone() };
                self.ask_host(Effect::SetTimer { timer, at });
            }
            if let NodeConfig::Guided(config) = &self.node(node).config {
                self.guide_again(node, config);
            }
            return;
        }
        let subject = &self.node(node).config;
        if matches!(subject, NodeConfig::Delay(_)) && state.due.is_some_and(|due| due > self.now) {
            self.set_node_timer(node);
        } else if subject.child_starter().is_some() && !self.own_children(node).is_empty() {
            self.request_children_again(node);
        } else {
            // The log ends during the execution of the node, or the node waits for an effect, which is requested again.
            let inputs = self.inputs(node);
            self.execute(node, inputs);
        }
    }

    /// A timer is due. An early timer is set again; an outdated one is ignored.
    pub(super) fn timer_due(&mut self, timer: &TimerKey) {
        match timer {
            TimerKey::Run => self.run_deadline(),
            TimerKey::Node { node_id, iteration, attempt } => {
                let Some(node) = self.state.node_index(node_id) else { return };
                let state = &self.state.nodes[node];
                let current = state.status == NodeStatus::Running
                    && state.iteration == *iteration
                    && state.attempt == *attempt;
                if current {
                    self.node_due(node);
                }
            }
            TimerKey::Interrupt { interrupt_id } => {
                let open = self.state.interrupts.values().find(|interrupt| interrupt.id == *interrupt_id);
                if let Some(node) = open.and_then(|interrupt| self.state.node_index(&interrupt.node_id)) {
                    self.interrupt_due(node);
                }
            }
        }
    }

    fn node_due(&mut self, node: NodeIndex) {
        let state = &self.state.nodes[node];
        let Some(at) = state.retry_at.or(state.due) else { return };
        let retries = state.retry_at.is_some();
        let held_back = self.is_halted() || self.state.draining.is_some();
        if (retries && held_back) || !self.may_end(node) {
            return;
        }
        if at > self.now {
            self.set_node_timer(node);
            return;
        }
        if retries {
            self.attempt(node, state.attempt, state.last_sequence);
        } else {
            self.settle(node, nodes::delay_over(self, node), None);
        }
        self.drain();
    }

    /// An effect was executed, or failed.
    pub(super) fn activity_done(
        &mut self,
        node_id: &NodeId,
        ordinal: u32,
        reports: Vec<Reported>,
        outcome: Result<serde_json::Value, RunError>,
    ) {
        let Some(node) = self.awaiting(node_id, ordinal) else { return };
        if self.may_end(node) {
            let outcome = outcome.and_then(|value| {
                let members = serde_json::Map::from_iter([("output".to_owned(), value)]);
                bounds::check("the result of the effect", &members)?;
                Ok(members.into_iter().next().map(|(_, value)| value).unwrap_or_default())
            });
            let (reports, outcome) = match bounds::check_reports(&reports) {
                Ok(()) => (reports, outcome),
                // The valid reports are still recorded, because they describe what already happened.
                Err(error) => (bounds::valid_prefix(reports), Err(error)),
            };
            let step = nodes::effect_done(self, node, reports, outcome);
            self.settle(node, step, None);
            self.drain();
        }
    }

    /// Records progress of an effect. The caller gets an error if it was not recorded, because the run is paused or has ended. It can then
    /// send the reports again with the end of the effect.
    pub(super) fn activity_reports(
        &mut self,
        node_id: &NodeId,
        ordinal: u32,
        reports: Vec<Reported>,
    ) -> Result<(), Refusal> {
        let refusal = Refusal::Conflict { status: self.state.status };
        let node = self.awaiting(node_id, ordinal).filter(|_| !self.is_halted());
        let node = node.filter(|_| bounds::check_reports(&reports).is_ok());
        if node.is_some_and(|node| nodes::record_progress(self, node, reports)) {
            Ok(())
        } else {
            Err(refusal)
        }
    }

    /// The node, if it waits for the effect with this number.
    fn awaiting(&self, node_id: &NodeId, ordinal: u32) -> Option<NodeIndex> {
        let node = self.state.node_index(node_id)?;
        let state = &self.state.nodes[node];
        // A fork can start between the two events that suspend a node. The node is then executed again and does not wait.
        let is_executing = match state.status {
            NodeStatus::Running => true,
            NodeStatus::Suspended => {
                state.answer == AnswerState::None && !self.state.interrupts.contains_key(node_id)
            }
            NodeStatus::Pending
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Skipped
            | NodeStatus::Cancelled => false,
        };
        let awaited = is_executing
            && state.retry_at.is_none()
            && state.ordinal() == ordinal
            && nodes::has_effect(&self.node(node).config);
        awaited.then_some(node)
    }
}
