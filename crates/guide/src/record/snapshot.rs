//! The state to continue from: minimal, typed, and without projections.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::step_set::StepSet;
use super::{AttemptId, BlockerReport, Capability, DecodeError, DelimiterSafe, StepName, UserOnlyDependency};

/// The version of the snapshot format, both of the file and of its payload.
pub const SNAPSHOT_VERSION: u8 = 1;

/// The reference of a snapshot: the digest of its canonical JSON, independent of how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SnapshotRef(#[schemars(with = "String")] pub Digest);

impl fmt::Display for SnapshotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A complete snapshot, as it is exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionSnapshot {
    pub v: u8,
    /// Always `execution_snapshot`.
    pub kind: SnapshotKind,
    /// The state.
    pub engine_payload: EnginePayload,
}

/// The kind of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// The only kind.
    ExecutionSnapshot,
}

/// The state, with its own version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnginePayload {
    pub v: u8,
    pub engine_state: EngineState,
}

/// The position of a run in its workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EngineState {
    /// No step was selected yet.
    Init,
    /// A step is pending.
    Running(Running),
    /// A step is pending, and the last attempt was blocked.
    Blocked(Blocked),
    /// All steps are done.
    Complete,
}

/// The state of a run with a pending step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Running {
    /// The completed step instances.
    pub completed: CompletedSteps,
    /// The loops around the pending step, outermost first.
    pub loop_stack: Vec<LoopFrame>,
    pub pending: Pending,
}

/// The state of a run whose last attempt was blocked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blocked {
    /// The completed step instances.
    pub completed: CompletedSteps,
    /// The loops around the pending step, outermost first.
    pub loop_stack: Vec<LoopFrame>,
    pub pending: Pending,
    pub blocked: Block,
}

/// The set of completed step instances, sorted by key in byte order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename = "set")]
pub struct CompletedSteps {
    pub values: StepSet,
}

/// Whether a step is pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pending {
    /// No step is pending.
    #[default]
    None,
    /// A step is pending.
    Some { step: PendingStep },
}

/// A pending step instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PendingStep {
    pub step_id: StepName,
    /// The loops around it, outermost first; always equal to the loop stack.
    pub loop_path: Vec<LoopPathEntry>,
}

/// One loop around a step instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopPathEntry {
    pub loop_id: DelimiterSafe,
    /// The zero-based iteration.
    pub iteration: u32,
}

/// One loop on the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopFrame {
    pub loop_id: DelimiterSafe,
    /// The zero-based iteration.
    pub iteration: u32,
    /// The zero-based index of the current item in the body.
    pub body_index: u32,
}

/// Why an attempt was blocked, and whether a retry can succeed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Block {
    /// A retry with better output can succeed.
    RetryableBlock {
        /// The first reason.
        reason: BlockReason,
        /// The id of the next attempt.
        retry_attempt_id: AttemptId,
        /// The validation that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation_ref: Option<String>,
        /// All reasons.
        blockers: BlockerReport,
    },
    /// No retry can succeed.
    TerminalBlock {
        /// The first reason.
        reason: BlockReason,
        /// The validation that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation_ref: Option<String>,
        /// All reasons.
        blockers: BlockerReport,
    },
}

impl Block {
    /// All reasons, retryable or not.
    pub const fn blockers(&self) -> &BlockerReport {
        match self {
            Self::RetryableBlock { blockers, .. } | Self::TerminalBlock { blockers, .. } => blockers,
        }
    }
}

/// Why an attempt was blocked: the common model of blockers and gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum BlockReason {
    /// Retryable.
    InvalidRequiredOutput { contract_ref: String },
    /// Retryable.
    MissingRequiredOutput { contract_ref: String },
    /// Retryable.
    AssessmentFollowupRequired {
        assessment_id: String,
        dimension_id: String,
        level: String,
        guidance: String,
    },
    /// Retryable.
    MissingContextKey { key: DelimiterSafe },
    /// Retryable.
    ContextBudgetExceeded,
    /// Retryable.
    MissingNotes { step_id: StepName },
    /// Retryable, by stopping the loop.
    LoopLimitReached { loop_id: DelimiterSafe, iteration: u32, max_iterations: u32 },
    /// Retryable, with the user's answer.
    UserOnlyDependency { detail: UserOnlyDependency, step_id: StepName },
    /// Terminal.
    RequiredCapabilityUnknown { capability: Capability },
    /// Terminal.
    RequiredCapabilityUnavailable { capability: Capability },
    /// Terminal.
    InvariantViolation,
    /// Terminal.
    StorageCorruptionDetected,
    /// Terminal: the author's rule cannot be evaluated.
    EvaluationError,
}

/// The key of a step instance: `stepId`, or `loopId@iteration/…::stepId` within loops.
///
/// Shared, because every snapshot of a run contains all keys of the previous one: adding a step must not copy
/// all keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct StepInstanceKey(#[schemars(with = "String")] Arc<str>);

impl StepInstanceKey {
    /// The key of a step inside the given loops.
    pub fn new(step_id: &str, loop_path: &[LoopPathEntry]) -> Self {
        if loop_path.is_empty() {
            return Self(step_id.into());
        }
        let path: Vec<String> =
            loop_path.iter().map(|entry| format!("{}@{}", entry.loop_id, entry.iteration)).collect();
        Self(format!("{}::{step_id}", path.join("/")).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether two keys are equal. Fast for keys that snapshots share.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self == other
    }
}

impl Borrow<str> for StepInstanceKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for StepInstanceKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for StepInstanceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(deserializer)?.into()))
    }
}

impl ExecutionSnapshot {
    pub const fn new(state: EngineState) -> Self {
        Self {
            v: SNAPSHOT_VERSION,
            kind: SnapshotKind::ExecutionSnapshot,
            engine_payload: EnginePayload { v: SNAPSHOT_VERSION, engine_state: state },
        }
    }

    pub const fn state(&self) -> &EngineState {
        &self.engine_payload.engine_state
    }

    /// The digest of its canonical JSON.
    pub fn snapshot_ref(&self) -> SnapshotRef {
        SnapshotRef(Digest::of_canonical(self).expect("a snapshot has small numbers and bounded depth"))
    }

    /// Decodes a complete snapshot.
    ///
    /// # Errors
    /// The value is not a snapshot of a known version with a valid state.
    pub fn from_value(value: Value) -> Result<Self, DecodeError> {
        for version in [value.get("v"), value.pointer("/enginePayload/v")] {
            let version = version.and_then(Value::as_u64).unwrap_or_default();
            if version != u64::from(SNAPSHOT_VERSION) {
                return Err(DecodeError::UnknownVersion { version, known: SNAPSHOT_VERSION });
            }
        }
        let snapshot: Self = serde_json::from_value(value).map_err(|cause| DecodeError::Shape { cause })?;
        snapshot.state().check()?;
        Ok(snapshot)
    }
}

impl EngineState {
    /// The pending step, if any.
    pub const fn pending(&self) -> Option<&PendingStep> {
        let pending = match self {
            Self::Init | Self::Complete => return None,
            Self::Running(running) => &running.pending,
            Self::Blocked(blocked) => &blocked.pending,
        };
        match pending {
            Pending::Some { step } => Some(step),
            Pending::None => None,
        }
    }

    /// Whether all steps are done.
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Completed steps and loop stack, if a step is pending.
    pub const fn progress(&self) -> Option<(&CompletedSteps, &Vec<LoopFrame>)> {
        match self {
            Self::Init | Self::Complete => None,
            Self::Running(running) => Some((&running.completed, &running.loop_stack)),
            Self::Blocked(blocked) => Some((&blocked.completed, &blocked.loop_stack)),
        }
    }

    /// Rejects invalid states: a pending step that is completed, a loop twice on the stack, or a path that
    /// differs from the stack.
    fn check(&self) -> Result<(), DecodeError> {
        let rule = |holds: bool, rule| if holds { Ok(()) } else { Err(DecodeError::Rule { rule }) };
        let Some((completed, stack)) = self.progress() else { return Ok(()) };
        let loops: BTreeSet<_> = stack.iter().map(|frame| &frame.loop_id).collect();
        rule(loops.len() == stack.len(), "a loop is on the stack twice")?;
        let Some(step) = self.pending() else { return Ok(()) };
        let on_path = step.loop_path.iter().map(|entry| (&entry.loop_id, entry.iteration));
        let on_stack = stack.iter().map(|frame| (&frame.loop_id, frame.iteration));
        rule(on_path.eq(on_stack), "the path of the pending step differs from the loop stack")?;
        let key = StepInstanceKey::new(step.step_id.as_str(), &step.loop_path);
        rule(!completed.values.contains(key.as_str()), "the pending step is already completed")
    }
}
