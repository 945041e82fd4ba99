//! The configuration of guided nodes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::MAX_MILLISECONDS;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How independently the agent works.
    pub enum Autonomy {
        Guided => "guided",
        /// Until it needs something that only the user can provide.
        StopOnUserDeps => "full_auto_stop_on_user_deps",
        NeverStop => "full_auto_never_stop",
    }
}

wire_enum! {
    pub enum RiskPolicy {
        Conservative => "conservative",
        Balanced => "balanced",
        Aggressive => "aggressive",
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferences {
    pub autonomy: Option<Autonomy>,
    pub risk_policy: Option<RiskPolicy>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Manifest {
    /// A path below the host's manifest directory.
    File(#[schemars(length(min = 1, max = 1024))] String),
    Inline(Map<String, Value>),
}

/// `interlock.guided`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GuidedConfig {
    /// The agent that the host starts for the session, by its name in the host's settings. Without it, the run waits for an agent
    /// that connects.
    #[schemars(length(min = 1, max = 64))]
    pub agent: Option<String>,
    /// Limited, because the agent receives it with every step.
    #[schemars(length(min = 1, max = 4096))]
    pub goal: Option<String>,
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// The directory with the files of the manifest, below the host's library directory.
    #[schemars(length(min = 1, max = 1024))]
    pub library: Option<String>,
    pub manifest: Option<Manifest>,
    #[serde(default)]
    pub preferences: Preferences,
    #[schemars(range(min = 0, max = MAX_MILLISECONDS))]
    pub timeout_ms: Option<f64>,
    #[schemars(length(min = 1, max = 128))]
    pub workflow: String,
}
