//! The events that build the graph: runs, nodes, edges and attempts.

use super::Touch;
use crate::record::{
    AdvanceOutcome, AttemptId, EdgeCause, EdgeCauseKind, EdgeKind, Event, EventData, EventIndex, NodeId,
    NodeKind, Preferences, RunId,
};
use crate::state::{Context, Edge, FoldError, Node, Ordinal, RecordedAdvance, Run, SessionState};

impl SessionState {
    pub(super) fn start_run(&mut self, event: &Event, run_id: &RunId) -> Result<(), FoldError> {
        let EventData::RunStarted { workflow_id, workflow_hash, workflow_source_kind, workflow_source_ref } =
            &event.data
        else {
            return Ok(());
        };
        if self.run_by_id.contains_key(run_id) {
            return Err(FoldError::Duplicate { what: "run", id: run_id.to_string() });
        }
        self.run_by_id.insert(run_id.clone(), Ordinal::new(self.runs.len()));
        self.runs.push(Run {
            id: run_id.clone(),
            workflow_id: workflow_id.clone(),
            workflow_hash: *workflow_hash,
            workflow_source_kind: *workflow_source_kind,
            workflow_source_ref: workflow_source_ref.clone(),
            started_index: event.event_index,
            started_ms: event.timestamp_ms,
            last_activity_index: event.event_index,
            leaf_count: 0,
            open_gaps: 0,
            open_critical_gaps: 0,
            nodes: Vec::new(),
            gaps: Vec::new(),
            last_touched: None,
            contexts: Vec::new(),
            preferences: Preferences::default(),
            completions: std::collections::BTreeMap::new(),
        });
        Ok(())
    }

    pub(super) fn add_node(
        &mut self,
        event: &Event,
        run: Ordinal,
        node_id: &NodeId,
    ) -> Result<(), FoldError> {
        let EventData::NodeCreated { node_kind, parent_node_id, workflow_hash, snapshot_ref } = &event.data
        else {
            return Ok(());
        };
        let of_run = &self.runs[run.get()];
        if self.node_by_id.contains_key(node_id) {
            return Err(FoldError::Duplicate { what: "node", id: node_id.to_string() });
        }
        if *workflow_hash != of_run.workflow_hash {
            return Err(FoldError::WorkflowHash { node_id: node_id.clone() });
        }
        let parent = match parent_node_id {
            Some(parent) => Some(self.find_node(&of_run.id, parent)?),
            None if of_run.nodes.is_empty() && *node_kind == NodeKind::Step => None,
            None => return Err(FoldError::Root { node_id: node_id.clone() }),
        };
        if let Some(expected) = self.awaited.get(node_id).filter(|expected| Some(**expected) != parent) {
            let expected = self.node_at(*expected).id.clone();
            return Err(FoldError::AdvanceParent { node_id: node_id.clone(), expected });
        }

        let ordinal = Ordinal::new(self.nodes.len());
        let above = parent.map(|parent| self.node_at(parent));
        let is_step = *node_kind == NodeKind::Step;
        let node = Node {
            id: node_id.clone(),
            run_id: of_run.id.clone(),
            kind: *node_kind,
            parent: parent_node_id.clone(),
            snapshot_ref: *snapshot_ref,
            created_index: event.event_index,
            created_event_id: event.event_id.clone(),
            created_ms: event.timestamp_ms,
            depth: above.map_or(0, |above| above.depth + 1),
            step_ordinal: above.map_or(0, |above| above.step_ordinal) + u32::from(is_step),
            blocked_chain: match (node_kind, above) {
                (NodeKind::Step, _) | (_, None) => 0,
                (NodeKind::Checkpoint, Some(above)) => above.blocked_chain,
                (NodeKind::BlockedAttempt, Some(above)) => above.blocked_chain + 1,
            },
            preferences: above.map_or_else(Preferences::default, |above| above.preferences),
            context_index: of_run.contexts.last().map(|context| context.index),
            last_index: event.event_index,
            last_activity_index: event.event_index,
            edge: None,
            validations: Vec::new(),
            assessments: Vec::new(),
            consequences: Vec::new(),
            divergences: Vec::new(),
            traces: Vec::new(),
            ordinal,
            parent_ordinal: parent,
            jump: above.map_or(ordinal, |above| self.jump_below(above)),
            children: Vec::new(),
            advances: std::collections::BTreeMap::new(),
            checkpoints: std::collections::BTreeMap::new(),
            acked_children: 0,
            checkpoint_children: 0,
            capabilities: above.map(|above| above.capabilities.clone()).unwrap_or_default(),
            outputs: Vec::new(),
            gaps: Vec::new(),
        };
        let first_child = above.is_some_and(Node::is_leaf);
        self.nodes.push(node);
        self.node_by_id.insert(node_id.clone(), ordinal);
        self.awaited.remove(node_id);
        if let Some(parent) = parent {
            self.nodes[parent.get()].children.push(ordinal);
        }
        let of_run = &mut self.runs[run.get()];
        of_run.nodes.push(ordinal);
        // The first child replaces its parent among the leaves.
        of_run.leaf_count += u32::from(!first_child);
        self.touch(event.event_index, run, ordinal, Touch::Activity);
        Ok(())
    }

    pub(super) fn add_edge(
        &mut self,
        event: &Event,
        run: Ordinal,
        kind: EdgeKind,
        (from_id, to_id): (&NodeId, &NodeId),
        cause: &EdgeCause,
    ) -> Result<(), FoldError> {
        let run_id = &self.runs[run.get()].id;
        let from = self.find_node(run_id, from_id)?;
        let to = self.find_node(run_id, to_id)?;
        let target = self.node_at(to);
        let of_checkpoint = kind == EdgeKind::Checkpoint;
        let rules = [
            (target.parent_ordinal == Some(from), "the first node is not the parent of the second"),
            (target.edge.is_none(), "the edge already exists"),
            (
                (target.kind == NodeKind::Checkpoint) == of_checkpoint,
                "its kind does not match the kind of the node",
            ),
            (
                (cause.kind == EdgeCauseKind::CheckpointCreated) == of_checkpoint,
                "its kind does not match the cause",
            ),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(FoldError::Edge { from: from_id.clone(), to: to_id.clone(), rule });
        }
        let own = cause.event_id == event.event_id;
        if !own && self.index_of_event(&cause.event_id).is_none() {
            return Err(FoldError::UnknownCause { event_id: cause.event_id.clone() });
        }
        let attempt = match kind {
            EdgeKind::Checkpoint => attempt_of(event),
            EdgeKind::AckedStep => None,
        };
        let source = &mut self.nodes[from.get()];
        if let Some(attempt_id) = attempt {
            if source.checkpoints.contains_key(&attempt_id) {
                return Err(FoldError::Attempt { node_id: from_id.clone(), attempt_id });
            }
            source.checkpoints.insert(attempt_id, to);
        }
        match kind {
            EdgeKind::AckedStep => source.acked_children += 1,
            EdgeKind::Checkpoint => source.checkpoint_children += 1,
        }
        source.last_index = event.event_index;
        self.nodes[to.get()].edge = Some(Edge { kind, cause: cause.clone(), index: event.event_index });
        // An edge counts as activity at its target only, so the other branches of its source do not become
        // active.
        self.touch(event.event_index, run, to, Touch::Activity);
        Ok(())
    }

    pub(super) fn record_advance(
        &mut self,
        event: &Event,
        node: Ordinal,
        attempt_id: &AttemptId,
        outcome: &AdvanceOutcome,
    ) -> Result<(), FoldError> {
        let from = self.node_at(node);
        if from.advances.contains_key(attempt_id) {
            return Err(FoldError::Attempt { node_id: from.id.clone(), attempt_id: attempt_id.clone() });
        }
        if let AdvanceOutcome::Advanced { to_node_id } = outcome {
            // The node follows in the same append. A node that exists or is expected belongs to another
            // attempt.
            if self.node_by_id.contains_key(to_node_id) || self.awaited.contains_key(to_node_id) {
                return Err(FoldError::AdvanceTarget { node_id: to_node_id.clone() });
            }
            self.awaited.insert(to_node_id.clone(), node);
        }
        let advance = RecordedAdvance {
            index: event.event_index,
            event_id: event.event_id.clone(),
            outcome: outcome.clone(),
        };
        self.nodes[node.get()].advances.insert(attempt_id.clone(), advance);
        Ok(())
    }

    pub(super) fn set_context(&mut self, run: Ordinal, context: Context) {
        let of_run = &mut self.runs[run.get()];
        // The root is created before the first context is set, but the context applies to it too.
        if let (Some(root), true) = (of_run.nodes.first(), of_run.contexts.is_empty()) {
            self.nodes[root.get()].context_index = Some(context.index);
        }
        of_run.contexts.push(context);
    }

    pub(super) fn complete_run(
        &mut self,
        index: EventIndex,
        run: Ordinal,
        node_id: &NodeId,
    ) -> Result<(), FoldError> {
        let run_id = self.runs[run.get()].id.clone();
        // The completing node may follow in the same append, as the outcome of an attempt in this run.
        let known = self.node_by_id.get(node_id).or_else(|| self.awaited.get(node_id));
        if known.is_none_or(|ordinal| self.node_at(*ordinal).run_id != run_id) {
            return Err(FoldError::Completion { run_id, node_id: node_id.clone() });
        }
        let completions = &mut self.runs[run.get()].completions;
        if completions.contains_key(node_id) {
            return Err(FoldError::Duplicate { what: "completion", id: node_id.to_string() });
        }
        completions.insert(node_id.clone(), index);
        Ok(())
    }
}

/// The attempt that a checkpoint belongs to: the last part of its edge's dedupe key.
fn attempt_of(event: &Event) -> Option<AttemptId> {
    let (_, attempt) = event.dedupe_key.as_str().rsplit_once(':')?;
    AttemptId::parse(attempt).ok()
}
