//! The state of a session, built from its events. Invalid sequences of events are rejected.
//!
//! A [`SessionState`] is everything that can be computed from the events so far. It is built by
//! [`SessionState::apply`], which costs O(log n) and either applies an event completely or rejects it and
//! changes nothing. The engine decides from it, the projections read it, and a cache keeps it, so the next
//! append only applies new events.
//!
//! The state is not durable: it can always be computed again from the log. Applying a prefix and then the
//! rest gives the same state as applying all events.
//!
//! It deliberately does not contain snapshots and compiled workflows. Whether a node is complete follows from
//! `run_completed`; the title of a step is in the workflow.

mod apply;
mod error;
mod lineage;
mod records;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use canon::digest::Digest;
use serde_json::{Map, Value};

pub use error::{FoldError, FoldErrorCode};
pub(crate) use records::Ordinal;
pub use records::{
    Assessment, CapabilityObservation, CapabilityView, Consequence, Context, Divergence, Edge, Gap, Node,
    Observation, Output, RecordedAdvance, Run, Selected, SkippedRef, Trace, Validation,
};

use crate::record::{
    AttemptId, Capability, DedupeKey, EdgeKind, Event, EventId, EventIndex, GapId, NodeId, ObservationKey,
    OutputChannel, OutputId, Preferences, RunId, SessionId,
};

/// The maximum number of events per session. A step takes about seven, so this is enough for more than a
/// hundred thousand steps.
pub const SESSION_EVENTS: u64 = 1 << 20;

/// Everything that can be computed from the events of one session so far.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionState {
    session_id: SessionId,
    parent_session_id: Option<SessionId>,
    next_index: EventIndex,
    first_timestamp_ms: Option<u64>,
    last_timestamp_ms: Option<u64>,
    runs: Vec<Run>,
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    gaps: Vec<Gap>,
    observations: BTreeMap<ObservationKey, Observation>,
    run_by_id: BTreeMap<RunId, Ordinal>,
    node_by_id: BTreeMap<NodeId, Ordinal>,
    output_by_id: BTreeMap<OutputId, Ordinal>,
    gap_by_id: BTreeMap<GapId, Ordinal>,
    /// Nodes that an attempt leads to and that do not exist yet, with the node of the attempt.
    awaited: BTreeMap<NodeId, Ordinal>,
    keys: BTreeMap<Fingerprint, EventIndex>,
    event_ids: BTreeMap<Fingerprint, EventIndex>,
}

/// The first 128 bits of a text's SHA-256.
///
/// Keys and event ids are long and numerous, and only their presence is ever queried. A fingerprint takes a
/// tenth of the memory, and collisions cannot be constructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fingerprint([u8; 16]);

impl Fingerprint {
    fn of(text: &str) -> Self {
        let digest = Digest::of_bytes(text.as_bytes());
        let mut first = [0; 16];
        first.copy_from_slice(&digest.as_bytes()[..16]);
        Self(first)
    }
}

impl SessionState {
    /// The state before the first event.
    pub const fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            parent_session_id: None,
            next_index: EventIndex::FIRST,
            first_timestamp_ms: None,
            last_timestamp_ms: None,
            runs: Vec::new(),
            nodes: Vec::new(),
            outputs: Vec::new(),
            gaps: Vec::new(),
            observations: BTreeMap::new(),
            run_by_id: BTreeMap::new(),
            node_by_id: BTreeMap::new(),
            output_by_id: BTreeMap::new(),
            gap_by_id: BTreeMap::new(),
            awaited: BTreeMap::new(),
            keys: BTreeMap::new(),
            event_ids: BTreeMap::new(),
        }
    }

    /// The state after all `events`.
    ///
    /// # Errors
    /// The first event that is not valid after the previous ones.
    pub fn fold<'e>(
        session_id: SessionId,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Self, FoldError> {
        let mut state = Self::new(session_id);
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    pub const fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// The session that delegated this one.
    pub const fn parent_session_id(&self) -> Option<&SessionId> {
        self.parent_session_id.as_ref()
    }

    /// The index of the next event, which is the number of events so far.
    pub const fn next_index(&self) -> EventIndex {
        self.next_index
    }

    /// When the first event was recorded, by the clock. Informational.
    pub const fn first_timestamp_ms(&self) -> Option<u64> {
        self.first_timestamp_ms
    }

    /// When the last event was recorded, by the clock. Informational.
    pub const fn last_timestamp_ms(&self) -> Option<u64> {
        self.last_timestamp_ms
    }

    /// Whether the log has an event with this key.
    pub fn contains(&self, key: &DedupeKey) -> bool {
        self.index_of(key).is_some()
    }

    /// The index of the event with this key.
    pub fn index_of(&self, key: &DedupeKey) -> Option<EventIndex> {
        self.keys.get(&Fingerprint::of(key.as_str())).copied()
    }

    /// The index of the event with this id.
    pub fn index_of_event(&self, event_id: &EventId) -> Option<EventIndex> {
        self.event_ids.get(&Fingerprint::of(event_id.as_str())).copied()
    }

    /// The runs, in the order in which they started.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub fn run(&self, run_id: &RunId) -> Option<&Run> {
        self.run_by_id.get(run_id).map(|ordinal| &self.runs[ordinal.get()])
    }

    /// The number of nodes of all runs.
    pub const fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, node_id: &NodeId) -> Option<&Node> {
        self.node_by_id.get(node_id).map(|ordinal| &self.nodes[ordinal.get()])
    }

    pub(crate) fn node_at(&self, ordinal: Ordinal) -> &Node {
        &self.nodes[ordinal.get()]
    }

    /// The nodes of a run in creation order: parents before children.
    pub fn nodes_of<'s>(
        &'s self,
        run: &'s Run,
    ) -> impl DoubleEndedIterator<Item = &'s Node> + ExactSizeIterator {
        run.nodes.iter().map(|ordinal| self.node_at(*ordinal))
    }

    pub fn root_of(&self, run: &Run) -> Option<&Node> {
        run.nodes.first().map(|ordinal| self.node_at(*ordinal))
    }

    /// The children of `node`, oldest first, whether or not their edges are recorded yet.
    pub fn children_of<'s>(&'s self, node: &'s Node) -> impl DoubleEndedIterator<Item = &'s Node> {
        node.children.iter().map(|ordinal| self.node_at(*ordinal))
    }

    /// The children of `node` by edges of this kind, oldest first.
    pub fn children_by_edge<'s>(
        &'s self,
        node: &'s Node,
        kind: EdgeKind,
    ) -> impl DoubleEndedIterator<Item = &'s Node> {
        self.children_of(node).filter(move |child| child.edge.as_ref().is_some_and(|edge| edge.kind == kind))
    }

    /// The outcome of an attempt on a node.
    pub fn advance(&self, node_id: &NodeId, attempt_id: &AttemptId) -> Option<&RecordedAdvance> {
        self.node(node_id)?.advances.get(attempt_id)
    }

    /// The checkpoint that an attempt created from a node.
    ///
    /// No event contains the attempt of a checkpoint, so it is taken from the dedupe key of its edge, which
    /// ends with `:` and the attempt.
    pub fn checkpoint_of(&self, node_id: &NodeId, attempt_id: &AttemptId) -> Option<&Node> {
        self.node(node_id)?.checkpoints.get(attempt_id).map(|ordinal| self.node_at(*ordinal))
    }

    /// The preferences that a node was created with or that were set on it.
    pub fn preferences_at(&self, node_id: &NodeId) -> Option<Preferences> {
        self.node(node_id).map(|node| node.preferences)
    }

    /// The preferences that apply to the next attempt on a node: its own, or the newest of its run where those
    /// are stricter. A user who lowers the autonomy means the run and not one of its branches, while going back
    /// to a node must not give it more autonomy than it had.
    pub fn current_preferences(&self, node: &Node) -> Preferences {
        let own = node.preferences;
        let newest = self.run(&node.run_id).map_or(own, |run| run.preferences);
        Preferences {
            autonomy: own.autonomy.min(newest.autonomy),
            risk_policy: own.risk_policy.min(newest.risk_policy),
        }
    }

    /// What is known about a capability at a node.
    pub fn capability_at(&self, node_id: &NodeId, capability: Capability) -> CapabilityView {
        self.node(node_id).and_then(|node| node.capabilities.get(&capability)).copied().unwrap_or_default()
    }

    /// The current context of a run; empty if it was never set.
    pub fn context(&self, run_id: &RunId) -> &Map<String, Value> {
        static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.run(run_id)
            .and_then(|run| run.contexts.last())
            .map_or_else(|| &*EMPTY, |context| &context.values)
    }

    /// The context that a run was started with.
    pub fn first_context(&self, run_id: &RunId) -> Option<&Arc<Map<String, Value>>> {
        self.run(run_id)?.contexts.first().map(|context| &context.values)
    }

    /// The context that was current when a node was created.
    pub fn context_of(&self, node: &Node) -> Arc<Map<String, Value>> {
        self.context_version(node).map(|(_, context)| context.values.clone()).unwrap_or_default()
    }

    /// The context that was current when a node was created, and the one before it.
    pub(crate) fn context_version(&self, node: &Node) -> Option<(Option<&Context>, &Context)> {
        let contexts = &self.run(&node.run_id)?.contexts;
        let at = contexts.binary_search_by_key(&node.context_index?, |context| context.index).ok()?;
        let before = at.checked_sub(1).and_then(|before| contexts.get(before));
        Some((before, contexts.get(at)?))
    }

    /// The index of the event that last set the context of a run.
    pub fn context_index(&self, run_id: &RunId) -> Option<EventIndex> {
        self.run(run_id)?.contexts.last().map(|context| context.index)
    }

    pub fn output(&self, output_id: &OutputId) -> Option<&Output> {
        self.output_by_id.get(output_id).map(|ordinal| &self.outputs[ordinal.get()])
    }

    /// All outputs of a node in a channel, including superseded ones, oldest first.
    pub fn outputs_of<'s>(
        &'s self,
        node: &'s Node,
        channel: OutputChannel,
    ) -> impl DoubleEndedIterator<Item = &'s Output> {
        let outputs = node.outputs.iter().map(|ordinal| &self.outputs[ordinal.get()]);
        outputs.filter(move |output| output.channel == channel)
    }

    pub fn gap(&self, gap_id: &GapId) -> Option<&Gap> {
        self.gap_by_id.get(gap_id).map(|ordinal| &self.gaps[ordinal.get()])
    }

    /// All gap records of a run, oldest first.
    pub fn gaps_of_run<'s>(&'s self, run: &'s Run) -> impl DoubleEndedIterator<Item = &'s Gap> {
        run.gaps.iter().map(|ordinal| &self.gaps[ordinal.get()])
    }

    /// All gap records of a node, oldest first.
    pub fn gaps_of<'s>(&'s self, node: &'s Node) -> impl DoubleEndedIterator<Item = &'s Gap> {
        node.gaps.iter().map(|ordinal| &self.gaps[ordinal.get()])
    }

    /// The last observation of the workspace for a key.
    pub fn observation(&self, key: ObservationKey) -> Option<&Observation> {
        self.observations.get(&key)
    }

    /// The index of the last event about a node, of any kind.
    pub fn last_index_touching(&self, node_id: &NodeId) -> Option<EventIndex> {
        self.node(node_id).map(|node| node.last_index)
    }

    /// The index of the event that completed a run at this node.
    pub fn completion_at(&self, node: &Node) -> Option<EventIndex> {
        self.run(&node.run_id)?.completions.get(&node.id).copied()
    }
}
