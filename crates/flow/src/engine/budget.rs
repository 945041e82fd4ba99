//! What one decision may compute and record.
//!
//! A decision that would exceed a limit stops at once: the event that would be too much is neither recorded nor folded in, no effect is
//! asked for any more, and the run fails with what its limit is and what was needed. The few events that end a run always fit.

use serde_json::{Value, json};

use super::turn::Turn;
use super::{Effect, Input};
use crate::definition::NodeIndex;
use crate::event::size;
use crate::failure::FailureCode;
use crate::meter::OverBudget;
use crate::state::RunError;

/// How many bytes are copied in a step: copying is that much cheaper than looking.
const COPIED_IN_A_STEP: u64 = 8;

/// How many steps each byte takes that is held to a schema.
const STEPS_OF_A_SCHEMA: u64 = 4;

/// Which limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    DecisionSteps,
    RunSteps,
    AppendBytes,
    RunBytes,
    PatternBytes,
}

impl LimitKind {
    /// The spelling in `cap.breached`.
    const fn as_str(self) -> &'static str {
        match self {
            Self::DecisionSteps => "decision-steps",
            Self::RunSteps => "run-steps",
            Self::AppendBytes => "append-bytes",
            Self::RunBytes => "run-bytes",
            Self::PatternBytes => "pattern-bytes",
        }
    }

    const fn code(self) -> FailureCode {
        match self {
            Self::DecisionSteps | Self::RunSteps => FailureCode::DecisionBudgetExceeded,
            Self::AppendBytes => FailureCode::AppendLimitExceeded,
            Self::RunBytes => FailureCode::RunSizeExceeded,
            Self::PatternBytes => FailureCode::PatternLimitExceeded,
        }
    }

    fn message(self, limit: u64, observed: u64) -> String {
        match self {
            Self::DecisionSteps => format!(
                "conditions and expressions needed {observed} steps in one decision; the limit is {limit}. Use smaller values or simpler conditions"
            ),
            Self::RunSteps => format!(
                "conditions of the run needed {observed} steps in all; the limit is {limit}. Use smaller values or simpler conditions"
            ),
            Self::AppendBytes => format!(
                "one decision would record {observed} bytes of events; the limit is {limit} (`limits.append_bytes`). Pass on references instead of large values"
            ),
            Self::RunBytes => format!(
                "the events of the run would take {observed} bytes; the limit is {limit} (`limits.run_bytes`). Pass on references instead of large values"
            ),
            Self::PatternBytes => format!(
                "the patterns of the workflow take about {observed} bytes once they are compiled; the limit is {limit} (`limits.pattern_bytes`). Register it with simpler patterns"
            ),
        }
    }
}

/// A limit that a decision exceeded, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exceeded {
    kind: LimitKind,
    limit: u64,
    observed: u64,
    node: Option<NodeIndex>,
}

impl Turn<'_> {
    /// Whether an event of that size may be recorded. Nothing more is once a limit was exceeded, but for the end of the run.
    pub(super) fn admits(&mut self, size: u64, node: Option<NodeIndex>) -> bool {
        if self.closing {
            return true;
        }
        if self.exceeded.is_some() {
            return false;
        }
        self.appended = self.appended.saturating_add(size);
        let all = self.state.bytes.saturating_add(size);
        let limits = self.limits;
        if self.appended > limits.max_append_bytes {
            self.exceed(LimitKind::AppendBytes, limits.max_append_bytes, self.appended, node);
        } else if all > limits.max_run_bytes {
            self.exceed(LimitKind::RunBytes, limits.max_run_bytes, all, node);
        }
        self.exceeded.is_none()
    }

    /// Counts what it took to fold the last event in.
    pub(super) fn count_fold(&mut self, node: Option<NodeIndex>) {
        let schedule = &self.state.schedule;
        let (last, all, limit) = (schedule.last_steps, schedule.all_steps, self.limits.max_run_steps);
        let charged = self.meter.charge(last);
        self.within(charged, node);
        if all > limit && !self.closing {
            self.exceed(LimitKind::RunSteps, limit, all, node);
        }
    }

    /// Notes that a decision took too many steps at a node.
    pub(super) fn within<T>(&mut self, result: Result<T, OverBudget>, node: Option<NodeIndex>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(OverBudget { limit, observed }) => {
                if !self.closing {
                    self.exceed(LimitKind::DecisionSteps, limit, observed, node);
                }
                None
            }
        }
    }

    /// Notes where the meter of the decision went over its limit.
    pub(super) fn note_steps(&mut self, node: NodeIndex) {
        let over = self.meter.over().map_or(Ok(()), Err);
        self.within(over, Some(node));
    }

    /// Counts bytes that are copied.
    pub(super) fn copies(&mut self, value: &serde_json::Map<String, Value>, node: NodeIndex) {
        let charged = self.meter.charge(size::of_members(value) / COPIED_IN_A_STEP);
        self.within(charged, Some(node));
    }

    /// Counts the variables of the run, which are copied for the work of a node.
    pub(super) fn copies_variables(&mut self, node: NodeIndex) {
        let charged = self.meter.charge(size::of_members(&self.state.variables) / COPIED_IN_A_STEP);
        self.within(charged, Some(node));
    }

    /// Counts what it takes to hold a channel to its schema, whose keywords each look at the value.
    pub(super) fn validates(&mut self, node: NodeIndex, channel: &str, write: &Value) {
        let current = self.state.channels.get(channel).map_or(0, |channel| size::of_value(&channel.value));
        let bytes = current.saturating_add(size::of_value(write));
        let charged = self.meter.charge(bytes.saturating_mul(STEPS_OF_A_SCHEMA));
        self.within(charged, Some(node));
    }

    /// Notes that what the run gives would be too much for one decision, before it is put together.
    pub(super) fn check_outputs(&mut self, nodes: &[NodeIndex]) {
        let sizes = nodes.iter().map(|node| size::of_members(&self.state.nodes[*node].outputs));
        let observed = sizes.fold(self.appended, u64::saturating_add);
        let limit = self.limits.max_append_bytes;
        if observed > limit && !self.closing {
            self.exceed(LimitKind::AppendBytes, limit, observed, None);
        }
    }

    fn exceed(&mut self, kind: LimitKind, limit: u64, observed: u64, node: Option<NodeIndex>) {
        self.exceeded.get_or_insert(Exceeded { kind, limit, observed, node });
    }

    /// Whether a run cannot go on because its definition has more patterns than are compiled. It can still be ended.
    pub(super) fn check_patterns(&mut self, input: &Input) {
        let patterns = self.definition.patterns;
        if let Some(limit) = patterns.over
            && !matches!(input, Input::Cancel { .. })
            && !self.state.status.is_terminal()
        {
            self.exceed(LimitKind::PatternBytes, limit, patterns.bytes, None);
        }
    }

    /// Ends the run where a limit was exceeded. Gives whether one was.
    pub(super) fn end_over_limit(&mut self) -> bool {
        let Some(Exceeded { kind, limit, observed, node }) = self.exceeded else { return false };
        if self.state.status.is_terminal() {
            return true;
        }
        self.closing = true;
        // What was asked for in vain is not made: its events are not recorded, or its node ends here.
        let state = &*self.state;
        self.decision.effects.retain(|effect| match effect {
            Effect::SetTimer { .. }
            | Effect::Activity(_)
            | Effect::Guide(_)
            | Effect::InterruptRaised { .. } => false,
            Effect::StartChild(child) => state.child(&child.run_id).is_some(),
            Effect::StoreArtifact { artifact_id, .. } => state.artifacts.contains_key(artifact_id),
            Effect::ClearTimer { .. }
            | Effect::CancelChild { .. }
            | Effect::EndGuide { .. }
            | Effect::InterruptClosed { .. } => true,
        });
        self.begin();
        let cause = self.breach(kind.as_str(), limit, observed, node);
        let details = json!({"limit": limit, "observed": observed});
        let error = RunError::of(kind.code(), kind.message(limit, observed)).with(details);
        self.fail_run(&error, node, Some(cause));
        true
    }
}
