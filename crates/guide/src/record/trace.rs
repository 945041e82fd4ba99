//! Why the engine decided as it did. Bounded, and never needed for correctness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DelimiterSafe, StepName};

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// A step was chosen.
    SelectedNextStep,
    /// A condition was evaluated.
    EvaluatedCondition,
    /// A loop was entered.
    EnteredLoop,
    /// A loop was left.
    ExitedLoop,
    /// An older node was advanced.
    DetectedNonTipAdvance,
}

/// What a trace entry is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TraceRef {
    /// A step.
    StepId { step_id: StepName },
    /// A loop.
    LoopId { loop_id: DelimiterSafe },
    /// A condition.
    ConditionId { condition_id: DelimiterSafe },
    /// An iteration, from 0.
    Iteration { value: u32 },
}

/// What the summary of an item that did not run begins with. The fold reads it, in logs of every version.
pub const SKIPPED: &str = "skipped: ";
/// What the summary of an item begins with that was skipped at an earlier choice and is again.
pub const STILL_SKIPPED: &str = "still skipped: ";
/// What the summary of a loop ends with that was reached and not entered.
pub const LOOP_DID_NOT_RUN: &str = " did not run";

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceEntry {
    /// What was decided.
    pub kind: TraceKind,
    /// Why, within its budget.
    pub summary: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<TraceRef>,
}

impl TraceEntry {
    /// The step or loop that this decision skipped, if it did for the first time.
    pub fn skipped(&self) -> Option<&TraceRef> {
        let skips = match self.kind {
            TraceKind::EvaluatedCondition => self.summary.starts_with(SKIPPED),
            TraceKind::ExitedLoop => self.summary.ends_with(LOOP_DID_NOT_RUN),
            TraceKind::SelectedNextStep | TraceKind::EnteredLoop | TraceKind::DetectedNonTipAdvance => false,
        };
        self.refs.first().filter(|_| skips)
    }
}
