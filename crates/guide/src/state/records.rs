//! What the fold keeps: runs, nodes, and everything attached to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::{
    AdvanceOutcome, AssessedDimension, AttemptId, Capability, CapabilityStatus, Confidence, DelimiterSafe,
    DivergenceReason, EdgeCause, EdgeCauseKind, EdgeKind, EnforcementGrade, EventId, EventIndex, EvidenceRef,
    GapId, GapReason, GapResolution, GapSeverity, NodeId, NodeKind, ObservationValue, OutputChannel,
    OutputId, OutputPayload, Pointer, Preferences, RunId, SnapshotRef, StepName, TraceEntry, TraceId,
    TraceKind, TraceRef, ValidationResult, WorkflowHash, WorkflowSourceKind,
};

/// Where something is in one of the fold's lists: small, and quick to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ordinal(u32);

impl Ordinal {
    pub(crate) fn new(position: usize) -> Self {
        Self(u32::try_from(position).expect("a session holds far fewer than 2^32 events"))
    }

    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// One run of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub workflow_id: String,
    /// What it is pinned to.
    pub workflow_hash: WorkflowHash,
    /// Where the workflow came from.
    pub workflow_source_kind: WorkflowSourceKind,
    pub workflow_source_ref: String,
    /// When it started, as a position.
    pub started_index: EventIndex,
    /// When it started, by the clock. Informational.
    pub started_ms: u64,
    /// The last event that touched one of its nodes in a way that counts as activity.
    pub last_activity_index: EventIndex,
    /// How many nodes have no children.
    pub leaf_count: u32,
    /// How many gaps are open.
    pub open_gaps: u32,
    /// How many critical gaps are open.
    pub open_critical_gaps: u32,
    pub(crate) nodes: Vec<Ordinal>,
    pub(crate) gaps: Vec<Ordinal>,
    /// The node of the last activity: the preferred tip is at or below it.
    pub(crate) last_touched: Option<Ordinal>,
    pub(crate) context: Option<Context>,
    pub(crate) completions: BTreeMap<NodeId, EventIndex>,
}

impl Run {
    /// The event by which the run was completed first. Whoever works on from an earlier node does not take it back.
    pub fn first_completion(&self) -> Option<EventIndex> {
        self.completions.values().copied().min()
    }
}

/// The context of a run, as it was last set.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    pub index: EventIndex,
    /// The merged context.
    pub values: Arc<serde_json::Map<String, serde_json::Value>>,
}

/// One node of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: NodeId,
    pub run_id: RunId,
    /// What sort of node.
    pub kind: NodeKind,
    /// The node before it; the root has none.
    pub parent: Option<NodeId>,
    /// The state to go on from.
    pub snapshot_ref: SnapshotRef,
    /// The event that made it.
    pub created_index: EventIndex,
    /// The same event, by its id.
    pub created_event_id: EventId,
    /// When, by the clock. Informational.
    pub created_ms: u64,
    /// How many nodes are above it.
    pub depth: u32,
    /// Which step of its path is pending, from 1. A checkpoint or a blocked attempt has its
    /// parent's, because the same step is still pending.
    pub step_ordinal: u32,
    /// How many attempts at the pending step were blocked one after the other. A checkpoint
    /// has its parent's: a bookmark is no way around the limit.
    pub blocked_chain: u32,
    /// The preferences in force. A node begins with its parent's as of its creation, so that a
    /// change recorded on an old node never rewrites the branches that exist already.
    pub preferences: Preferences,
    /// The context that was in force when it was made, by the event that set it.
    pub context_index: Option<EventIndex>,
    /// The last event about it, of any kind.
    pub last_index: EventIndex,
    /// The last event about it that counts as activity.
    pub last_activity_index: EventIndex,
    /// How it came to be, once the edge is recorded.
    pub edge: Option<Edge>,
    /// Checks of outputs, in order.
    pub validations: Vec<Validation>,
    /// Assessments, in order.
    pub assessments: Vec<Assessment>,
    /// What assessments asked for, in order.
    pub consequences: Vec<Consequence>,
    /// Where the caller left the path, in order.
    pub divergences: Vec<Divergence>,
    /// Where decision traces are, in order.
    pub traces: Vec<Trace>,
    pub(crate) ordinal: Ordinal,
    pub(crate) parent_ordinal: Option<Ordinal>,
    /// An ancestor further up, so that any ancestor is found in O(log depth).
    pub(crate) jump: Ordinal,
    pub(crate) children: Vec<Ordinal>,
    pub(crate) advances: BTreeMap<AttemptId, RecordedAdvance>,
    pub(crate) checkpoints: BTreeMap<AttemptId, Ordinal>,
    pub(crate) acked_children: u32,
    pub(crate) checkpoint_children: u32,
    pub(crate) capabilities: BTreeMap<Capability, CapabilityView>,
    pub(crate) outputs: Vec<Ordinal>,
    pub(crate) gaps: Vec<Ordinal>,
}

impl Node {
    /// How many attempts to advance it have an outcome. The next attempt's id derives from it.
    pub fn attempts(&self) -> usize {
        self.advances.len()
    }

    /// How many checkpoints were made of it. The next checkpoint's identity derives from it.
    pub const fn checkpoint_count(&self) -> u32 {
        self.checkpoint_children
    }

    /// How many edges of this kind leave it.
    pub const fn child_count(&self, kind: EdgeKind) -> u32 {
        match kind {
            EdgeKind::AckedStep => self.acked_children,
            EdgeKind::Checkpoint => self.checkpoint_children,
        }
    }

    /// Whether no node was made from it.
    pub const fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether it began another branch: it was made from a node that others had gone on from already.
    pub fn is_fork(&self) -> bool {
        self.edge.as_ref().is_some_and(|edge| match edge.cause.kind {
            EdgeCauseKind::NonTipAdvance | EdgeCauseKind::IntentionalFork => true,
            EdgeCauseKind::FirstAdvance
            | EdgeCauseKind::IdempotentReplay
            | EdgeCauseKind::CheckpointCreated => false,
        })
    }

    /// The outcomes of its attempts, by attempt.
    pub fn advances(&self) -> impl Iterator<Item = (&AttemptId, &RecordedAdvance)> {
        self.advances.iter()
    }
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAdvance {
    pub index: EventIndex,
    /// The same event, by its id.
    pub event_id: EventId,
    pub outcome: AdvanceOutcome,
}

/// How a node came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// What sort of edge.
    pub kind: EdgeKind,
    pub cause: EdgeCause,
    pub index: EventIndex,
}

/// One output, superseded or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub id: OutputId,
    pub node_id: NodeId,
    pub channel: OutputChannel,
    /// The content.
    pub payload: OutputPayload,
    pub index: EventIndex,
    /// The last output that corrects it.
    pub superseded_by: Option<OutputId>,
}

impl Output {
    /// The notes, without the mark that they were cut; nothing for an artifact.
    pub fn notes(&self) -> Option<&str> {
        match &self.payload {
            OutputPayload::Notes { notes_markdown, .. } => {
                Some(notes_markdown.strip_suffix(canon::budget::TRUNCATION_MARKER).unwrap_or(notes_markdown))
            }
            OutputPayload::ArtifactRef(_) => None,
        }
    }
}

/// One gap record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub id: GapId,
    pub run_id: RunId,
    pub node_id: NodeId,
    /// How bad it is.
    pub severity: GapSeverity,
    pub reason: GapReason,
    /// In words.
    pub summary: String,
    /// What it is about, where that was recorded.
    pub pointer: Option<Pointer>,
    /// Whether it closes another.
    pub resolution: GapResolution,
    /// What it is based on.
    pub evidence_refs: Vec<EvidenceRef>,
    pub index: EventIndex,
    /// The first gap record that closes it.
    pub resolved_by: Option<GapId>,
}

impl Gap {
    /// Whether something is still missing: it closes no other gap, and none closes it.
    pub const fn is_open(&self) -> bool {
        matches!(self.resolution, GapResolution::Unresolved) && self.resolved_by.is_none()
    }
}

/// What was last seen of a workspace, for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub value: ObservationValue,
    /// How sure it is.
    pub confidence: Confidence,
    pub index: EventIndex,
}

/// What is known of a capability at a node: its own last observations, or those of the nearest
/// ancestor that had any when the node was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilityView {
    /// The last observation, however it was made.
    pub latest: Option<CapabilityObservation>,
    /// The last one that was tried rather than claimed. Only this one unlocks what is required.
    pub strong: Option<CapabilityObservation>,
}

/// One observation of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityObservation {
    /// Whether it is there.
    pub status: CapabilityStatus,
    /// How much that is worth.
    pub grade: EnforcementGrade,
    pub index: EventIndex,
}

/// One check of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// The check.
    pub validation_id: String,
    pub attempt_id: AttemptId,
    /// The contract, or the criteria.
    pub contract_ref: String,
    /// What came of it.
    pub result: ValidationResult,
    pub index: EventIndex,
}

/// One assessment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    pub assessment_id: String,
    pub attempt_id: AttemptId,
    /// The output that holds it.
    pub artifact_output_id: OutputId,
    /// The levels.
    pub dimensions: Vec<AssessedDimension>,
    pub index: EventIndex,
}

/// What an assessment asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consequence {
    pub assessment_id: String,
    pub attempt_id: AttemptId,
    /// The level that asks.
    pub trigger: BTreeMap<String, String>,
    /// What it asks for.
    pub guidance: String,
    pub index: EventIndex,
}

/// One departure from the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub divergence_id: String,
    pub reason: DivergenceReason,
    /// Why, in words.
    pub summary: String,
    /// The step it is about.
    pub related_step_id: Option<StepName>,
    pub index: EventIndex,
}

/// Where a decision trace is, and what it says of the way that the run took. Its entries stay in the log:
/// nothing is decided from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub trace_id: TraceId,
    /// How many decisions it holds.
    pub entries: usize,
    pub index: EventIndex,
    /// The step that became pending.
    pub selected: Option<Selected>,
    /// The steps and loops that were skipped, in order.
    pub skipped: Vec<TraceRef>,
    /// The context that decided it, where something was skipped.
    pub context: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
}

/// A step that became pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub step_id: StepName,
    /// The innermost loop around it, and its iteration from 0.
    pub innermost: Option<(DelimiterSafe, u32)>,
}

impl Selected {
    /// What a decision selected, if it did.
    pub(crate) fn of(entry: &TraceEntry) -> Option<Self> {
        if entry.kind != TraceKind::SelectedNextStep {
            return None;
        }
        match entry.refs.as_slice() {
            [TraceRef::StepId { step_id }] => Some(Self { step_id: step_id.clone(), innermost: None }),
            [TraceRef::StepId { step_id }, TraceRef::LoopId { loop_id }, TraceRef::Iteration { value }] => {
                Some(Self { step_id: step_id.clone(), innermost: Some((loop_id.clone(), *value)) })
            }
            _ => None,
        }
    }
}
