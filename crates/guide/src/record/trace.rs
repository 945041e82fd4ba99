//! Decision traces: why the engine decided as it did. They are limited in size, and correctness does not
//! depend on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DelimiterSafe, StepName};

/// The kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// A step was selected.
    SelectedNextStep,
    /// A condition was evaluated.
    EvaluatedCondition,
    /// A loop was entered.
    EnteredLoop,
    /// A loop was left.
    ExitedLoop,
    /// A node that is not the tip was advanced.
    DetectedNonTipAdvance,
}

/// The subject of a trace entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TraceRef {
    /// A step.
    StepId { step_id: StepName },
    /// A loop.
    LoopId { loop_id: DelimiterSafe },
    /// A condition.
    ConditionId { condition_id: DelimiterSafe },
    /// A zero-based iteration.
    Iteration { value: u32 },
}

/// The prefix of the summary of a skipped item. The state reads it, in logs of every version.
pub const SKIPPED: &str = "skipped: ";
/// The prefix of the summary of an item that was already skipped by an earlier selection.
pub const STILL_SKIPPED: &str = "still skipped: ";
/// The suffix of the summary of a loop that was reached but not entered.
pub const LOOP_DID_NOT_RUN: &str = " did not run";

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceEntry {
    pub kind: TraceKind,
    /// The reason, within its budget.
    pub summary: String,
    /// The subjects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<TraceRef>,
}

impl TraceEntry {
    /// The step or loop that this decision skipped, if it is the first time.
    pub fn skipped(&self) -> Option<&TraceRef> {
        let skips = match self.kind {
            TraceKind::EvaluatedCondition => self.summary.starts_with(SKIPPED),
            TraceKind::ExitedLoop => self.summary.ends_with(LOOP_DID_NOT_RUN),
            TraceKind::SelectedNextStep | TraceKind::EnteredLoop | TraceKind::DetectedNonTipAdvance => false,
        };
        self.refs.first().filter(|_| skips)
    }

    /// The loops around the subject, outermost first, each with its zero-based iteration. Logs of earlier
    /// versions do not have them.
    pub(crate) fn loops(&self) -> impl Iterator<Item = (&DelimiterSafe, u32)> {
        let around = self.refs.get(1..).unwrap_or_default();
        around.windows(2).filter_map(|pair| match pair {
            [TraceRef::LoopId { loop_id }, TraceRef::Iteration { value }] => Some((loop_id, *value)),
            _ => None,
        })
    }
}
