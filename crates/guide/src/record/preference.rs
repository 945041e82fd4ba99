//! How far a run may go on its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the engine stops for a person. Ordered: a later one is more autonomous.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Autonomy {
    /// A person follows along.
    #[default]
    Guided,
    /// On its own, except where only the user can help.
    FullAutoStopOnUserDeps,
    /// Never stops: what is missing is recorded as a critical gap.
    FullAutoNeverStop,
}

/// How much a run risks between correct paths. Ordered: a later one is bolder.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RiskPolicy {
    /// Stop when in doubt.
    #[default]
    Conservative,
    /// An unknown capability is a warning.
    Balanced,
    /// A missing capability is a warning.
    Aggressive,
}

/// The preferences in force at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferences {
    /// When to stop.
    pub autonomy: Autonomy,
    /// What to risk.
    pub risk_policy: RiskPolicy,
}

/// One changed preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "key", content = "value", rename_all = "camelCase", deny_unknown_fields)]
pub enum PreferenceChange {
    /// When to stop.
    Autonomy(Autonomy),
    /// What to risk.
    RiskPolicy(RiskPolicy),
}

/// Who changed a preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferenceSource {
    /// The caller, on behalf of the user.
    User,
    /// The workflow recommends it.
    WorkflowRecommendation,
    /// The engine's default.
    System,
}
