//! Selects the next step: a pure function of the session's state.
//!
//! [`begin`] selects the first step; [`proceed`] completes the pending step and selects the next. The
//! innermost loop is searched first. When its body is done, its control decides whether to run another
//! iteration. Outside of loops, the top-level sequence continues in order. A step whose condition does not
//! hold is skipped, not completed: later selections evaluate its condition again.
//!
//! Entering a loop, every evaluation of its control, and leaving it are recorded in the trace with the
//! reason.

mod control;
mod scope;
mod select;

use serde_json::{Map, Value};

pub use scope::{value_at, visible_context};

use crate::record::{
    BlockReason, CompletedSteps, DelimiterSafe, EngineState, LoopFrame, LoopPathEntry, Pending, Running,
    StepInstanceKey, TraceEntry,
};
use crate::workflow::compiled::CompiledWorkflow;
use crate::workflow::context_keys::ContextFault;

/// The maximum number of loop entries and iterations of one call. It ends loops whose bodies are always
/// skipped.
pub const MAX_HOPS: usize = 10_000;

/// The decision of a loop's decision step in this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run the loop body again.
    Continue,
    /// Leave the loop.
    Stop,
}

/// What to do when a step needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnObstacle {
    /// Stop and return the [`Obstacle`].
    Stop,
    /// Do not stop: leave the loop, show the step, and report the obstacle in [`Next::passed_over`].
    PassOver,
}

/// What the selection depends on, besides the state.
#[derive(Clone, Copy, Debug)]
pub struct SelectionInput<'a> {
    /// The pinned workflow.
    pub workflow: &'a CompiledWorkflow,
    /// The context of the session.
    pub context: &'a Map<String, Value>,
    /// The loop decision that was sent with this call.
    pub decision: Option<Decision>,
    /// Whether an obstacle stops the session.
    pub on_obstacle: OnObstacle,
}

/// The selected state.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// Either a step is pending, or the workflow is complete.
    pub state: EngineState,
    pub trace: Vec<TraceEntry>,
    /// The obstacles that did not stop the session; see [`OnObstacle::PassOver`].
    pub passed_over: Vec<Obstacle>,
}

/// Why no next step can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A loop would exceed its limit of iterations.
    #[error("loop {loop_id} would exceed its limit of {max_iterations} iterations")]
    LoopLimit {
        loop_id: DelimiterSafe,
        /// The loop as callers know it.
        title: String,
        /// The iteration that just ended, zero-based.
        iteration: u32,
        max_iterations: u32,
        /// How a caller ends the loop.
        exit: String,
    },
    /// The decision of a loop is missing.
    #[error("loop {loop_id} needs a decision to continue or stop")]
    MissingDecision {
        loop_id: DelimiterSafe,
        /// The output contract of the decision.
        contract_ref: String,
    },
    /// A loop's input is missing in the context or has the wrong type.
    #[error("loop {loop_id} needs the context key {key:?} to be {expected}")]
    MissingInput { loop_id: DelimiterSafe, key: String, expected: &'static str },
    /// A step or a loop requires context keys that are missing or have the wrong type. Its run condition may
    /// read them, so it cannot be decided whether it runs.
    #[error("`{item}` cannot start: {}", listed(.faults))]
    MissingContext {
        /// The id of the step or the loop.
        item: String,
        /// The keys; at least one.
        faults: Vec<ContextFault>,
    },
    /// The workflow refers to something it does not contain, or its loops never reach a step.
    #[error("the pinned workflow is inconsistent: {reason}")]
    Broken { reason: &'static str },
}

impl Obstacle {
    /// The reason, in the common model of blockers and gaps.
    pub fn reason(&self) -> BlockReason {
        match self {
            Self::LoopLimit { loop_id, iteration, max_iterations, title: _, exit: _ } => {
                BlockReason::LoopLimitReached {
                    loop_id: loop_id.clone(),
                    iteration: *iteration,
                    max_iterations: *max_iterations,
                }
            }
            Self::MissingDecision { contract_ref, .. } => {
                BlockReason::MissingRequiredOutput { contract_ref: contract_ref.clone() }
            }
            Self::MissingInput { key, .. } => missing_key(key),
            Self::MissingContext { faults, .. } => {
                faults.first().map_or(BlockReason::InvariantViolation, |fault| missing_key(&fault.key))
            }
            Self::Broken { .. } => BlockReason::InvariantViolation,
        }
    }
}

/// The block reason for a missing context key.
pub fn missing_key(key: &str) -> BlockReason {
    DelimiterSafe::parse(&pointer_key(key))
        .map_or(BlockReason::InvariantViolation, |key| BlockReason::MissingContextKey { key })
}

/// A context key as a pointer contains it: in lower-case ASCII letters, digits, `_` and `-`. The blocker's
/// message has the original key.
pub fn pointer_key(key: &str) -> String {
    let plain = |c: char| if matches!(c, 'a'..='z' | '0'..='9' | '_' | '-') { c } else { '_' };
    key.to_lowercase().chars().map(plain).collect()
}

fn listed(faults: &[ContextFault]) -> String {
    faults.iter().map(ContextFault::to_string).collect::<Vec<_>>().join("; ")
}

/// Selects the first step.
///
/// # Errors
/// The workflow starts with a loop whose input is missing.
pub fn begin(input: SelectionInput<'_>) -> Result<Next, Obstacle> {
    select::Selection::new(input, CompletedSteps::default(), Vec::new(), 0).run()
}

/// Completes the pending step and selects the next.
///
/// # Errors
/// An obstacle, unless [`OnObstacle::PassOver`] is set, or a state without a pending step.
pub fn proceed(input: SelectionInput<'_>, state: &EngineState) -> Result<Next, Obstacle> {
    let (Some((completed, stack)), Some(pending)) = (state.progress(), state.pending()) else {
        return Err(Obstacle::Broken { reason: "no step is pending" });
    };
    let mut completed = completed.clone();
    completed.values.insert(StepInstanceKey::new(pending.step_id.as_str(), &pending.loop_path));
    // The current item of the top level: the pending step, or the outermost loop around it.
    let item = stack.first().map_or(pending.step_id.as_str(), |outermost| outermost.loop_id.as_str());
    let reached = input.workflow.sequence_index(item).unwrap_or_default();
    select::Selection::new(input, completed, stack.clone(), reached).run()
}

/// The loops on the stack as a path.
fn path_of(stack: &[LoopFrame]) -> Vec<LoopPathEntry> {
    stack
        .iter()
        .map(|frame| LoopPathEntry { loop_id: frame.loop_id.clone(), iteration: frame.iteration })
        .collect()
}

fn running(completed: CompletedSteps, loop_stack: Vec<LoopFrame>, pending: Pending) -> EngineState {
    EngineState::Running(Running { completed, loop_stack, pending })
}
