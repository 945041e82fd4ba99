//! Capabilities of the caller, and how they were observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepName;

/// A capability that a workflow may require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Delegating work to other agents.
    Delegation,
    /// Reading the web.
    WebBrowsing,
}

/// Whether a capability is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityStatus {
    /// Not observed yet.
    Unknown,
    Available,
    Unavailable,
}

/// How reliable an observation is. It is determined by the provenance and recorded for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementGrade {
    /// The capability was tested.
    Strong,
    /// The capability was only claimed. That does not satisfy a requirement.
    Weak,
}

/// How a capability was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Provenance {
    /// A probe step tested it.
    ProbeStep {
        /// Always strong.
        enforcement_grade: EnforcementGrade,
        detail: ProbeDetail,
    },
    /// A step that needed it used it.
    AttemptedUse {
        /// Always strong.
        enforcement_grade: EnforcementGrade,
        detail: UseDetail,
    },
    /// The agent or the user claims it.
    ManualClaim {
        /// Always weak.
        enforcement_grade: EnforcementGrade,
        detail: ClaimDetail,
    },
}

/// The details of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeDetail {
    /// The template of the probe step.
    pub probe_template_id: String,
    /// The probe step.
    pub probe_step_id: StepName,
    pub result: UseResult,
}

/// The details of an attempted use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UseDetail {
    /// Who used it.
    pub attempt_context: AttemptContext,
    pub result: UseResult,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
}

/// The details of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimDetail {
    pub claimed_by: ClaimedBy,
    pub claim: ClaimedStatus,
}

/// Who used a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptContext {
    /// A step of the workflow.
    WorkflowStep,
    /// The system itself.
    SystemProbe,
}

/// The result of using a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UseResult {
    Success,
    Failure,
}

/// Why using a capability failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The tool does not exist.
    ToolMissing,
    /// The tool failed.
    ToolError,
    /// A policy forbids it.
    PolicyBlocked,
    Unknown,
}

/// Who claims a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedBy {
    Agent,
    User,
}

/// The claimed status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedStatus {
    Available,
    Unavailable,
}
