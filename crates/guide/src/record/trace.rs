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
#[expect(missing_docs, reason = "the names say it")]
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
