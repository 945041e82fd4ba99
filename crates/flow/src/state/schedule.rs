//! The nodes that can start, and the active ones.
//!
//! Each node counts its incoming edges whose source has not ended. A node is evaluated when this count reaches zero, or earlier if its trigger
//! rule can be met by a single source. The work of a run is therefore linear in the number of its edges.

use serde::{Deserialize, Serialize};

use super::{NodeState, NodeStatus, Ranks, RunState};
use crate::definition::expression::Scope;
use crate::definition::{Definition, Edge, NodeIndex, NodeType, TriggerRule};
use crate::meter::{MAX_STEPS, Meter};

/// The nodes that can start, and the active ones. Checkpoints contain the names of the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    /// For each node, the number of incoming edges whose source has not ended.
    unfinished: Vec<usize>,
    /// The ranks of the nodes that must be evaluated.
    pub(crate) ready: Ranks,
    /// The ranks of the nodes that are running or suspended.
    pub(crate) active: Ranks,
    /// The number of running nodes.
    pub(crate) running: usize,
    /// The ranks of the running nodes that only wait for child runs which all wait for people.
    pub(crate) held: Ranks,
    /// The number of active guided nodes.
    pub(crate) guiding: usize,
    /// The ranks of failed nodes.
    pub(crate) failed: Ranks,
    /// The ranks of nodes that a loop restarted. They start regardless of their trigger rule.
    entered: Ranks,
    /// The loop that exceeded its iteration limit, as the rank of its first node.
    pub(crate) exhausted: Option<usize>,
    /// The steps that evaluating conditions took for the last event.
    pub(crate) last_steps: u64,
    /// The total of these steps for all events so far. Reading the log repeats them.
    pub(crate) all_steps: u64,
}

/// What to do with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The node starts.
    Start,
    /// The node is skipped, for this reason.
    Skip(&'static str),
    /// A predecessor has not ended.
    Wait,
}

impl Schedule {
    pub(super) fn new(definition: &Definition) -> Self {
        Self {
            unfinished: definition.graph.incoming.iter().map(Vec::len).collect(),
            ready: Ranks::new(),
            active: Ranks::new(),
            running: 0,
            held: Ranks::new(),
            guiding: 0,
            failed: Ranks::new(),
            entered: Ranks::new(),
            exhausted: None,
            last_steps: 0,
            all_steps: 0,
        }
    }

    /// Whether the schedule belongs to this definition: all ranks exist.
    pub(super) fn fits(&self, definition: &Definition) -> bool {
        let count = definition.nodes.len();
        let ranks = [&self.ready, &self.active, &self.held, &self.failed, &self.entered];
        self.unfinished.len() == count
            && ranks
                .into_iter()
                .filter_map(|ranks| ranks.last())
                .chain(&self.exhausted)
                .all(|rank| *rank < count)
    }
}

impl RunState {
    /// Makes all nodes without incoming edges ready.
    pub(super) fn begin(&mut self, definition: &Definition) {
        let graph = &definition.graph;
        for node in 0..definition.nodes.len() {
            if graph.incoming[node].is_empty() {
                self.schedule.ready.insert(graph.rank[node]);
            }
        }
    }

    /// Changes the status of a node and updates the counters.
    pub(super) fn move_to(&mut self, definition: &Definition, node: NodeIndex, status: NodeStatus) {
        let rank = definition.graph.rank[node];
        let before = std::mem::replace(&mut self.nodes[node].status, status);
        let schedule = &mut self.schedule;
        schedule.ready.remove(&rank);
        schedule.entered.remove(&rank);
        schedule.running -= usize::from(before == NodeStatus::Running);
        schedule.running += usize::from(status == NodeStatus::Running);
        if status != NodeStatus::Running {
            schedule.held.remove(&rank);
        }
        let changed = match status {
            NodeStatus::Running | NodeStatus::Suspended => schedule.active.insert(rank),
            NodeStatus::Pending
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Skipped
            | NodeStatus::Cancelled => schedule.active.remove(&rank),
        };
        if changed && definition.nodes[node].kind == NodeType::Guided {
            let is_active = schedule.active.contains(&rank);
            schedule.guiding =
                if is_active { schedule.guiding + 1 } else { schedule.guiding.saturating_sub(1) };
        }
        if status == NodeStatus::Failed {
            schedule.failed.insert(rank);
        }
    }

    /// Updates whether a running node only waits for child runs which all wait for people.
    pub(super) fn update_held(&mut self, definition: &Definition, node: NodeIndex) {
        let state = &self.nodes[node];
        let children = state.children.iter().map(|index| &self.children[*index]);
        let mut open = children.filter(|child| child.ended.is_none()).peekable();
        let is_held = state.status == NodeStatus::Running
            && open.peek().is_some()
            && open.all(|child| child.status.is_waiting());
        let rank = definition.graph.rank[node];
        if is_held {
            self.schedule.held.insert(rank);
        } else {
            self.schedule.held.remove(&rank);
        }
    }

    /// Processes the end of a node: restarts a loop that leads back from it, or otherwise updates its successors.
    ///
    /// The step budget of conditions is fixed here and does not depend on the host, because a log must fold to the same state on every host. An
    /// edge whose condition exceeds the budget counts as not satisfied. A decision in which this happens fails the run.
    pub(super) fn release(&mut self, definition: &Definition, node: NodeIndex) {
        let mut meter = Meter::new(MAX_STEPS);
        self.release_within(definition, node, &mut meter);
        self.schedule.last_steps = self.schedule.last_steps.saturating_add(meter.spent());
        self.schedule.all_steps = self.schedule.all_steps.saturating_add(meter.spent());
    }

    fn release_within(&mut self, definition: &Definition, node: NodeIndex, meter: &mut Meter) {
        let graph = &definition.graph;
        if self.nodes[node].status == NodeStatus::Completed {
            for edge in graph.outgoing[node].iter().filter(|edge| graph.loops_back[**edge]) {
                let edge = &definition.edges[*edge];
                // The target can still be active, if another source started a node of the loop early.
                if !self.loop_continues(definition, edge, meter)
                    || !self.nodes[edge.target].status.is_terminal()
                {
                    continue;
                }
                if self.nodes[edge.target].iteration >= definition.settings.max_loopback_iterations {
                    self.schedule.exhausted = Some(graph.rank[edge.target]);
                    continue;
                }
                self.restart_loop(definition, edge.target);
                return;
            }
        }
        let status = self.nodes[node].status;
        for edge in graph.outgoing[node].iter().filter(|edge| !graph.loops_back[**edge]) {
            let target = definition.edges[*edge].target;
            self.schedule.unfinished[target] = self.schedule.unfinished[target].saturating_sub(1);
            let last = self.schedule.unfinished[target] == 0;
            let one_suffices = match rule(definition, target) {
                TriggerRule::AnySuccess => status == NodeStatus::Completed,
                TriggerRule::AnyFailed => status == NodeStatus::Failed,
                TriggerRule::AllSuccess | TriggerRule::AllComplete | TriggerRule::NoneFailed => false,
            };
            // A node that cannot start yet must not become ready: the status of a run that waits for a person would be `running`.
            let enough = one_suffices && self.is_satisfied(definition, &definition.edges[*edge], meter);
            if (last || enough) && self.nodes[target].status == NodeStatus::Pending {
                self.schedule.ready.insert(graph.rank[target]);
            }
        }
    }

    fn loop_continues(&self, definition: &Definition, edge: &Edge, meter: &mut Meter) -> bool {
        // A `terminate` decision of the supervisor ends the loop, whatever the conditions of the edges are.
        let ended = definition.nodes[edge.source].kind == NodeType::Dispatch
            && self.nodes[edge.source].outputs.get("kind").and_then(|kind| kind.as_str())
                == Some("terminate");
        !ended && self.is_satisfied(definition, edge, meter)
    }

    /// Starts the next iteration of a loop: its first node becomes ready, and all following nodes wait again.
    fn restart_loop(&mut self, definition: &Definition, first: NodeIndex) {
        let graph = &definition.graph;
        let mut seen = std::collections::BTreeSet::from([first]);
        let mut body = vec![first];
        let mut next = 0;
        while let Some(node) = body.get(next).copied() {
            next += 1;
            for edge in graph.outgoing[node].iter().filter(|edge| !graph.loops_back[**edge]) {
                let target = definition.edges[*edge].target;
                if seen.insert(target) {
                    body.push(target);
                }
            }
        }
        for node in &body {
            let state = &mut self.nodes[*node];
            // A parallel branch may still be active. It continues in its current iteration.
            if state.status.is_terminal() || state.status == NodeStatus::Pending {
                // The outputs stay until the node starts again, because the first node of the loop may read them.
                *state = NodeState {
                    iteration: state.iteration.saturating_add(1),
                    outputs: std::mem::take(&mut state.outputs),
                    interrupts: state.interrupts,
                    answer: std::mem::take(&mut state.answer),
                    deliveries: std::mem::take(&mut state.deliveries),
                    last_sequence: state.last_sequence,
                    ..NodeState::default()
                };
                self.schedule.failed.remove(&graph.rank[*node]);
                self.schedule.ready.remove(&graph.rank[*node]);
            }
        }
        for node in &body {
            let open = |edge: &&usize| !self.nodes[definition.edges[**edge].source].status.is_terminal();
            self.schedule.unfinished[*node] = graph.incoming[*node].iter().filter(open).count();
        }
        self.schedule.entered.insert(graph.rank[first]);
        self.schedule.ready.insert(graph.rank[first]);
    }

    /// Whether an edge is satisfied: its condition is true, and if it leaves a conditional node, it is on the chosen branch. An edge whose
    /// condition exceeds the step budget is not satisfied; the meter records that.
    fn is_satisfied(&self, definition: &Definition, edge: &Edge, meter: &mut Meter) -> bool {
        let source = &self.nodes[edge.source];
        if definition.nodes[edge.source].kind == NodeType::Conditional
            && matches!(edge.source_output.as_str(), "true" | "false")
        {
            let taken = source.outputs.get("branch").and_then(|branch| branch.as_str());
            if taken != Some(edge.source_output.as_str()) {
                return false;
            }
        }
        let scope = Scope {
            source: Some((source.status.as_str(), &source.outputs)),
            variables: &self.variables,
            inputs: &self.genesis.inputs,
        };
        edge.condition.as_ref().is_none_or(|condition| condition.holds(&scope, meter).unwrap_or(false))
    }

    /// Decides whether a node starts, is skipped, or waits.
    pub(crate) fn readiness(&self, definition: &Definition, node: NodeIndex, meter: &mut Meter) -> Readiness {
        let disabled = definition.nodes[node].disabled;
        let start = if disabled { Readiness::Skip("disabled") } else { Readiness::Start };
        let incoming = &definition.graph.incoming[node];
        if incoming.is_empty() || self.schedule.entered.contains(&definition.graph.rank[node]) {
            return start;
        }
        let (mut open, mut satisfied, mut completed, mut failed) = (0, 0, 0, 0);
        for edge in incoming {
            let edge = &definition.edges[*edge];
            let status = self.nodes[edge.source].status;
            if !status.is_terminal() {
                open += 1;
            } else if self.is_satisfied(definition, edge, meter) {
                satisfied += 1;
                completed += usize::from(status == NodeStatus::Completed);
                failed += usize::from(status == NodeStatus::Failed);
            }
        }
        let met = match rule(definition, node) {
            TriggerRule::AllSuccess => open == 0 && completed == satisfied,
            TriggerRule::AnySuccess => completed > 0,
            TriggerRule::AllComplete => open == 0,
            TriggerRule::NoneFailed => open == 0 && failed == 0,
            TriggerRule::AnyFailed => failed > 0,
        };
        match (met && satisfied > 0, open) {
            (true, _) => start,
            (false, 0) if satisfied == 0 => Readiness::Skip("condition-not-met"),
            (false, 0) => Readiness::Skip("trigger-rule-not-met"),
            (false, _) => Readiness::Wait,
        }
    }

    /// Whether a successor handles the failure of a node: it started in spite of it, or still may.
    pub(crate) fn is_failure_handled(
        &self,
        definition: &Definition,
        node: NodeIndex,
        meter: &mut Meter,
    ) -> bool {
        let graph = &definition.graph;
        graph.outgoing[node].iter().filter(|edge| !graph.loops_back[**edge]).any(|edge| {
            let edge = &definition.edges[*edge];
            let status = self.nodes[edge.target].status;
            let tolerant = match rule(definition, edge.target) {
                TriggerRule::AnySuccess | TriggerRule::AllComplete | TriggerRule::AnyFailed => true,
                TriggerRule::AllSuccess | TriggerRule::NoneFailed => false,
            };
            tolerant
                && !matches!(status, NodeStatus::Skipped | NodeStatus::Cancelled)
                && self.is_satisfied(definition, edge, meter)
        })
    }
}

/// The trigger rule of a node: the rule of its first incoming edge.
fn rule(definition: &Definition, node: NodeIndex) -> TriggerRule {
    let first = definition.graph.incoming[node].first();
    first.map_or(TriggerRule::AllSuccess, |edge| definition.edges[*edge].trigger_rule)
}
