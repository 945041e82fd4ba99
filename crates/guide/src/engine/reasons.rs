//! The common model of blockers and gaps.

use canon::budget;

use crate::interpret::{Obstacle, missing_key};
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, BLOCKERS, SUGGESTED_FIX_BYTES, SUMMARY_BYTES};
use crate::record::{
    BlockReason, Blocker, BlockerCode, BlockerReport, Capability, GapDetail, GapReason, GapSeverity, Pointer,
    Preferences, ReportError, RiskPolicy, StepName,
};
use crate::workflow::context_keys::ContextFault;

/// A reason with its blocker for the caller.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reason {
    pub(super) reason: BlockReason,
    pub(super) blocker: Blocker,
}

impl Reason {
    /// A reason with the default message.
    pub(super) fn of(reason: BlockReason, step_id: &StepName) -> Self {
        let (message, fix) = words(&reason);
        let blocker = Blocker {
            code: code(&reason),
            pointer: pointer(&reason, step_id),
            message: budget::truncate(&message, BLOCKER_MESSAGE_BYTES).into_owned(),
            suggested_fix: Some(budget::truncate(&fix, SUGGESTED_FIX_BYTES).into_owned()),
        };
        Self { reason, blocker }
    }

    /// The reasons for an obstacle, one per missing key, with messages that name what is missing.
    pub(super) fn of_obstacle(obstacle: &Obstacle, step_id: &StepName) -> Vec<Self> {
        match obstacle {
            Obstacle::MissingContext { item, faults } => {
                let why = format!("`{item}` depends on it and cannot be skipped without it.");
                faults.iter().map(|fault| Self::of_context(fault, &why, step_id)).collect()
            }
            Obstacle::MissingInput { key, expected, .. } => {
                let message = format!("The next loop needs the context key {key:?} to be {expected}.");
                let fix = format!("Send it with `context: {{\"{key}\": …}}` when you advance again.");
                vec![Self::of(obstacle.reason(), step_id).saying(&message, &fix)]
            }
            Obstacle::LoopLimit { title, iteration, max_iterations, exit, .. } => {
                let message = format!(
                    "The loop \"{title}\" has run {} passes; the limit is {max_iterations}.",
                    iteration + 1
                );
                vec![Self::of(obstacle.reason(), step_id).saying(&message, exit)]
            }
            Obstacle::MissingDecision { .. } | Obstacle::Broken { .. } => {
                vec![Self::of(obstacle.reason(), step_id)]
            }
        }
    }

    /// A context key that is missing or has the wrong type, and why it is needed.
    pub(super) fn of_context(fault: &ContextFault, why: &str, step_id: &StepName) -> Self {
        let mut words = fault.to_string();
        words.replace_range(..1, "T");
        let example = serde_json::json!({ &fault.key: fault.placeholder });
        let fix = format!(
            "Advance again with `context`: {example}, with the actual value in place of the placeholder. If only the \
             user knows it, ask."
        );
        Self::of(missing_key(&fault.key), step_id).saying(&format!("{words}. {why}"), &fix)
    }

    /// The same reason with a different message.
    pub(super) fn saying(mut self, message: &str, fix: &str) -> Self {
        self.blocker.message = budget::truncate(message, BLOCKER_MESSAGE_BYTES).into_owned();
        self.blocker.suggested_fix = Some(budget::truncate(fix, SUGGESTED_FIX_BYTES).into_owned());
        self
    }

    /// The gap to record if the session does not stop.
    pub(super) fn gap(&self, severity: GapSeverity) -> GapFacts {
        GapFacts {
            severity,
            reason: gap(&self.reason),
            summary: budget::truncate(&self.blocker.message, SUMMARY_BYTES).into_owned(),
            pointer: Some(self.blocker.pointer.clone()),
        }
    }
}

/// The content of a gap.
pub(super) struct GapFacts {
    pub(super) severity: GapSeverity,
    pub(super) reason: GapReason,
    pub(super) summary: String,
    pub(super) pointer: Option<Pointer>,
}

impl GapFacts {
    /// A warning that the preferences exceed the author's recommendation.
    pub(super) const fn beyond_recommendation(summary: String) -> Self {
        let reason = GapReason::Unexpected(GapDetail::PreferencesExceedRecommendation);
        Self { severity: GapSeverity::Warning, reason, summary, pointer: None }
    }
}

/// The maximum number of reasons of one attempt that become separate gaps. An append also has room for the
/// rest of an advance.
const GAPS: usize = 128;

/// The blocker report. If the reasons exceed its budget, the last message says so.
pub(super) fn report(reasons: &[Reason]) -> Result<BlockerReport, ReportError> {
    let mut blockers: Vec<Blocker> =
        reasons.iter().take(BLOCKERS).map(|reason| reason.blocker.clone()).collect();
    blockers.sort();
    count_rest(blockers.last_mut(), reasons.len().saturating_sub(BLOCKERS));
    BlockerReport::new(blockers)
}

/// The reasons that become gaps, up to the limit of an append.
pub(super) fn disclosed(reasons: &[&Reason]) -> Vec<Reason> {
    let mut kept: Vec<Reason> = reasons.iter().take(GAPS).map(|reason| (*reason).clone()).collect();
    count_rest(kept.last_mut().map(|reason| &mut reason.blocker), reasons.len().saturating_sub(GAPS));
    kept
}

/// Appends the number of omitted reasons to the last one.
fn count_rest(last: Option<&mut Blocker>, rest: usize) {
    if let (Some(last), 1..) = (last, rest) {
        let (verb, noun) = if rest == 1 { ("is", "reason") } else { ("are", "reasons") };
        let words = format!(" There {verb} {rest} more {noun}.");
        let message = budget::truncate(&last.message, BLOCKER_MESSAGE_BYTES - words.len());
        last.message = format!("{message}{words}");
    }
}

/// Whether another attempt can help. The first reason decides for the whole block.
pub(super) const fn is_retryable(reason: &BlockReason) -> bool {
    match reason {
        BlockReason::InvalidRequiredOutput { .. }
        | BlockReason::MissingRequiredOutput { .. }
        | BlockReason::AssessmentFollowupRequired { .. }
        | BlockReason::MissingContextKey { .. }
        | BlockReason::ContextBudgetExceeded
        | BlockReason::MissingNotes { .. }
        | BlockReason::LoopLimitReached { .. }
        | BlockReason::UserOnlyDependency { .. } => true,
        BlockReason::RequiredCapabilityUnknown { .. }
        | BlockReason::RequiredCapabilityUnavailable { .. }
        | BlockReason::InvariantViolation
        | BlockReason::StorageCorruptionDetected
        | BlockReason::EvaluationError => false,
    }
}

/// Whether the risk policy lets a reason pass with a warning. It applies only to capabilities.
pub(super) const fn is_tolerated(reason: &BlockReason, preferences: Preferences) -> bool {
    match reason {
        BlockReason::RequiredCapabilityUnknown { .. } => {
            matches!(preferences.risk_policy, RiskPolicy::Balanced | RiskPolicy::Aggressive)
        }
        BlockReason::RequiredCapabilityUnavailable { .. } => {
            matches!(preferences.risk_policy, RiskPolicy::Aggressive)
        }
        _ => false,
    }
}

const fn code(reason: &BlockReason) -> BlockerCode {
    match reason {
        BlockReason::InvalidRequiredOutput { .. } => BlockerCode::InvalidRequiredOutput,
        BlockReason::MissingRequiredOutput { .. } => BlockerCode::MissingRequiredOutput,
        BlockReason::AssessmentFollowupRequired { .. } => BlockerCode::AssessmentFollowupRequired,
        BlockReason::MissingContextKey { .. } => BlockerCode::MissingContextKey,
        BlockReason::ContextBudgetExceeded => BlockerCode::ContextBudgetExceeded,
        BlockReason::MissingNotes { .. } => BlockerCode::MissingRequiredNotes,
        BlockReason::LoopLimitReached { .. } => BlockerCode::LoopLimitReached,
        BlockReason::UserOnlyDependency { .. } => BlockerCode::UserOnlyDependency,
        BlockReason::RequiredCapabilityUnknown { .. } => BlockerCode::RequiredCapabilityUnknown,
        BlockReason::RequiredCapabilityUnavailable { .. } => BlockerCode::RequiredCapabilityUnavailable,
        BlockReason::InvariantViolation | BlockReason::EvaluationError => BlockerCode::InvariantViolation,
        BlockReason::StorageCorruptionDetected => BlockerCode::StorageCorruptionDetected,
    }
}

const fn gap(reason: &BlockReason) -> GapReason {
    match reason {
        BlockReason::InvalidRequiredOutput { .. } => {
            GapReason::ContractViolation(GapDetail::InvalidRequiredOutput)
        }
        BlockReason::MissingRequiredOutput { .. } => {
            GapReason::ContractViolation(GapDetail::MissingRequiredOutput)
        }
        BlockReason::AssessmentFollowupRequired { .. } => {
            GapReason::ContractViolation(GapDetail::AssessmentFollowupRequired)
        }
        BlockReason::MissingNotes { .. } => GapReason::ContractViolation(GapDetail::MissingRequiredNotes),
        BlockReason::UserOnlyDependency { detail, .. } => GapReason::UserOnlyDependency(*detail),
        BlockReason::RequiredCapabilityUnknown { .. } => {
            GapReason::CapabilityMissing(GapDetail::RequiredCapabilityUnknown)
        }
        BlockReason::RequiredCapabilityUnavailable { .. } => {
            GapReason::CapabilityMissing(GapDetail::RequiredCapabilityUnavailable)
        }
        BlockReason::EvaluationError => GapReason::Unexpected(GapDetail::EvaluationError),
        BlockReason::StorageCorruptionDetected => GapReason::Unexpected(GapDetail::StorageCorruptionDetected),
        BlockReason::MissingContextKey { .. }
        | BlockReason::ContextBudgetExceeded
        | BlockReason::LoopLimitReached { .. }
        | BlockReason::InvariantViolation => GapReason::Unexpected(GapDetail::InvariantViolation),
    }
}

fn pointer(reason: &BlockReason, step_id: &StepName) -> Pointer {
    match reason {
        BlockReason::InvalidRequiredOutput { contract_ref }
        | BlockReason::MissingRequiredOutput { contract_ref } => {
            Pointer::OutputContract { contract_ref: contract_ref.clone() }
        }
        BlockReason::AssessmentFollowupRequired { assessment_id, dimension_id, .. } => {
            Pointer::AssessmentDimension {
                assessment_id: assessment_id.clone(),
                dimension_id: dimension_id.clone(),
            }
        }
        BlockReason::MissingContextKey { key } => Pointer::ContextKey { key: key.clone() },
        BlockReason::ContextBudgetExceeded => Pointer::ContextBudget,
        BlockReason::LoopLimitReached { loop_id, iteration, max_iterations } => {
            Pointer::Loop { loop_id: loop_id.clone(), iteration: *iteration, max_iterations: *max_iterations }
        }
        BlockReason::RequiredCapabilityUnknown { capability }
        | BlockReason::RequiredCapabilityUnavailable { capability } => {
            Pointer::Capability { capability: *capability }
        }
        BlockReason::MissingNotes { step_id } | BlockReason::UserOnlyDependency { step_id, .. } => {
            Pointer::WorkflowStep { step_id: step_id.clone() }
        }
        BlockReason::EvaluationError => Pointer::WorkflowStep { step_id: step_id.clone() },
        BlockReason::InvariantViolation | BlockReason::StorageCorruptionDetected => Pointer::Session,
    }
}

/// The default message and fix of a reason. Contracts have more specific ones.
fn words(reason: &BlockReason) -> (String, String) {
    let (message, fix) = match reason {
        BlockReason::InvalidRequiredOutput { contract_ref } => (
            format!("The output does not match contract {contract_ref}."),
            "Correct the output and advance again.".to_owned(),
        ),
        BlockReason::MissingRequiredOutput { contract_ref } => (
            format!("The step requires an artifact for contract {contract_ref}, but none was sent."),
            "Add the artifact to `output.artifacts` and advance again.".to_owned(),
        ),
        BlockReason::AssessmentFollowupRequired { assessment_id, dimension_id, level, guidance } => (
            format!("Assessment {assessment_id} rates {dimension_id} as {level}."),
            format!("{guidance} Advance again with a new assessment."),
        ),
        BlockReason::MissingContextKey { key } => (
            format!("The context key {key} is missing or has the wrong type for the next step."),
            format!("Send it with `context: {{\"{key}\": …}}` when you advance again."),
        ),
        BlockReason::ContextBudgetExceeded => (
            "The context is too large.".to_owned(),
            "Remove documents from the context; pass references.".to_owned(),
        ),
        BlockReason::MissingNotes { step_id } => (
            format!("Step {step_id} asks for notes, and none were sent."),
            // A golden file has these bytes: the same calls keep writing the same snapshots.
            "Add output.notesMarkdown (what you did, what you produced, what is open) and advance again with the token \
             of this reply."
                .to_owned(),
        ),
        BlockReason::LoopLimitReached { loop_id, iteration, max_iterations } => (
            format!(
                "Loop {loop_id} has run {} passes; the limit is {max_iterations}.",
                iteration + 1
            ),
            "Advance again with the decision \"stop\". List what is unfinished in the notes.".to_owned(),
        ),
        BlockReason::UserOnlyDependency { .. } => (
            "Only the user can resolve this.".to_owned(),
            "Ask the user for what the step needs. Do not guess.".to_owned(),
        ),
        BlockReason::RequiredCapabilityUnknown { capability } => (
            format!("The workflow requires {}, which was not tested yet.", capability_name(*capability)),
            "Test it. Then make the call in `nextCall`, which returns the step with a new token, and advance with a \
             `wr.capability_observation` artifact with provenance probe_step or attempted_use."
                .to_owned(),
        ),
        BlockReason::RequiredCapabilityUnavailable { capability } => (
            format!("The workflow requires {}, which is not available.", capability_name(*capability)),
            "Tell the user. Once it is available, make the call in `nextCall`, which returns the step with a new \
             token, and report it again."
                .to_owned(),
        ),
        BlockReason::EvaluationError => (
            "A rule of this step cannot be evaluated. Your output is not the cause.".to_owned(),
            "Tell the user to fix the workflow; `interlock workflow validate` shows where.".to_owned(),
        ),
        BlockReason::InvariantViolation | BlockReason::StorageCorruptionDetected => (
            "The engine found an invalid state. Your output is not the cause.".to_owned(),
            "Tell the user to run `interlock session verify`.".to_owned(),
        ),
    };
    (message, fix)
}

const fn capability_name(capability: Capability) -> &'static str {
    match capability {
        Capability::Delegation => "delegation",
        Capability::WebBrowsing => "web browsing",
    }
}
