//! What a run went on without, disclosed for good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventId, GapId, OutputId};

/// How bad a gap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapSeverity {
    /// Worth knowing.
    Info,
    /// Worth mending.
    Warning,
    /// The result cannot be trusted without it.
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
    /// A choice that nobody may assume.
    NeedsUserChoice,
    /// A yes.
    NeedsUserApproval,
    /// Something done on the user's machine.
    NeedsUserEnvironmentAction,
}

impl UserOnlyDependency {
    /// Every one, with its name on the wire.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("needs_user_account_access", Self::NeedsUserAccountAccess),
        ("needs_user_approval", Self::NeedsUserApproval),
        ("needs_user_artifact", Self::NeedsUserArtifact),
        ("needs_user_choice", Self::NeedsUserChoice),
        ("needs_user_environment_action", Self::NeedsUserEnvironmentAction),
        ("needs_user_secret_or_token", Self::NeedsUserSecretOrToken),
    ];
}

/// Why a choice may not be assumed: whoever marks a choice as the user's says which of these it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NonAssumableChoiceKind {
    /// Both ways are right, and cost the user different things.
    PreferenceTradeoff,
    /// What belongs to the task, and what does not.
    ScopeBoundary,
    /// Something that cannot be taken back.
    IrreversibleAction,
    /// Something that others see or pay for.
    ExternalSideEffect,
    /// A rule that the user answers for.
    PolicyOrCompliance,
}

impl NonAssumableChoiceKind {
    /// Every one, with its name on the wire.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("external_side_effect", Self::ExternalSideEffect),
        ("irreversible_action", Self::IrreversibleAction),
        ("policy_or_compliance", Self::PolicyOrCompliance),
        ("preference_tradeoff", Self::PreferenceTradeoff),
        ("scope_boundary", Self::ScopeBoundary),
    ];
}

/// Why there is a gap: a category, and its closed detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum GapReason {
    /// Only the user could have helped.
    UserOnlyDependency(UserOnlyDependency),
    /// An output was missing or wrong.
    ContractViolation(GapDetail),
    /// An ability was missing.
    CapabilityMissing(GapDetail),
    /// Something that should not happen.
    Unexpected(GapDetail),
}

/// The details of the categories other than user-only dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapDetail {
    /// Of contracts.
    MissingRequiredOutput,
    /// Of contracts.
    InvalidRequiredOutput,
    /// Of contracts.
    MissingRequiredNotes,
    /// Of contracts.
    AssessmentFollowupRequired,
    /// Of capabilities.
    RequiredCapabilityUnavailable,
    /// Of capabilities.
    RequiredCapabilityUnknown,
    /// Of the unexpected; also loop limits and missing context.
    InvariantViolation,
    /// Of the unexpected.
    StorageCorruptionDetected,
    /// Of the unexpected: a rule that could not be evaluated.
    EvaluationError,
    /// Of the unexpected: preferences go beyond what the workflow recommends.
    PreferencesExceedRecommendation,
}

/// Whether a gap closes an earlier one. Gaps themselves never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum GapResolution {
    /// It is open.
    Unresolved,
    /// It closes another.
    Resolves {
        /// Which one.
        resolves_gap_id: GapId,
    },
}

/// What a gap is based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum EvidenceRef {
    /// An event.
    Event { event_id: EventId },
    /// An output.
    Output { output_id: OutputId },
}
