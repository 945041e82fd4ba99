//! What can begin, and what is under way.
//!
//! Each node counts the edges to it whose source has not ended. A node is looked at when that count reaches nothing, or
//! earlier where its rule may be met by one source alone; so the work of a run grows with its edges, and never
//! with the square of its nodes.

use serde::{Deserialize, Serialize};

use super::{NodeState, NodeStatus, Ranks, RunState};
use crate::definition::expression::Scope;
use crate::definition::{Definition, Edge, NodeIndex, NodeType, TriggerRule};
use crate::meter::{MAX_STEPS, Meter};

/// What can begin, and what is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    /// For each node, the edges to it whose source has not ended.
    unfinished: Vec<usize>,
    /// The ranks of the nodes to look at.
    pub(crate) ready: Ranks,
    /// The ranks of the nodes that are running or suspended.
    pub(crate) active: Ranks,
    /// How many of them are running.
    pub(crate) running: usize,
    /// The ranks of those among them that only wait for children, all of which wait for somebody.
    pub(crate) held: Ranks,
    /// How many agents are guided.
    pub(crate) guiding: usize,
    /// The ranks of the nodes that failed.
    pub(crate) failed: Ranks,
    /// The nodes that a loop entered again, whatever their rule says.
    entered: Ranks,
    /// The loop that went round too often, as the rank of the node that it leads to.
    pub(crate) exhausted: Option<usize>,
    /// How many steps the conditions took that were looked at for the last event.
    pub(crate) last_steps: u64,
    /// The same for all events so far: as many are taken whenever the log is read.
    pub(crate) all_steps: u64,
}

/// What is to be done with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It begins.
    Start,
    /// It is not needed, with the reason.
    Skip(&'static str),
    /// Something before it has not ended.
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

    /// Whether it can be a schedule of this definition: every place that it names exists.
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
    /// Makes the nodes ready that nothing leads to.
    pub(super) fn begin(&mut self, definition: &Definition) {
        let graph = &definition.graph;
        for node in 0..definition.nodes.len() {
            if graph.incoming[node].is_empty() {
                self.schedule.ready.insert(graph.rank[node]);
            }
        }
    }

    /// Moves a node to another state, and keeps count.
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
            let begins = schedule.active.contains(&rank);
            schedule.guiding = if begins { schedule.guiding + 1 } else { schedule.guiding.saturating_sub(1) };
        }
        if status == NodeStatus::Failed {
            schedule.failed.insert(rank);
        }
    }

    /// Works out whether a node that is running only waits for children, all of which wait for somebody.
    pub(super) fn hold(&mut self, definition: &Definition, node: NodeIndex) {
        let state = &self.nodes[node];
        let children = state.children.iter().map(|place| &self.children[*place]);
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

    /// Tells those that follow that a node ended: it goes round where it loops back, and on where it does not.
    ///
    /// Conditions have a budget here that does not depend on the host, because a log has to fold to the same state everywhere. An edge
    /// whose condition exceeds it does not count. A decision that comes to that fails the run.
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
                // A node that was entered early by another source may come back to one that is still under way.
                if !self.goes_round(definition, edge, meter) || !self.nodes[edge.target].status.is_terminal()
                {
                    continue;
                }
                if self.nodes[edge.target].iteration >= definition.settings.max_loopback_iterations {
                    self.schedule.exhausted = Some(graph.rank[edge.target]);
                    continue;
                }
                self.enter_again(definition, edge.target);
                return;
            }
        }
        let status = self.nodes[node].status;
        for edge in graph.outgoing[node].iter().filter(|edge| !graph.loops_back[**edge]) {
            let target = definition.edges[*edge].target;
            self.schedule.unfinished[target] = self.schedule.unfinished[target].saturating_sub(1);
            let last = self.schedule.unfinished[target] == 0;
            let may_do = match rule(definition, target) {
                TriggerRule::AnySuccess => status == NodeStatus::Completed,
                TriggerRule::AnyFailed => status == NodeStatus::Failed,
                TriggerRule::AllSuccess | TriggerRule::AllComplete | TriggerRule::NoneFailed => false,
            };
            // What is ready and only waits would make a run that waits for a person look as if it worked.
            let enough = may_do && self.counts(definition, &definition.edges[*edge], meter);
            if (last || enough) && self.nodes[target].status == NodeStatus::Pending {
                self.schedule.ready.insert(graph.rank[target]);
            }
        }
    }

    fn goes_round(&self, definition: &Definition, edge: &Edge, meter: &mut Meter) -> bool {
        // The end of the supervisor's work is the end of the loop, whatever the edges say.
        let ended = definition.nodes[edge.source].kind == NodeType::Dispatch
            && self.nodes[edge.source].outputs.get("kind").and_then(|kind| kind.as_str())
                == Some("terminate");
        !ended && self.counts(definition, edge, meter)
    }

    /// Begins a loop again: its first node is entered, and everything after it waits anew.
    fn enter_again(&mut self, definition: &Definition, first: NodeIndex) {
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
            // A branch beside the loop may be under way still: it ends as it began.
            if state.status.is_terminal() || state.status == NodeStatus::Pending {
                // What it gave stays until it begins again: the first node may want to see it.
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

    /// Whether an edge counts: its condition holds, and it leaves a decision on the side that was taken. One that takes more steps than
    /// there are does not; the meter says so.
    fn counts(&self, definition: &Definition, edge: &Edge, meter: &mut Meter) -> bool {
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

    /// What is to be done with a node that is to be looked at.
    pub(crate) fn verdict(&self, definition: &Definition, node: NodeIndex, meter: &mut Meter) -> Verdict {
        let disabled = definition.nodes[node].disabled;
        let start = if disabled { Verdict::Skip("disabled") } else { Verdict::Start };
        let incoming = &definition.graph.incoming[node];
        if incoming.is_empty() || self.schedule.entered.contains(&definition.graph.rank[node]) {
            return start;
        }
        let (mut open, mut counted, mut completed, mut failed) = (0, 0, 0, 0);
        for edge in incoming {
            let edge = &definition.edges[*edge];
            let status = self.nodes[edge.source].status;
            if !status.is_terminal() {
                open += 1;
            } else if self.counts(definition, edge, meter) {
                counted += 1;
                completed += usize::from(status == NodeStatus::Completed);
                failed += usize::from(status == NodeStatus::Failed);
            }
        }
        let met = match rule(definition, node) {
            TriggerRule::AllSuccess => open == 0 && completed == counted,
            TriggerRule::AnySuccess => completed > 0,
            TriggerRule::AllComplete => open == 0,
            TriggerRule::NoneFailed => open == 0 && failed == 0,
            TriggerRule::AnyFailed => failed > 0,
        };
        match (met && counted > 0, open) {
            (true, _) => start,
            (false, 0) if counted == 0 => Verdict::Skip("condition-not-met"),
            (false, 0) => Verdict::Skip("trigger-rule-not-met"),
            (false, _) => Verdict::Wait,
        }
    }

    /// Whether somebody who follows runs in spite of the failure of a node, or may yet.
    pub(crate) fn takes_failure(&self, definition: &Definition, node: NodeIndex, meter: &mut Meter) -> bool {
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
                && self.counts(definition, edge, meter)
        })
    }
}

/// The rule of a node: that of the first edge to it.
fn rule(definition: &Definition, node: NodeIndex) -> TriggerRule {
    let first = definition.graph.incoming[node].first();
    first.map_or(TriggerRule::AllSuccess, |edge| definition.edges[*edge].trigger_rule)
}
