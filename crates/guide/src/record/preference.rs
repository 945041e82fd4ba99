//! How autonomously a run proceeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the engine stops for a person. Ordered from least to most autonomous.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Autonomy {
    /// A person follows along.
    #[default]
    Guided,
    /// Stops only when the user is needed.
    FullAutoStopOnUserDeps,
    /// Never stops: anything missing is recorded as a critical gap.
    FullAutoNeverStop,
}

/// How much risk a run takes. Ordered from least to most.
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

/// The preferences that apply at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferences {
    pub autonomy: Autonomy,
    pub risk_policy: RiskPolicy,
}

/// One changed preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "key", content = "value", rename_all = "camelCase", deny_unknown_fields)]
pub enum PreferenceChange {
    Autonomy(Autonomy),
    RiskPolicy(RiskPolicy),
}

/// Who requested a change of preferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferenceSource {
    /// The caller, on behalf of the user.
    User,
    /// The recommendation of the workflow.
    WorkflowRecommendation,
    /// The engine's default.
    System,
}
