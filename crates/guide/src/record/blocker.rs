//! Why an advance is blocked, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capability, DelimiterSafe, StepName};

/// The kinds of blocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BlockerCode {
    /// An assessment requires more work.
    AssessmentFollowupRequired,
    /// The context is too large.
    ContextBudgetExceeded,
    /// An output does not match its contract.
    InvalidRequiredOutput,
    /// An invariant is violated.
    InvariantViolation,
    /// A loop reached its limit of iterations.
    LoopLimitReached,
    /// A context key is missing.
    MissingContextKey,
    /// The step requires notes.
    MissingRequiredNotes,
    /// The step requires an output.
    MissingRequiredOutput,
    /// A required capability is unavailable.
    RequiredCapabilityUnavailable,
    /// It is unknown whether a required capability is available.
    RequiredCapabilityUnknown,
    /// The store is damaged.
    StorageCorruptionDetected,
    /// Only the user can resolve it.
    UserOnlyDependency,
}

/// The subject of a blocker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Pointer {
    /// A dimension of an assessment.
    AssessmentDimension { assessment_id: String, dimension_id: String },
    /// A capability.
    Capability { capability: Capability },
    /// The size of the context.
    ContextBudget,
    /// A key of the context.
    ContextKey { key: DelimiterSafe },
    /// A loop at its limit.
    Loop { loop_id: DelimiterSafe, iteration: u32, max_iterations: u32 },
    /// A contract.
    OutputContract { contract_ref: String },
    /// The session as a whole.
    Session,
    /// A step.
    WorkflowStep { step_id: StepName },
}

/// One reason why an advance is blocked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blocker {
    /// The kind of blocker.
    pub code: BlockerCode,
    /// The subject.
    pub pointer: Pointer,
    /// What is wrong, within its budget.
    pub message: String,
    /// What to do, within its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_fix: Option<String>,
}

/// Everything that blocks an advance: one to ten blockers, ordered by code and pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RawReport", into = "RawReport")]
#[schemars(with = "RawReport")]
pub struct BlockerReport(Vec<Blocker>);

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawReport {
    #[schemars(length(min = 1, max = 10))]
    blockers: Vec<Blocker>,
}

/// Why a list of blockers is not a valid report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Empty, or too many.
    #[error("a report must have 1 to {} blockers, not {measured}", super::budgets::BLOCKERS)]
    Count {
        /// The number of blockers.
        measured: usize,
    },
    /// A text exceeds its budget. Nothing is truncated silently; the code that wrote it must fix it.
    #[error("the {field} of a blocker has {measured} bytes; the limit is {maximum}")]
    OverBudget {
        /// The field.
        field: &'static str,
        /// Its length in bytes.
        measured: usize,
        /// The limit.
        maximum: usize,
    },
}

impl BlockerReport {
    /// Sorts the blockers and checks the budgets.
    ///
    /// # Errors
    /// A budget is exceeded.
    pub fn new(mut blockers: Vec<Blocker>) -> Result<Self, ReportError> {
        use super::budgets::{BLOCKER_MESSAGE_BYTES, BLOCKERS, SUGGESTED_FIX_BYTES};
        if blockers.is_empty() || blockers.len() > BLOCKERS {
            return Err(ReportError::Count { measured: blockers.len() });
        }
        for blocker in &blockers {
            let fix = blocker.suggested_fix.as_deref().unwrap_or_default();
            for (field, text, maximum) in [
                ("message", blocker.message.as_str(), BLOCKER_MESSAGE_BYTES),
                ("suggestedFix", fix, SUGGESTED_FIX_BYTES),
            ] {
                if text.len() > maximum {
                    return Err(ReportError::OverBudget { field, measured: text.len(), maximum });
                }
            }
        }
        blockers.sort();
        Ok(Self(blockers))
    }

    /// The blockers, sorted.
    pub fn blockers(&self) -> &[Blocker] {
        &self.0
    }
}

impl TryFrom<RawReport> for BlockerReport {
    type Error = ReportError;

    fn try_from(raw: RawReport) -> Result<Self, ReportError> {
        Self::new(raw.blockers)
    }
}

impl From<BlockerReport> for RawReport {
    fn from(report: BlockerReport) -> Self {
        Self { blockers: report.0 }
    }
}
