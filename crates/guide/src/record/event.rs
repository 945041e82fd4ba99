//! The events of a session: a closed set, decoded strictly.

mod schema;

use std::collections::BTreeMap;

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    AssessedDimension, AttemptId, BlockerReport, Capability, CapabilityStatus, ContextId, DedupeKey, EventId,
    EventIndex, EvidenceRef, GapId, GapReason, GapResolution, GapSeverity, NodeId, OutputChannel, OutputId,
    OutputPayload, Pointer, PreferenceChange, PreferenceSource, Preferences, Provenance, RunId, SessionId,
    SnapshotRef, StepName, TraceEntry, TraceId, ValidationResult, WorkflowHash,
};

/// The version of the event format.
pub const EVENT_VERSION: u8 = 1;

/// One fact of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Derived from the session and the index.
    pub event_id: EventId,
    /// Its position; the only order there is.
    pub event_index: EventIndex,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The run and node it is about, as its kind demands.
    pub scope: Scope,
    /// The key under which it happens at most once.
    pub dedupe_key: DedupeKey,
    /// When it was recorded, in milliseconds since 1970. Informational: it never orders anything.
    pub timestamp_ms: u64,
    /// What happened.
    pub data: EventData,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The session.
    Session,
    /// A run.
    Run(RunId),
    /// A node of a run.
    Node(RunId, NodeId),
}

impl Scope {
    /// The run, if it is about one.
    pub const fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Session => None,
            Self::Run(run) | Self::Node(run, _) => Some(run),
        }
    }

    /// The node, if it is about one.
    pub const fn node_id(&self) -> Option<&NodeId> {
        match self {
            Self::Node(_, node) => Some(node),
            Self::Session | Self::Run(_) => None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum EventData {
    /// The session exists. A marker; what it is about is told by the other events.
    SessionCreated {
        /// The session that this one was delegated from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session_id: Option<SessionId>,
    },
    /// Something about the workspace, for finding the session again.
    ObservationRecorded {
        /// What was observed.
        key: ObservationKey,
        /// The value.
        value: ObservationValue,
        /// How sure it is.
        confidence: Confidence,
    },
    /// A run begins, pinned to a compiled workflow.
    RunStarted {
        /// The workflow.
        workflow_id: String,
        /// What is executed, whatever becomes of the source.
        #[schemars(with = "String")]
        workflow_hash: WorkflowHash,
        /// Where the source came from.
        workflow_source_kind: WorkflowSourceKind,
        /// Which source; its meaning depends on the kind.
        workflow_source_ref: String,
    },
    /// A node of the run's graph, with the state to go on from.
    NodeCreated {
        /// What sort of node.
        node_kind: NodeKind,
        /// The node before it; only the root has none.
        parent_node_id: Option<NodeId>,
        /// The run's pinned workflow, again.
        #[schemars(with = "String")]
        workflow_hash: WorkflowHash,
        /// The state.
        snapshot_ref: SnapshotRef,
    },
    /// How a node came to be.
    EdgeCreated {
        /// What sort of edge.
        edge_kind: EdgeKind,
        /// From this node.
        from_node_id: NodeId,
        /// To this one.
        to_node_id: NodeId,
        /// Why.
        cause: EdgeCause,
    },
    /// What came of an attempt to advance.
    AdvanceRecorded {
        /// The attempt.
        attempt_id: AttemptId,
        /// Always to acknowledge the pending step.
        intent: AdvanceIntent,
        /// What came of it.
        outcome: AdvanceOutcome,
    },
    /// A step left something behind.
    NodeOutputAppended {
        /// The output.
        output_id: OutputId,
        /// The output of the same node and channel that it corrects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supersedes_output_id: Option<OutputId>,
        /// What it is for.
        output_channel: OutputChannel,
        /// The content.
        payload: OutputPayload,
    },
    /// Preferences, from this node on.
    PreferencesChanged {
        /// The change.
        change_id: String,
        /// Who wanted it.
        source: PreferenceSource,
        /// What changed: at least one, no key twice.
        #[schemars(length(min = 1, max = 2))]
        delta: Vec<PreferenceChange>,
        /// All preferences afterwards.
        effective: Preferences,
    },
    /// A capability was looked at.
    CapabilityObserved {
        /// The observation.
        cap_obs_id: String,
        /// Which capability.
        capability: Capability,
        /// Whether it is there.
        status: CapabilityStatus,
        /// How we know.
        provenance: Provenance,
    },
    /// The run goes on without something.
    GapRecorded {
        /// The gap.
        gap_id: GapId,
        /// How bad it is.
        severity: GapSeverity,
        /// Why there is one.
        reason: GapReason,
        /// What is missing, in words.
        summary: String,
        /// What it is about, as the blocker of the same reason says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pointer: Option<Pointer>,
        /// Whether it closes an earlier gap.
        resolution: GapResolution,
        /// What it is based on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        evidence_refs: Vec<EvidenceRef>,
    },
    /// The caller left the path on purpose.
    DivergenceRecorded {
        /// The divergence.
        divergence_id: String,
        /// Why.
        reason: DivergenceReason,
        /// Why, in words.
        summary: String,
        /// The step it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        related_step_id: Option<StepName>,
    },
    /// Why the engine decided as it did.
    DecisionTraceAppended {
        /// The trace.
        trace_id: TraceId,
        /// The decisions.
        #[schemars(length(min = 1, max = 25))]
        entries: Vec<TraceEntry>,
    },
    /// The context of a run, whole, after a change.
    ContextSet {
        /// This state of the context.
        context_id: ContextId,
        /// The merged context.
        context: Map<String, Value>,
        /// Where the change came from.
        source: ContextSource,
    },
    /// An output was checked.
    ValidationPerformed {
        /// The check.
        validation_id: String,
        /// The attempt it belongs to.
        attempt_id: AttemptId,
        /// The contract, or `wr.validationCriteria`.
        contract_ref: String,
        /// What came of it.
        result: ValidationResult,
    },
    /// An assessment was given.
    AssessmentRecorded {
        /// Which assessment.
        assessment_id: String,
        /// The attempt it belongs to.
        attempt_id: AttemptId,
        /// The output that holds it.
        artifact_output_id: OutputId,
        /// In words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// What had to be corrected.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        normalization_notes: Vec<String>,
        /// The levels.
        dimensions: Vec<AssessedDimension>,
    },
    /// An assessment asks for more work.
    AssessmentConsequenceApplied {
        /// The attempt it belongs to.
        attempt_id: AttemptId,
        /// Which assessment.
        assessment_id: String,
        /// The level that asks.
        trigger: BTreeMap<String, String>,
        /// What it asks for.
        guidance: String,
    },
    /// A run reached its end.
    RunCompleted {
        /// The node that completed it.
        tip_node_id: NodeId,
        /// How many critical gaps are open.
        open_critical_gaps: u32,
    },
}

/// What was observed of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKey {
    GitBranch,
    GitHeadSha,
    RepoRootHash,
    RepoRoot,
}

impl ObservationKey {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitBranch => "git_branch",
            Self::GitHeadSha => "git_head_sha",
            Self::RepoRootHash => "repo_root_hash",
            Self::RepoRoot => "repo_root",
        }
    }
}

/// An observed value, with its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ObservationValue {
    /// A short text.
    ShortString(String),
    /// A git commit.
    #[serde(rename = "git_sha1")]
    GitSha1(String),
    /// A digest.
    Sha256(#[schemars(with = "String")] Digest),
    /// A path.
    Path(String),
}

impl ObservationValue {
    /// The value as text.
    pub fn text(&self) -> String {
        match self {
            Self::ShortString(text) | Self::GitSha1(text) | Self::Path(text) => text.clone(),
            Self::Sha256(digest) => digest.to_string(),
        }
    }
}

/// How sure an observation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    Low,
    Med,
    High,
}

/// Where a workflow came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowSourceKind {
    /// Part of the program.
    Bundled,
    /// The user's own folder.
    User,
    /// The project's folder.
    Project,
    /// A configured folder or a git repository.
    Remote,
    /// A plugin.
    Plugin,
}

/// What sort of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A step is pending, or the run is complete.
    Step,
    /// A bookmark; the same step is still pending.
    Checkpoint,
    /// An attempt that was blocked; the same step is still pending.
    BlockedAttempt,
}

/// What sort of edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// A step was acknowledged, or an attempt was blocked.
    AckedStep,
    /// A checkpoint was made.
    Checkpoint,
}

impl EdgeKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AckedStep => "acked_step",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Why there is an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeCause {
    /// The reason.
    pub kind: EdgeCauseKind,
    /// The event behind it.
    pub event_id: EventId,
}

/// The reasons for an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeCauseKind {
    /// The first advance of a node.
    FirstAdvance,
    /// A call that was made before. Readable; never written.
    IdempotentReplay,
    /// A second attempt from a node, on purpose.
    IntentionalFork,
    /// An advance from a node that had moved on already.
    NonTipAdvance,
    /// A checkpoint was asked for.
    CheckpointCreated,
}

/// What an attempt wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvanceIntent {
    /// To acknowledge the pending step.
    AckPending,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AdvanceOutcome {
    /// It was blocked, and no node was made. Readable; a block is written as a node of its own.
    Blocked {
        /// What blocked it.
        blockers: BlockerReport,
    },
    /// There is a new node, of whatever kind.
    Advanced {
        /// Which one.
        to_node_id: NodeId,
    },
}

/// Why a caller left the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DivergenceReason {
    MissingUserContext,
    CapabilityUnavailable,
    EfficiencySkip,
    SafetyStop,
    PolicyConstraint,
}

/// Where a context came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextSource {
    /// The start of the run.
    Initial,
    /// A change that the caller sent.
    AgentDelta,
}

/// Why bytes are no event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not strictly.
    #[error("the record is not strict JSON")]
    Json {
        /// Where.
        #[source]
        cause: canon::json::ReadError,
    },
    /// Of a version that this program does not know.
    #[error("version {version} of the record is not known; this program reads version {known}")]
    UnknownVersion {
        /// The version given.
        version: u64,
        /// The version known.
        known: u8,
    },
    /// Not of the shape of its kind.
    #[error("the record does not have the shape of its kind")]
    Shape {
        /// What is wrong.
        #[source]
        cause: serde_json::Error,
    },
    /// Of the right shape, and breaking a rule.
    #[error("the record breaks a rule: {rule}")]
    Rule {
        /// Which one.
        rule: &'static str,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireScope {
    run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireEvent {
    v: u64,
    event_id: EventId,
    event_index: EventIndex,
    session_id: SessionId,
    kind: String,
    #[serde(default)]
    scope: Option<WireScope>,
    dedupe_key: DedupeKey,
    timestamp_ms: u64,
    data: Value,
}

impl Event {
    /// Reads one line of a segment.
    ///
    /// # Errors
    /// Anything but a whole event of a known version that keeps the rules of its kind.
    pub fn decode(line: &[u8]) -> Result<Self, DecodeError> {
        let value = canon::json::read(line, &canon::json::Limits::default())
            .map_err(|cause| DecodeError::Json { cause })?;
        Self::from_value(value)
    }

    /// Reads an event that is JSON already, as in a bundle.
    ///
    /// # Errors
    /// As [`Event::decode`].
    pub fn from_value(value: Value) -> Result<Self, DecodeError> {
        let shape = |cause| DecodeError::Shape { cause };
        let version = value.get("v").and_then(Value::as_u64).unwrap_or_default();
        if version != u64::from(EVENT_VERSION) {
            return Err(DecodeError::UnknownVersion { version, known: EVENT_VERSION });
        }
        let wire: WireEvent = serde_json::from_value(value).map_err(shape)?;
        debug_assert_eq!(wire.v, version);
        let tagged = Value::Object(Map::from_iter([
            ("kind".to_owned(), Value::String(wire.kind)),
            ("data".to_owned(), wire.data),
        ]));
        let event = Self {
            event_id: wire.event_id,
            event_index: wire.event_index,
            session_id: wire.session_id,
            scope: match wire.scope {
                None => Scope::Session,
                Some(WireScope { run_id, node_id: None }) => Scope::Run(run_id),
                Some(WireScope { run_id, node_id: Some(node_id) }) => Scope::Node(run_id, node_id),
            },
            dedupe_key: wire.dedupe_key,
            timestamp_ms: wire.timestamp_ms,
            data: serde_json::from_value(tagged).map_err(shape)?,
        };
        event.check()?;
        Ok(event)
    }

    /// The line of a segment, without its end.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an event is plain data, which always serialises")
    }

    /// The rules that the types do not carry: scopes and budgets.
    fn check(&self) -> Result<(), DecodeError> {
        use super::budgets;
        let rule = |holds: bool, rule| if holds { Ok(()) } else { Err(DecodeError::Rule { rule }) };
        rule(self.data.allows(&self.scope), "the scope does not fit the kind")?;
        match &self.data {
            EventData::NodeOutputAppended {
                payload: OutputPayload::Notes { notes_markdown, .. },
                output_channel,
                ..
            } => {
                rule(notes_markdown.len() <= budgets::NOTES_BYTES, "the notes exceed 4096 bytes")?;
                rule(*output_channel == OutputChannel::Recap, "notes belong into the recap channel")
            }
            EventData::NodeOutputAppended { output_channel, .. } => rule(
                *output_channel == OutputChannel::Artifact,
                "an artifact belongs into the artifact channel",
            ),
            EventData::PreferencesChanged { delta, .. } => {
                let twice = delta.len() == 2
                    && std::mem::discriminant(&delta[0]) == std::mem::discriminant(&delta[1]);
                rule(matches!(delta.len(), 1 | 2) && !twice, "a delta has one or two different keys")
            }
            EventData::GapRecorded { summary, .. } | EventData::DivergenceRecorded { summary, .. } => {
                rule(summary.len() <= budgets::SUMMARY_BYTES, "the summary exceeds 512 bytes")
            }
            EventData::DecisionTraceAppended { entries, .. } => {
                rule(
                    !entries.is_empty() && entries.len() <= budgets::TRACE_ENTRIES,
                    "a trace has 1 to 25 entries",
                )?;
                let within = entries.iter().all(|entry| {
                    entry.summary.len() <= budgets::TRACE_SUMMARY_BYTES
                        && entry.refs.len() <= budgets::TRACE_REFS
                });
                rule(within, "a trace entry exceeds its budget")
            }
            EventData::ObservationRecorded { value, .. } => match value {
                ObservationValue::ShortString(text) => rule(
                    text.chars().count() <= budgets::SHORT_STRING_CHARACTERS,
                    "a short string exceeds 80 characters",
                ),
                ObservationValue::Path(text) => {
                    rule(text.chars().count() <= budgets::PATH_CHARACTERS, "a path exceeds 512 characters")
                }
                ObservationValue::GitSha1(text) => rule(
                    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
                    "a git commit has 40 hexadecimal digits",
                ),
                ObservationValue::Sha256(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl EventData {
    /// The name of the kind on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session_created",
            Self::ObservationRecorded { .. } => "observation_recorded",
            Self::RunStarted { .. } => "run_started",
            Self::NodeCreated { .. } => "node_created",
            Self::EdgeCreated { .. } => "edge_created",
            Self::AdvanceRecorded { .. } => "advance_recorded",
            Self::NodeOutputAppended { .. } => "node_output_appended",
            Self::PreferencesChanged { .. } => "preferences_changed",
            Self::CapabilityObserved { .. } => "capability_observed",
            Self::GapRecorded { .. } => "gap_recorded",
            Self::DivergenceRecorded { .. } => "divergence_recorded",
            Self::DecisionTraceAppended { .. } => "decision_trace_appended",
            Self::ContextSet { .. } => "context_set",
            Self::ValidationPerformed { .. } => "validation_performed",
            Self::AssessmentRecorded { .. } => "assessment_recorded",
            Self::AssessmentConsequenceApplied { .. } => "assessment_consequence_applied",
            Self::RunCompleted { .. } => "run_completed",
        }
    }

    /// Whether an event of this kind may have this scope.
    pub const fn allows(&self, scope: &Scope) -> bool {
        match self {
            Self::SessionCreated { .. } => matches!(scope, Scope::Session),
            // Session-first; about a node only where that says more.
            Self::ObservationRecorded { .. } => matches!(scope, Scope::Session | Scope::Node(..)),
            Self::RunStarted { .. }
            | Self::EdgeCreated { .. }
            | Self::ContextSet { .. }
            | Self::RunCompleted { .. } => matches!(scope, Scope::Run(_)),
            Self::NodeCreated { .. }
            | Self::AdvanceRecorded { .. }
            | Self::NodeOutputAppended { .. }
            | Self::PreferencesChanged { .. }
            | Self::CapabilityObserved { .. }
            | Self::GapRecorded { .. }
            | Self::DivergenceRecorded { .. }
            | Self::DecisionTraceAppended { .. }
            | Self::ValidationPerformed { .. }
            | Self::AssessmentRecorded { .. }
            | Self::AssessmentConsequenceApplied { .. } => matches!(scope, Scope::Node(..)),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'e> {
            v: u8,
            event_id: &'e EventId,
            event_index: EventIndex,
            session_id: &'e SessionId,
            #[serde(skip_serializing_if = "Option::is_none")]
            scope: Option<WireScope>,
            dedupe_key: &'e DedupeKey,
            timestamp_ms: u64,
            #[serde(flatten)]
            data: &'e EventData,
        }
        let scope = match &self.scope {
            Scope::Session => None,
            Scope::Run(run) => Some(WireScope { run_id: run.clone(), node_id: None }),
            Scope::Node(run, node) => Some(WireScope { run_id: run.clone(), node_id: Some(node.clone()) }),
        };
        Wire {
            v: EVENT_VERSION,
            event_id: &self.event_id,
            event_index: self.event_index,
            session_id: &self.session_id,
            scope,
            dedupe_key: &self.dedupe_key,
            timestamp_ms: self.timestamp_ms,
            data: &self.data,
        }
        .serialize(serializer)
    }
}
