//! A log for tests, built one action at a time and always valid.

use canon::digest::Digest;

use super::SessionState;
use crate::record::{
    AdvanceIntent, AdvanceOutcome, AttemptId, ContextId, ContextSource, DedupeKey, EdgeCause, EdgeCauseKind,
    EdgeKind, Event, EventData, EventId, EventIndex, GapDetail, GapId, GapReason, GapResolution, GapSeverity,
    NodeId, NodeKind, OutputChannel, OutputId, OutputPayload, RunId, Scope, SessionId, SnapshotRef,
    WorkflowSourceKind,
};

/// A log under construction.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    pub(crate) events: Vec<Event>,
    pub(crate) nodes: Vec<NodeId>,
    attempts: usize,
    moved_on: std::collections::BTreeSet<usize>,
}

pub(crate) fn workflow_hash() -> Digest {
    Digest::of_bytes(b"workflow")
}

impl Log {
    /// A session with one run and its root.
    pub(crate) fn start(name: &str) -> Self {
        let session = SessionId::derived(&[name]);
        let run = RunId::derived(&[name]);
        let mut log = Self {
            session,
            run,
            events: Vec::new(),
            nodes: Vec::new(),
            attempts: 0,
            moved_on: Default::default(),
        };
        log.push(Scope::Session, EventData::SessionCreated { parent_session_id: None });
        log.push(
            Scope::Run(log.run.clone()),
            EventData::RunStarted {
                workflow_id: "wr.sample".to_owned(),
                workflow_hash: workflow_hash(),
                workflow_source_kind: WorkflowSourceKind::Bundled,
                workflow_source_ref: "(bundled)".to_owned(),
            },
        );
        log.node(None, NodeKind::Step);
        log
    }

    pub(crate) fn state(&self) -> SessionState {
        SessionState::fold(self.session.clone(), &self.events).unwrap()
    }

    /// Adds an event with a unique key.
    pub(crate) fn push(&mut self, scope: Scope, data: EventData) -> EventId {
        let key = DedupeKey::of("test", &[&self.events.len().to_string()]);
        self.push_keyed(scope, data, key)
    }

    pub(crate) fn push_keyed(&mut self, scope: Scope, data: EventData, dedupe_key: DedupeKey) -> EventId {
        let index = self.events.len() as u64;
        let event_id = EventId::derived(&[self.session.as_str(), &index.to_string()]);
        self.events.push(Event {
            event_id: event_id.clone(),
            event_index: EventIndex(index),
            session_id: self.session.clone(),
            scope,
            dedupe_key,
            timestamp_ms: 1_000 + index,
            data,
        });
        event_id
    }

    pub(crate) fn at(&self, node: usize) -> Scope {
        Scope::Node(self.run.clone(), self.nodes[node].clone())
    }

    fn next_node(&self) -> NodeId {
        NodeId::derived(&[self.session.as_str(), &self.nodes.len().to_string()])
    }

    fn node(&mut self, parent: Option<usize>, node_kind: NodeKind) -> usize {
        let node_id = self.next_node();
        let parent_node_id = parent.map(|parent| self.nodes[parent].clone());
        self.nodes.push(node_id);
        let node = self.nodes.len() - 1;
        let snapshot_ref = SnapshotRef(Digest::of_bytes(node_kind_name(node_kind)));
        let data = EventData::NodeCreated {
            node_kind,
            parent_node_id,
            workflow_hash: workflow_hash(),
            snapshot_ref,
        };
        self.push(self.at(node), data);
        node
    }

    fn edge(&mut self, from: usize, to: usize, edge_kind: EdgeKind, cause: EdgeCause, key: DedupeKey) {
        let (from_node_id, to_node_id) = (self.nodes[from].clone(), self.nodes[to].clone());
        let data = EventData::EdgeCreated { edge_kind, from_node_id, to_node_id, cause };
        self.push_keyed(Scope::Run(self.run.clone()), data, key);
    }

    pub(crate) fn attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        AttemptId::derived(&[self.session.as_str(), &self.attempts.to_string()])
    }

    /// Adds an attempt on `from` that leads to a node of this kind.
    pub(crate) fn advance(&mut self, from: usize, kind: NodeKind) -> usize {
        self.advance_with(from, kind, false)
    }

    /// Adds the last advance of a branch.
    pub(crate) fn complete(&mut self, from: usize) -> usize {
        self.advance_with(from, NodeKind::Step, true)
    }

    fn advance_with(&mut self, from: usize, kind: NodeKind, completes: bool) -> usize {
        let attempt_id = self.attempt();
        let to_node_id = self.next_node();
        let outcome = AdvanceOutcome::Advanced { to_node_id: to_node_id.clone() };
        let data = EventData::AdvanceRecorded { attempt_id, intent: AdvanceIntent::AckPending, outcome };
        let moved_on = !self.moved_on.insert(from);
        let event_id = self.push(self.at(from), data);
        if completes {
            let data = EventData::RunCompleted { tip_node_id: to_node_id, open_critical_gaps: 0 };
            self.push(Scope::Run(self.run.clone()), data);
        }
        let to = self.node(Some(from), kind);
        let kind = if moved_on { EdgeCauseKind::NonTipAdvance } else { EdgeCauseKind::FirstAdvance };
        let key = DedupeKey::of("edge", &[&self.events.len().to_string()]);
        self.edge(from, to, EdgeKind::AckedStep, EdgeCause { kind, event_id }, key);
        to
    }

    /// Adds a checkpoint of `from`.
    pub(crate) fn checkpoint(&mut self, from: usize) -> (usize, AttemptId) {
        let attempt_id = self.attempt();
        let to = self.node(Some(from), NodeKind::Checkpoint);
        let event_id = self.events.last().unwrap().event_id.clone();
        let parts =
            [self.session.as_str(), self.run.as_str(), self.nodes[from].as_str(), attempt_id.as_str()];
        let key = DedupeKey::of("checkpoint", &parts);
        let cause = EdgeCause { kind: EdgeCauseKind::CheckpointCreated, event_id };
        self.edge(from, to, EdgeKind::Checkpoint, cause, key);
        (to, attempt_id)
    }

    /// Adds notes on a node, optionally as a correction.
    pub(crate) fn notes(&mut self, node: usize, text: &str, supersedes: Option<&OutputId>) -> OutputId {
        let output_id = OutputId::derived(&[&self.events.len().to_string()]);
        let data = EventData::NodeOutputAppended {
            output_id: output_id.clone(),
            supersedes_output_id: supersedes.cloned(),
            output_channel: OutputChannel::Recap,
            payload: OutputPayload::Notes { notes_markdown: text.to_owned(), sent_bytes: None },
        };
        self.push(self.at(node), data);
        output_id
    }

    /// Adds a critical gap on a node, or the resolution of one.
    pub(crate) fn gap(&mut self, node: usize, resolves: Option<&GapId>) -> GapId {
        let gap_id = GapId::derived(&[&self.events.len().to_string()]);
        let resolution = resolves.map_or(GapResolution::Unresolved, |gap| GapResolution::Resolves {
            resolves_gap_id: gap.clone(),
        });
        let data = EventData::GapRecorded {
            gap_id: gap_id.clone(),
            severity: GapSeverity::Critical,
            reason: GapReason::ContractViolation(GapDetail::MissingRequiredOutput),
            summary: "missing".to_owned(),
            pointer: None,
            resolution,
            evidence_refs: Vec::new(),
        };
        self.push(self.at(node), data);
        gap_id
    }

    /// Sets the context of the run.
    pub(crate) fn context(&mut self, context: serde_json::Value) {
        let serde_json::Value::Object(context) = context else { panic!("a context is an object") };
        let context_id = ContextId::derived(&[&self.events.len().to_string()]);
        let data = EventData::ContextSet {
            context_id,
            context,
            source: ContextSource::AgentDelta,
            resent_keys: Vec::new(),
        };
        self.push(Scope::Run(self.run.clone()), data);
    }
}

const fn node_kind_name(kind: NodeKind) -> &'static [u8] {
    match kind {
        NodeKind::Step => b"step",
        NodeKind::Checkpoint => b"checkpoint",
        NodeKind::BlockedAttempt => b"blocked",
    }
}
