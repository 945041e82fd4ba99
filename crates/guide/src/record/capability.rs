//! What the caller can do, and how we know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepName;

/// An ability that a workflow may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Handing work to other agents.
    Delegation,
    /// Reading the web.
    WebBrowsing,
}

/// Whether an ability is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityStatus {
    /// Nobody has looked.
    Unknown,
    /// It works.
    Available,
    /// It does not.
    Unavailable,
}

/// How much an observation is worth. Follows from its kind; recorded for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementGrade {
    /// It was tried.
    Strong,
    /// Somebody said so, which unlocks nothing that is required.
    Weak,
}

/// How a capability was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Provenance {
    /// A probe step tried it.
    ProbeStep {
        /// Always strong.
        enforcement_grade: EnforcementGrade,
        /// What was tried.
        detail: ProbeDetail,
    },
    /// A step that needed it tried it.
    AttemptedUse {
        /// Always strong.
        enforcement_grade: EnforcementGrade,
        /// What was tried.
        detail: UseDetail,
    },
    /// Somebody claims it.
    ManualClaim {
        /// Always weak.
        enforcement_grade: EnforcementGrade,
        /// What is claimed.
        detail: ClaimDetail,
    },
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeDetail {
    /// The template that the probe came from.
    pub probe_template_id: String,
    /// The step that probed.
    pub probe_step_id: StepName,
    /// What came of it.
    pub result: UseResult,
}

/// A use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UseDetail {
    /// Who tried.
    pub attempt_context: AttemptContext,
    /// What came of it.
    pub result: UseResult,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimDetail {
    /// Who claims.
    pub claimed_by: ClaimedBy,
    /// What is claimed.
    pub claim: ClaimedStatus,
}

/// Who tried to use a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptContext {
    /// A step of the workflow.
    WorkflowStep,
    /// The system itself.
    SystemProbe,
}

/// What came of trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseResult {
    /// It worked.
    Success,
    /// It did not.
    Failure,
}

/// Why trying failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// There is no such tool.
    ToolMissing,
    /// The tool failed.
    ToolError,
    /// A rule forbids it.
    PolicyBlocked,
    /// Nobody knows.
    Unknown,
}

/// Who claims something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedBy {
    /// The agent.
    Agent,
    /// The user.
    User,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedStatus {
    /// It works.
    Available,
    /// It does not.
    Unavailable,
}
