//! Gaps: what a run continued without. They are disclosed permanently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventId, GapId, OutputId};

/// The severity of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapSeverity {
    /// For information.
    Info,
    /// Should be fixed.
    Warning,
    /// Without it, the result is not trustworthy.
    Critical,
}

/// What only the user can provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserOnlyDependency {
    /// A secret.
    NeedsUserSecretOrToken,
    /// Access to an account.
    NeedsUserAccountAccess,
    /// A file or other artifact.
    NeedsUserArtifact,
    /// A choice that the agent must not assume.
    NeedsUserChoice,
    /// An approval.
    NeedsUserApproval,
    /// An action on the user's machine.
    NeedsUserEnvironmentAction,
}

impl UserOnlyDependency {
    /// All values with their wire names.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("needs_user_account_access", Self::NeedsUserAccountAccess),
        ("needs_user_approval", Self::NeedsUserApproval),
        ("needs_user_artifact", Self::NeedsUserArtifact),
        ("needs_user_choice", Self::NeedsUserChoice),
        ("needs_user_environment_action", Self::NeedsUserEnvironmentAction),
        ("needs_user_secret_or_token", Self::NeedsUserSecretOrToken),
    ];
}

/// Why a choice must not be assumed. The author of a workflow states it for every user choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NonAssumableChoiceKind {
    /// Both options are valid but have different costs for the user.
    PreferenceTradeoff,
    /// Whether something belongs to the task.
    ScopeBoundary,
    /// Something that cannot be undone.
    IrreversibleAction,
    /// Something that others see or pay for.
    ExternalSideEffect,
    /// A rule that the user is responsible for.
    PolicyOrCompliance,
}

impl NonAssumableChoiceKind {
    /// All values with their wire names.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("external_side_effect", Self::ExternalSideEffect),
        ("irreversible_action", Self::IrreversibleAction),
        ("policy_or_compliance", Self::PolicyOrCompliance),
        ("preference_tradeoff", Self::PreferenceTradeoff),
        ("scope_boundary", Self::ScopeBoundary),
    ];
}

/// Why a gap exists: a category with its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum GapReason {
    /// Only the user could have provided it.
    UserOnlyDependency(UserOnlyDependency),
    /// An output was missing or invalid.
    ContractViolation(GapDetail),
    /// A capability was missing.
    CapabilityMissing(GapDetail),
    /// Something unexpected happened.
    Unexpected(GapDetail),
}

/// The details of the categories other than user-only dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapDetail {
    /// Contract violation.
    MissingRequiredOutput,
    /// Contract violation.
    InvalidRequiredOutput,
    /// Contract violation.
    MissingRequiredNotes,
    /// Contract violation.
    AssessmentFollowupRequired,
    /// Missing capability.
    RequiredCapabilityUnavailable,
    /// Missing capability.
    RequiredCapabilityUnknown,
    /// Unexpected; also loop limits and missing context keys.
    InvariantViolation,
    /// Unexpected.
    StorageCorruptionDetected,
    /// Unexpected: a rule cannot be evaluated.
    EvaluationError,
    /// Unexpected: the preferences exceed the workflow's recommendation.
    PreferencesExceedRecommendation,
}

/// Whether a gap record closes an earlier gap. Recorded gaps never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum GapResolution {
    /// An open gap.
    Unresolved,
    /// It closes another gap.
    Resolves { resolves_gap_id: GapId },
}

/// The evidence for a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum EvidenceRef {
    /// An event.
    Event { event_id: EventId },
    /// An output.
    Output { output_id: OutputId },
}
