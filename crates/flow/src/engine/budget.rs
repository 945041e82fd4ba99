//! Limits on the computation and the events of one decision.
//!
//! A decision that would exceed a limit stops immediately: the event that would exceed it is neither recorded nor applied, no effect is
//! requested any more, and the run fails with the limit and the observed value. The few events that end a run are always allowed.

use serde_json::{Value, json};

use super::turn::Turn;
use super::{Effect, Input};
use crate::definition::NodeIndex;
use crate::event::size;
use crate::failure::FailureCode;
use crate::meter::OverBudget;
use crate::state::RunError;

/// The bytes that are copied per step. Copying is cheaper than evaluating.
const BYTES_COPIED_PER_STEP: u64 = 8;

/// The steps per byte that is validated against a schema.
const SCHEMA_STEPS_PER_BYTE: u64 = 4;

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
                "the conditions of the run needed {observed} steps in total; the limit is {limit}. Use smaller values or simpler conditions"
            ),
            Self::AppendBytes => format!(
                "one decision would record {observed} bytes of events; the limit is {limit} (`limits.append_bytes`). Pass references instead of large values"
            ),
            Self::RunBytes => format!(
                "the events of the run would take {observed} bytes; the limit is {limit} (`limits.run_bytes`). Pass references instead of large values"
            ),
            Self::PatternBytes => format!(
                "the compiled patterns of the workflow take about {observed} bytes; the limit is {limit} (`limits.pattern_bytes`). Register it with simpler patterns"
            ),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Exceeded {
    kind: LimitKind,
    limit: u64,
    observed: u64,
    node: Option<NodeIndex>,
}

impl Turn<'_> {
    /// Whether an event of that size may be recorded. After a limit was exceeded, only the events that end the run may.
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

    /// Counts the steps of applying the last event.
    pub(super) fn count_fold(&mut self, node: Option<NodeIndex>) {
        let schedule = &self.state.schedule;
        let (last, all, limit) = (schedule.last_steps, schedule.all_steps, self.limits.max_run_steps);
        let charged = self.meter.charge(last);
        self.note_exceeded(charged, node);
        if all > limit && !self.closing {
            self.exceed(LimitKind::RunSteps, limit, all, node);
        }
    }

    /// Stores that the decision exceeded its step limit at a node.
    pub(super) fn note_exceeded<T>(
        &mut self,
        result: Result<T, OverBudget>,
        node: Option<NodeIndex>,
    ) -> Option<T> {
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

    /// Stores the node at which the meter exceeded the step limit, if it did.
    pub(super) fn note_steps(&mut self, node: NodeIndex) {
        let over = self.meter.over().map_or(Ok(()), Err);
        self.note_exceeded(over, Some(node));
    }

    /// Counts the steps of copying a value.
    pub(super) fn charge_copy(&mut self, value: &serde_json::Map<String, Value>, node: NodeIndex) {
        let charged = self.meter.charge(size::of_members(value) / BYTES_COPIED_PER_STEP);
        self.note_exceeded(charged, Some(node));
    }

    /// Counts the steps of copying the variables of the run for an effect.
    pub(super) fn charge_variables(&mut self, node: NodeIndex) {
        let charged = self.meter.charge(size::of_members(&self.state.variables) / BYTES_COPIED_PER_STEP);
        self.note_exceeded(charged, Some(node));
    }

    /// Counts the steps of validating a channel against its schema. Each keyword reads the value.
    pub(super) fn charge_validation(&mut self, node: NodeIndex, channel: &str, write: &Value) {
        let current = self.state.channels.get(channel).map_or(0, |channel| size::of_value(&channel.value));
        let bytes = current.saturating_add(size::of_value(write));
        let charged = self.meter.charge(bytes.saturating_mul(SCHEMA_STEPS_PER_BYTE));
        self.note_exceeded(charged, Some(node));
    }

    /// Checks that the outputs of the run fit into one decision, before they are copied.
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

    /// Stops the run if the patterns of its definition exceed the limit. It can still be cancelled.
    pub(super) fn check_patterns(&mut self, input: &Input) {
        let patterns = self.definition.patterns;
        if let Some(limit) = patterns.over
            && !matches!(input, Input::Cancel { .. })
            && !self.state.status.is_terminal()
        {
            self.exceed(LimitKind::PatternBytes, limit, patterns.bytes, None);
        }
    }

    /// Fails the run if a limit was exceeded. Returns whether one was.
    pub(super) fn end_over_limit(&mut self) -> bool {
        let Some(Exceeded { kind, limit, observed, node }) = self.exceeded else { return false };
        if self.state.status.is_terminal() {
            return true;
        }
        self.closing = true;
        // Effects whose events are not recorded, or whose nodes end here, must not be executed.
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
