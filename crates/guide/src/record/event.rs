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

/// One event of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Derived from the session and the index.
    pub event_id: EventId,
    /// The position in the session. It alone defines the order.
    pub event_index: EventIndex,
    pub session_id: SessionId,
    /// The run and node that the event is about, as its kind requires.
    pub scope: Scope,
    /// Each key occurs at most once.
    pub dedupe_key: DedupeKey,
    /// When it was recorded, in milliseconds since 1970. Informational: it never defines an order.
    pub timestamp_ms: u64,
    /// The kind and payload.
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
    /// The run, if any.
    pub const fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Session => None,
            Self::Run(run) | Self::Node(run, _) => Some(run),
        }
    }

    /// The node, if any.
    pub const fn node_id(&self) -> Option<&NodeId> {
        match self {
            Self::Node(_, node) => Some(node),
            Self::Session | Self::Run(_) => None,
        }
    }
}

/// The kinds of events with their payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    content = "data",
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum EventData {
    /// The session exists. The following events describe it.
    SessionCreated {
        /// The session that delegated this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session_id: Option<SessionId>,
    },
    /// An observation of the workspace, used to find the session again.
    ObservationRecorded {
        /// What was observed.
        key: ObservationKey,
        value: ObservationValue,
        /// How reliable the observation is.
        confidence: Confidence,
    },
    /// A run started, pinned to a compiled workflow.
    RunStarted {
        workflow_id: String,
        /// The pinned workflow. Later changes of the source do not affect the run.
        #[schemars(with = "String")]
        workflow_hash: WorkflowHash,
        /// Where the source came from.
        workflow_source_kind: WorkflowSourceKind,
        /// The source; its meaning depends on the kind.
        workflow_source_ref: String,
    },
    /// A node of the run's graph, with the state to continue from.
    NodeCreated {
        node_kind: NodeKind,
        /// The parent node; only the root has none.
        parent_node_id: Option<NodeId>,
        /// The run's pinned workflow, repeated.
        #[schemars(with = "String")]
        workflow_hash: WorkflowHash,
        /// The state.
        snapshot_ref: SnapshotRef,
    },
    /// An edge from a node to its child.
    EdgeCreated {
        edge_kind: EdgeKind,
        from_node_id: NodeId,
        to_node_id: NodeId,
        /// Why the edge exists.
        cause: EdgeCause,
    },
    /// The outcome of an attempt to advance.
    AdvanceRecorded {
        attempt_id: AttemptId,
        /// Always to acknowledge the pending step.
        intent: AdvanceIntent,
        outcome: AdvanceOutcome,
    },
    /// An output of a step.
    NodeOutputAppended {
        output_id: OutputId,
        /// The output of the same node and channel that it corrects.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supersedes_output_id: Option<OutputId>,
        output_channel: OutputChannel,
        payload: OutputPayload,
    },
    /// The preferences that apply from this node on.
    PreferencesChanged {
        /// The id of the change.
        change_id: String,
        /// Who requested it.
        source: PreferenceSource,
        /// What changed: at least one preference, no key twice.
        #[schemars(length(min = 1, max = 2))]
        delta: Vec<PreferenceChange>,
        /// All preferences after the change.
        effective: Preferences,
    },
    /// An observation of a capability.
    CapabilityObserved {
        /// The id of the observation.
        cap_obs_id: String,
        capability: Capability,
        status: CapabilityStatus,
        /// How it was observed.
        provenance: Provenance,
    },
    /// Something is missing, and the run continues without it.
    GapRecorded {
        gap_id: GapId,
        severity: GapSeverity,
        /// Why the gap exists.
        reason: GapReason,
        /// What is missing.
        summary: String,
        /// The subject, as in the blocker of the same reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pointer: Option<Pointer>,
        /// Whether it closes an earlier gap.
        resolution: GapResolution,
        /// The evidence for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        evidence_refs: Vec<EvidenceRef>,
    },
    /// The caller deliberately deviated from the workflow.
    DivergenceRecorded {
        /// The id of the divergence.
        divergence_id: String,
        reason: DivergenceReason,
        /// The explanation.
        summary: String,
        /// The step that it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        related_step_id: Option<StepName>,
    },
    /// Why the engine decided as it did.
    DecisionTraceAppended {
        trace_id: TraceId,
        /// The decisions.
        #[schemars(length(min = 1, max = 25))]
        entries: Vec<TraceEntry>,
    },
    /// The complete context of a run after a change.
    ContextSet {
        /// The id of this version of the context.
        context_id: ContextId,
        /// The merged context.
        context: Map<String, Value>,
        /// Where the change came from.
        source: ContextSource,
        /// The keys of the pending step that a blocked attempt sent with the value that they already had. The
        /// retry need not send them again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resent_keys: Vec<String>,
    },
    /// The validation of an output.
    ValidationPerformed {
        /// The id of the validation.
        validation_id: String,
        /// The attempt that it belongs to.
        attempt_id: AttemptId,
        /// The contract, or `wr.validationCriteria`.
        contract_ref: String,
        result: ValidationResult,
    },
    /// An assessment.
    AssessmentRecorded {
        assessment_id: String,
        /// The attempt that it belongs to.
        attempt_id: AttemptId,
        /// The output that contains it.
        artifact_output_id: OutputId,
        /// The summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// What was normalized.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        normalization_notes: Vec<String>,
        /// The level of each dimension.
        dimensions: Vec<AssessedDimension>,
    },
    /// An assessment requires more work.
    AssessmentConsequenceApplied {
        /// The attempt that it belongs to.
        attempt_id: AttemptId,
        assessment_id: String,
        /// The dimension and level that triggered it.
        trigger: BTreeMap<String, String>,
        /// The required work.
        guidance: String,
    },
    /// A run is complete.
    RunCompleted {
        /// The last node of the completed branch.
        tip_node_id: NodeId,
        /// The number of open critical gaps.
        open_critical_gaps: u32,
    },
}

/// What was observed in a workspace.
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

/// An observed value with its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ObservationValue {
    /// A short string.
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
    /// The value as a string.
    pub fn text(&self) -> String {
        match self {
            Self::ShortString(text) | Self::GitSha1(text) | Self::Path(text) => text.clone(),
            Self::Sha256(digest) => digest.to_string(),
        }
    }
}

/// How reliable an observation is.
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
    /// A folder that was attached or configured, or a git repository; the `category` of the source says which.
    Remote,
    /// A plugin.
    Plugin,
}

/// The kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A step is pending, or the run is complete.
    Step,
    /// A checkpoint; the same step is still pending.
    Checkpoint,
    /// A blocked attempt; the same step is still pending.
    BlockedAttempt,
}

/// The kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// A step was acknowledged, or an attempt was blocked.
    AckedStep,
    /// A checkpoint was created.
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

/// Why an edge exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeCause {
    pub kind: EdgeCauseKind,
    /// The event that caused it.
    pub event_id: EventId,
}

/// The causes of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeCauseKind {
    /// The first advance of a node.
    FirstAdvance,
    /// A repeated call. Readable, but never written.
    IdempotentReplay,
    /// A deliberate second attempt from a node.
    IntentionalFork,
    /// An advance from a node that already has later steps.
    NonTipAdvance,
    /// A checkpoint was requested.
    CheckpointCreated,
}

/// The intent of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvanceIntent {
    /// To acknowledge the pending step.
    AckPending,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AdvanceOutcome {
    /// Blocked without a new node. Readable, but no longer written: a block is now a node.
    Blocked { blockers: BlockerReport },
    /// A new node of any kind was created.
    Advanced { to_node_id: NodeId },
}

/// Why a caller deviated from the workflow.
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

/// Why bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not strict JSON.
    #[error("the record is not strict JSON")]
    Json {
        /// The JSON error with its position.
        #[source]
        cause: canon::json::ReadError,
    },
    /// The version is unknown.
    #[error("unknown record version {version}; this program reads version {known}")]
    UnknownVersion {
        /// The version in the record.
        version: u64,
        /// The supported version.
        known: u8,
    },
    /// A field is missing, unknown or has the wrong type.
    #[error("the record has an invalid structure for its kind")]
    Shape {
        #[source]
        cause: serde_json::Error,
    },
    /// A rule is violated.
    #[error("the record is invalid: {rule}")]
    Rule {
        /// The rule.
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
    /// Decodes one line of a segment.
    ///
    /// # Errors
    /// The line is not a complete event of a known version that satisfies the rules of its kind.
    pub fn decode(line: &[u8]) -> Result<Self, DecodeError> {
        let value = canon::json::read(line, &canon::json::Limits::default())
            .map_err(|cause| DecodeError::Json { cause })?;
        Self::from_value(value)
    }

    /// Decodes an event from a JSON value, as in a bundle.
    ///
    /// # Errors
    /// The errors of [`Event::decode`].
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

    /// The line of a segment, without its line end.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an event is plain data, which always serialises")
    }

    /// Checks the rules that the types do not express: scopes and budgets.
    fn check(&self) -> Result<(), DecodeError> {
        use super::budgets;
        let rule = |holds: bool, rule| if holds { Ok(()) } else { Err(DecodeError::Rule { rule }) };
        rule(self.data.allows(&self.scope), "the scope is not allowed for the kind")?;
        match &self.data {
            EventData::NodeOutputAppended {
                payload: OutputPayload::Notes { notes_markdown, .. },
                output_channel,
                ..
            } => {
                rule(notes_markdown.len() <= budgets::NOTES_BYTES, "the notes exceed 4096 bytes")?;
                rule(*output_channel == OutputChannel::Recap, "notes must be in the recap channel")
            }
            EventData::NodeOutputAppended { output_channel, .. } => rule(
                *output_channel == OutputChannel::Artifact,
                "an artifact must be in the artifact channel",
            ),
            EventData::PreferencesChanged { delta, .. } => {
                let twice = delta.len() == 2
                    && std::mem::discriminant(&delta[0]) == std::mem::discriminant(&delta[1]);
                rule(matches!(delta.len(), 1 | 2) && !twice, "a delta must have one or two different keys")
            }
            EventData::GapRecorded { summary, .. } | EventData::DivergenceRecorded { summary, .. } => {
                rule(summary.len() <= budgets::SUMMARY_BYTES, "the summary exceeds 512 bytes")
            }
            EventData::DecisionTraceAppended { entries, .. } => {
                rule(
                    !entries.is_empty() && entries.len() <= budgets::TRACE_ENTRIES,
                    "a trace must have 1 to 25 entries",
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
                    "a git commit must have 40 hexadecimal digits",
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
            // About the session; about a node only if that adds information.
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
