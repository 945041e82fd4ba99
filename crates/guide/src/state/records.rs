//! The content of the state: runs, nodes, and everything attached to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::{
    AdvanceOutcome, AssessedDimension, AttemptId, Capability, CapabilityStatus, Confidence, DelimiterSafe,
    DivergenceReason, EdgeCause, EdgeCauseKind, EdgeKind, EnforcementGrade, EventId, EventIndex, EvidenceRef,
    GapId, GapReason, GapResolution, GapSeverity, NodeId, NodeKind, ObservationValue, OutputChannel,
    OutputId, OutputPayload, Pointer, Preferences, RunId, SnapshotRef, StepName, TraceEntry, TraceId,
    TraceKind, TraceRef, ValidationResult, WorkflowHash, WorkflowSourceKind,
};

/// An index into one of the state's lists.
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
    /// The pinned workflow.
    pub workflow_hash: WorkflowHash,
    /// Where the workflow came from.
    pub workflow_source_kind: WorkflowSourceKind,
    pub workflow_source_ref: String,
    /// The index of the event that started it.
    pub started_index: EventIndex,
    /// When it started, by the clock. Informational.
    pub started_ms: u64,
    /// The index of the last activity on one of its nodes.
    pub last_activity_index: EventIndex,
    /// The number of nodes without children.
    pub leaf_count: u32,
    /// The number of open gaps.
    pub open_gaps: u32,
    /// The number of open critical gaps.
    pub open_critical_gaps: u32,
    pub(crate) nodes: Vec<Ordinal>,
    pub(crate) gaps: Vec<Ordinal>,
    /// The node of the last activity: the preferred tip is at or below it.
    pub(crate) last_touched: Option<Ordinal>,
    /// All versions of the context, in the order of their indexes.
    pub(crate) contexts: Vec<Context>,
    /// The newest preferences that were recorded on any node.
    pub(crate) preferences: Preferences,
    pub(crate) completions: BTreeMap<NodeId, EventIndex>,
}

impl Run {
    /// The index of the event that first completed the run. Later work from an earlier node does not change
    /// it.
    pub fn first_completion(&self) -> Option<EventIndex> {
        self.completions.values().copied().min()
    }
}

/// One version of the context of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    pub index: EventIndex,
    /// The merged context.
    pub values: Arc<serde_json::Map<String, serde_json::Value>>,
    /// The keys that were sent with the value that they already had, as far as they are recorded.
    pub resent_keys: Vec<String>,
}

/// One node of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: NodeId,
    pub run_id: RunId,
    pub kind: NodeKind,
    /// The parent node; `None` for the root.
    pub parent: Option<NodeId>,
    /// The state to continue from.
    pub snapshot_ref: SnapshotRef,
    /// The index of the event that created it.
    pub created_index: EventIndex,
    /// The id of that event.
    pub created_event_id: EventId,
    /// When it was created, by the clock. Informational.
    pub created_ms: u64,
    /// The number of ancestors.
    pub depth: u32,
    /// The one-based number of the pending step on its path. A checkpoint or a blocked attempt has its
    /// parent's number, because the same step is still pending.
    pub step_ordinal: u32,
    /// The number of consecutive blocked attempts at the pending step. A checkpoint has its parent's number,
    /// so that it does not reset the limit.
    pub blocked_chain: u32,
    /// The preferences that apply, unless the run got stricter ones later. A node starts with its parent's
    /// preferences at the time of its creation.
    pub preferences: Preferences,
    /// The context that applied when the node was created, by the index of the event that set it.
    pub context_index: Option<EventIndex>,
    /// The index of the last event about it, of any kind.
    pub last_index: EventIndex,
    /// The index of the last activity.
    pub last_activity_index: EventIndex,
    /// The edge from its parent, once it is recorded.
    pub edge: Option<Edge>,
    /// Validations of outputs, in order.
    pub validations: Vec<Validation>,
    /// Assessments, in order.
    pub assessments: Vec<Assessment>,
    /// Work that assessments required, in order.
    pub consequences: Vec<Consequence>,
    /// Deviations from the workflow, in order.
    pub divergences: Vec<Divergence>,
    /// Decision traces, in order.
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
    /// The number of attempts that have an outcome. The id of the next attempt is derived from it.
    pub fn attempts(&self) -> usize {
        self.advances.len()
    }

    /// The number of checkpoints. The id of the next checkpoint is derived from it.
    pub const fn checkpoint_count(&self) -> u32 {
        self.checkpoint_children
    }

    /// The number of outgoing edges of this kind.
    pub const fn child_count(&self, kind: EdgeKind) -> u32 {
        match kind {
            EdgeKind::AckedStep => self.acked_children,
            EdgeKind::Checkpoint => self.checkpoint_children,
        }
    }

    /// Whether it has no children.
    pub const fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether it started another branch: its parent already had a later step.
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

/// The recorded outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAdvance {
    pub index: EventIndex,
    pub event_id: EventId,
    pub outcome: AdvanceOutcome,
}

/// The edge from a node's parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
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
    pub payload: OutputPayload,
    pub index: EventIndex,
    /// The last output that corrects it.
    pub superseded_by: Option<OutputId>,
}

impl Output {
    /// The notes without the truncation marker; `None` for an artifact.
    pub fn notes(&self) -> Option<&str> {
        match &self.payload {
            OutputPayload::Notes { notes_markdown, .. } => {
                Some(notes_markdown.strip_suffix(canon::budget::TRUNCATION_MARKER).unwrap_or(notes_markdown))
            }
            OutputPayload::ArtifactRef(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub id: GapId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub severity: GapSeverity,
    pub reason: GapReason,
    /// The description.
    pub summary: String,
    /// The subject, if it was recorded.
    pub pointer: Option<Pointer>,
    /// Whether it closes another gap.
    pub resolution: GapResolution,
    pub evidence_refs: Vec<EvidenceRef>,
    pub index: EventIndex,
    /// The first gap record that closes it.
    pub resolved_by: Option<GapId>,
}

impl Gap {
    /// Whether the gap is open: it closes no other gap, and no other record closes it.
    pub const fn is_open(&self) -> bool {
        matches!(self.resolution, GapResolution::Unresolved) && self.resolved_by.is_none()
    }
}

/// The last observation of a workspace for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub value: ObservationValue,
    /// How reliable it is.
    pub confidence: Confidence,
    pub index: EventIndex,
}

/// What is known about a capability at a node: its own last observations, or those that its nearest ancestor
/// had when the node was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilityView {
    /// The last observation of any provenance.
    pub latest: Option<CapabilityObservation>,
    /// The last observation from a test. Only this one satisfies a requirement.
    pub strong: Option<CapabilityObservation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapabilityObservation {
    pub status: CapabilityStatus,
    /// How reliable it is.
    pub grade: EnforcementGrade,
    pub index: EventIndex,
}

/// One validation of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    pub validation_id: String,
    pub attempt_id: AttemptId,
    /// The contract, or the criteria.
    pub contract_ref: String,
    pub result: ValidationResult,
    pub index: EventIndex,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    pub assessment_id: String,
    pub attempt_id: AttemptId,
    /// The output that contains it.
    pub artifact_output_id: OutputId,
    /// The level of each dimension.
    pub dimensions: Vec<AssessedDimension>,
    pub index: EventIndex,
}

/// Work that an assessment required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consequence {
    pub assessment_id: String,
    pub attempt_id: AttemptId,
    /// The dimension and level that triggered it.
    pub trigger: BTreeMap<String, String>,
    /// The required work.
    pub guidance: String,
    pub index: EventIndex,
}

/// One deviation from the workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub divergence_id: String,
    pub reason: DivergenceReason,
    /// The explanation.
    pub summary: String,
    /// The step that it is about.
    pub related_step_id: Option<StepName>,
    pub index: EventIndex,
}

/// A decision trace, with the selected and skipped steps. Its entries stay in the log, because nothing is
/// decided from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub trace_id: TraceId,
    /// The number of entries.
    pub entries: usize,
    pub index: EventIndex,
    /// The step that became pending.
    pub selected: Option<Selected>,
    /// The steps and loops that were skipped, in order.
    pub skipped: Vec<SkippedRef>,
    /// The context at that time, if something was skipped.
    pub context: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
}

/// A step or a loop that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRef {
    pub about: TraceRef,
    /// The loops around it, outermost first, each with its zero-based iteration. Empty in logs of earlier
    /// versions.
    pub loops: Vec<(DelimiterSafe, u32)>,
}

impl SkippedRef {
    /// What a trace entry skipped, if anything.
    pub(crate) fn of(entry: &TraceEntry) -> Option<Self> {
        let about = entry.skipped()?.clone();
        let loops = entry.loops().map(|(loop_id, iteration)| (loop_id.clone(), iteration)).collect();
        Some(Self { about, loops })
    }
}

/// A step that became pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub step_id: StepName,
    /// The innermost loop around it with its zero-based iteration.
    pub innermost: Option<(DelimiterSafe, u32)>,
}

impl Selected {
    /// The step that a trace entry selected, if any.
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
