//! Starts the ready nodes, and records the results of nodes.

use serde_json::{Map, Value};

use super::turn::Turn;
use super::{Effect, TimerKey, bounds, nodes, ports};
use crate::definition::{ExposedType, NodeConfig, NodeIndex, NodeType};
use crate::event::data::node::{NodeCompleted, NodeFailed, NodeRetried, NodeSkipped, NodeStarted};
use crate::event::data::run::{LoopbackLimit, Owner, RunCompleted, RunStarted, TriggeredBy};
use crate::failure::FailureCode;
use crate::mask;
use crate::state::schedule::Readiness;
use crate::state::{NodeStatus, RunError};

/// The delay before the second attempt. It doubles with every further attempt.
const FIRST_RETRY_MS: u64 = 250;
/// The maximum delay between two attempts.
const LONGEST_RETRY_MS: u64 = 60_000;

/// The result of a step of a node.
pub(super) enum Step {
    /// The node ended with these outputs.
    Done(Map<String, Value>),
    Failed(Failure),
    /// The node waits for a timer, an effect, a child run or a person.
    Waits,
}

/// Why a node failed, and whether a retry may help.
pub(super) struct Failure {
    pub(super) error: RunError,
    pub(super) retryable: bool,
}

impl Step {
    pub(super) fn done(outputs: Value) -> Self {
        Self::Done(super::turn::object(outputs))
    }

    /// A failure that a retry would repeat.
    pub(super) fn failed(error: RunError) -> Self {
        Self::Failed(Failure { error, retryable: false })
    }

    /// A failure that a retry may not repeat.
    pub(super) fn failed_retryable(error: RunError) -> Self {
        Self::Failed(Failure { error, retryable: true })
    }
}

impl Turn<'_> {
    /// The run was created. A run whose log contains only `run.started` continues.
    pub(super) fn create(&mut self) {
        if self.has_only_begun() {
            self.begin();
            self.set_deadline();
            if !self.refuse_task() {
                self.drain();
            }
        }
    }

    /// Whether the log contains at most `run.started`.
    pub(super) fn has_only_begun(&self) -> bool {
        self.state.started_at.is_none() || self.state.next_sequence == 1
    }

    /// Records the start of the run, if it is not recorded yet.
    pub(super) fn begin(&mut self) {
        if self.state.started_at.is_some() {
            return;
        }
        let genesis = self.state.genesis.clone();
        // Only ids and names. The inputs and the outputs of the trigger's node contain the message.
        let trigger = genesis.trigger.as_ref().map(|trigger| TriggeredBy {
            event_type: trigger.event_type.clone(),
            id: trigger.trigger_id.clone(),
            message_id: trigger.message_id.clone(),
            source: trigger.source.clone(),
        });
        let started = RunStarted {
            inputs: mask::declared_inputs(self.definition, &genesis.inputs),
            owner: Owner { principal: genesis.principal.clone(), tenant: genesis.tenant.clone() },
            tags: genesis.tags.clone(),
            trigger,
            workflow_id: genesis.workflow_id.clone(),
        };
        self.emit(started, None, None);
    }

    /// Starts and skips nodes until none is ready, and ends the run if none is active.
    pub(super) fn drain(&mut self) {
        if self.halt_if_drained() {
            return;
        }
        while !self.is_halted() {
            let mut next = None;
            for rank in &self.state.schedule.ready {
                let node = self.definition.graph.order[*rank];
                let readiness = self.state.readiness(self.definition, node, &mut self.meter);
                if readiness != Readiness::Wait || self.meter.over().is_some() {
                    next = Some((node, readiness));
                    break;
                }
            }
            if let Some((node, _)) = next
                && self.meter.over().is_some()
            {
                self.note_steps(node);
                return;
            }
            match next {
                Some((node, Readiness::Skip(reason))) => {
                    let skipped = NodeSkipped { node_id: self.node_id(node), reason: reason.into() };
                    self.emit(skipped, Some(node), None);
                }
                Some((node, _)) => self.start(node),
                None => {
                    if self.state.schedule.active.is_empty() {
                        self.end();
                    }
                    return;
                }
            }
        }
    }

    fn end(&mut self) {
        if self.end_with_failure() {
            return;
        }
        let outputs = self.run_outputs();
        if self.exceeded.is_some() {
            return;
        }
        let outputs = Some(outputs).filter(|outputs| !outputs.is_empty());
        self.emit(RunCompleted { duration_ms: self.elapsed(), outputs }, None, None);
        self.ask_host(Effect::ClearTimer { timer: TimerKey::Run });
    }

    /// Fails the run if a node failed and no successor handles the failure.
    pub(super) fn end_with_failure(&mut self) -> bool {
        let failed = self.state.schedule.failed.iter().map(|rank| self.definition.graph.order[*rank]);
        let mut unhandled = None;
        for node in failed {
            if !self.state.is_failure_handled(self.definition, node, &mut self.meter) {
                unhandled = Some(node);
                break;
            }
        }
        let Some(node) = unhandled else { return false };
        if self.meter.over().is_some() {
            self.note_steps(node);
            return true;
        }
        let state = &self.state.nodes[node];
        let error =
            state.error.clone().unwrap_or_else(|| RunError::of(FailureCode::NodeFailed, "a node failed"));
        let cause = state.last_sequence;
        self.fail_run(&error, Some(node), cause);
        true
    }

    /// The outputs of the run: those of its end nodes, or else those of its last nodes, by node id.
    fn run_outputs(&mut self) -> Map<String, Value> {
        let completed = |node: &NodeIndex| self.state.nodes[*node].status == NodeStatus::Completed;
        let ends = (0..self.definition.nodes.len()).filter(|node| self.node(*node).kind == NodeType::End);
        let ends: Vec<NodeIndex> = ends.filter(completed).collect();
        if !ends.is_empty() {
            self.check_outputs(&ends);
            if self.exceeded.is_some() {
                return Map::new();
            }
            return ends.into_iter().flat_map(|node| self.state.nodes[node].outputs.clone()).collect();
        }
        let graph = &self.definition.graph;
        let last = (0..self.definition.nodes.len())
            .filter(|node| graph.outgoing[*node].iter().all(|edge| graph.loops_back[*edge]));
        // The outputs of nodes that only expose the workflow are not outputs of the run.
        let only_exposes = |node: &NodeIndex| {
            let NodeType::Exposed(kind) = self.node(*node).kind else { return false };
            match kind {
                ExposedType::ServerTrigger
                | ExposedType::Tool
                | ExposedType::Resource
                | ExposedType::ResourceTemplate
                | ExposedType::Prompt
                | ExposedType::Roots => true,
                ExposedType::Elicitation | ExposedType::Sampling => false,
            }
        };
        let last = last.filter(|node| !only_exposes(node));
        let last = last.filter(completed).filter(|node| !self.state.nodes[*node].outputs.is_empty());
        let last: Vec<NodeIndex> = last.collect();
        self.check_outputs(&last);
        if self.exceeded.is_some() {
            return Map::new();
        }
        let last = last.into_iter();
        last.map(|node| {
            (self.node(node).id.to_string(), Value::Object(self.state.nodes[node].outputs.clone()))
        })
        .collect()
    }

    fn start(&mut self, node: NodeIndex) {
        match nodes::refused(self, node) {
            Some(error) => self.fail(node, &Failure { error, retryable: false }, None),
            None => self.attempt(node, 0, None),
        }
    }

    /// Starts an attempt of a node.
    pub(super) fn attempt(&mut self, node: NodeIndex, attempt: u32, cause: Option<u64>) {
        let limit = self.max_node_executions();
        if self.state.node_executions >= limit {
            let cause = self.breach("node-executions", limit, limit.saturating_add(1), Some(node));
            let error = RunError::of(
                FailureCode::RecursionLimitExceeded,
                format!("the run started {limit} nodes, which is the limit"),
            );
            self.fail_run(&error, Some(node), Some(cause));
            return;
        }
        let inputs = self.inputs(node);
        let delay_ms = match (&self.node(node).config, &inputs) {
            (NodeConfig::Delay(config), Ok(inputs)) => Some(nodes::delay_ms(config, inputs)),
            (_, Ok(_) | Err(_)) => None,
        };
        let started = NodeStarted {
            attempt,
            // The time is recorded, so that a restart waits only for the remaining time.
            due_at: delay_ms.map(|delay_ms| self.now.plus(delay_ms)),
            node_id: self.node_id(node),
            type_id: self.node(node).type_name(),
        };
        self.emit(started, Some(node), cause);
        self.execute(node, inputs);
    }

    pub(super) fn inputs(&mut self, node: NodeIndex) -> Result<Map<String, Value>, RunError> {
        let inputs = ports::inputs(self.definition, self.state, node, &mut self.meter);
        self.note_steps(node);
        if let Ok(inputs) = &inputs {
            self.charge_copy(inputs, node);
        }
        inputs
    }

    /// Executes a started node.
    pub(super) fn execute(&mut self, node: NodeIndex, inputs: Result<Map<String, Value>, RunError>) {
        let step = match inputs {
            Ok(inputs) => nodes::execute(self, node, inputs),
            Err(error) => Step::failed(error),
        };
        self.settle(node, step, None);
    }

    /// Records the result of a step.
    pub(super) fn settle(&mut self, node: NodeIndex, step: Step, cause: Option<u64>) {
        // A limit may have ended the run during the step.
        if self.state.status.is_terminal() {
            return;
        }
        match step {
            Step::Done(outputs) => {
                let refused = bounds::check("the outputs of the node", &outputs).err();
                match refused.or_else(|| self.refuse_return(node, &outputs)) {
                    None => self.complete(node, outputs, cause),
                    Some(error) => self.fail(node, &Failure { error, retryable: false }, cause),
                }
            }
            Step::Failed(failure) => self.fail(node, &failure, cause),
            Step::Waits => {}
        }
    }

    fn complete(&mut self, node: NodeIndex, mut outputs: Map<String, Value>, cause: Option<u64>) {
        self.store_outputs(node, &mut outputs, cause);
        // A limit may have ended the run.
        if self.state.status.is_terminal() {
            return;
        }
        let completed = NodeCompleted {
            duration_ms: self.node_duration(node),
            node_id: self.node_id(node),
            outputs: Some(outputs).filter(|outputs| !outputs.is_empty()),
        };
        let cause = cause.or_else(|| self.decision_behind(node));
        self.emit(completed, Some(node), cause);
        if let Some(rank) = self.state.schedule.exhausted {
            self.end_loop(node, self.definition.graph.order[rank]);
        }
    }

    /// A loop reached its iteration limit: it is not restarted.
    fn end_loop(&mut self, last: NodeIndex, first: NodeIndex) {
        let (iterations, limit) =
            (self.state.nodes[first].iteration, self.definition.settings.max_loopback_iterations);
        let reached = LoopbackLimit { iterations: iterations.max(1), limit, node_id: self.node_id(first) };
        let cause = self.emit(reached, Some(first), None);
        // The run of a supervisor that was not done must not look successful.
        if self.node(last).kind == NodeType::Dispatch {
            let error = RunError::of(
                FailureCode::LoopLimitExceeded,
                format!("the loop reached its limit of {limit} iterations"),
            );
            self.fail_run(&error, Some(last), Some(cause));
        }
    }

    fn fail(&mut self, node: NodeIndex, failure: &Failure, cause: Option<u64>) {
        let attempt = self.state.nodes[node].attempt;
        let most = self.node(node).max_retries.unwrap_or(self.definition.settings.max_retries);
        if failure.retryable && attempt < most {
            let delay = FIRST_RETRY_MS.saturating_mul(1 << attempt.min(16)).min(LONGEST_RETRY_MS);
            let retried = NodeRetried {
                attempt: attempt + 1,
                delay_ms: delay,
                last_error: failure.error.clone(),
                node_id: self.node_id(node),
            };
            let cause = cause.or(self.state.nodes[node].last_sequence);
            self.emit(retried, Some(node), cause);
            self.set_node_timer(node);
            return;
        }
        let failed = NodeFailed {
            attempts: Some(attempt.saturating_add(1)),
            error: failure.error.clone(),
            node_id: self.node_id(node),
        };
        let cause = cause.or_else(|| self.decision_behind(node));
        let sequence = self.emit(failed, Some(node), cause);
        if self.is_halted() || self.state.is_failure_handled(self.definition, node, &mut self.meter) {
            return;
        }
        if self.meter.over().is_some() {
            self.note_steps(node);
        } else {
            self.fail_run(&failure.error, Some(node), Some(sequence));
        }
    }

    /// The decision that a dispatch executes.
    fn decision_behind(&self, node: NodeIndex) -> Option<u64> {
        let decided = self.state.last_decision.as_ref().map(|(_, sequence)| *sequence);
        decided.filter(|_| self.node(node).kind == NodeType::Dispatch)
    }

    /// Requests a timer for the delay of a node, or for the delay before its next attempt.
    pub(super) fn set_node_timer(&mut self, node: NodeIndex) {
        let state = &self.state.nodes[node];
        if let Some(at) = state.retry_at.or(state.due) {
            let timer = self.node_timer(node);
            self.ask_host(Effect::SetTimer { timer, at });
        }
    }

    pub(super) fn node_timer(&self, node: NodeIndex) -> TimerKey {
        let state = &self.state.nodes[node];
        TimerKey::Node {
            node_id: self.node(node).id.clone(),
            iteration: state.iteration,
            attempt: state.attempt,
        }
    }

    /// The duration of the current attempt of a node, in milliseconds.
    fn node_duration(&self, node: NodeIndex) -> u64 {
        self.now.since(self.state.nodes[node].started_at.unwrap_or(self.now))
    }
}
