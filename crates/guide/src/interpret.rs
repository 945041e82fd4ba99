//! What comes next: a pure function from where a run is to where it goes.
//!
//! [`begin`] chooses the first step, [`proceed`] completes the pending one and chooses the
//! next. The innermost loop decides first; when nothing in it is left, its control says whether
//! it goes round once more; when no loop is left, the top level goes on in order. A step whose
//! condition does not hold is skipped, not completed: it is looked at again at the next choice.
//!
//! Loops always say why they ran or did not: entering, every evaluation that decided something,
//! and leaving are in the trace.

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

/// How many choices one call may make before it is given up: loops whose bodies are all skipped must end.
pub const MAX_HOPS: usize = 10_000;

/// What a loop's decision step said in this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Once more.
    Continue,
    /// Enough.
    Stop,
}

/// What to do where a run should stop for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnObstacle {
    /// Stop: the obstacle comes back as [`Obstacle`].
    Stop,
    /// Never stop: leave the loop, show the step, and tell what was passed over.
    PassOver,
}

/// What the choice depends on, besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The pinned workflow.
    pub workflow: &'a CompiledWorkflow,
    /// The context of the run.
    pub context: &'a Map<String, Value>,
    /// The decision that came with this call.
    pub decision: Option<Decision>,
    /// Whether the run stops for somebody.
    pub on_obstacle: OnObstacle,
}

/// Where the run goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// A step is pending, or everything is done.
    pub state: EngineState,
    pub trace: Vec<TraceEntry>,
    /// What was passed over, when the run never stops.
    pub passed_over: Vec<Obstacle>,
}

/// Why the run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A loop would go round more often than it may.
    #[error("loop {loop_id} would go round more than {max_iterations} times")]
    LoopLimit {
        loop_id: DelimiterSafe,
        /// The iteration that just ended, from 0.
        iteration: u32,
        /// How many there may be.
        max_iterations: u32,
        /// How a caller ends the loop.
        exit: String,
    },
    /// A loop's decision is missing.
    #[error("loop {loop_id} needs a decision to continue or stop")]
    MissingDecision {
        loop_id: DelimiterSafe,
        /// The contract of the decision.
        contract_ref: String,
    },
    /// A loop's input is not in the context, or not what it should be.
    #[error("loop {loop_id} needs the context key {key:?} to be {expected}")]
    MissingInput {
        loop_id: DelimiterSafe,
        key: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A step or a loop requires context keys that are missing or of another type. Its run condition may read
    /// them, so nobody can say whether it runs.
    #[error("`{item}` cannot begin: {}", listed(.faults))]
    MissingContext {
        /// The step or the loop.
        item: String,
        /// The keys; at least one.
        faults: Vec<ContextFault>,
    },
    /// The workflow names something that is not in it, or nothing ever becomes pending.
    #[error("the pinned workflow cannot go on: {reason}")]
    Broken { reason: &'static str },
}

impl Obstacle {
    /// The reason, in the one model behind blockers and gaps.
    pub fn reason(&self) -> BlockReason {
        match self {
            Self::LoopLimit { loop_id, iteration, max_iterations, exit: _ } => {
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

/// The reason for a key of the context.
pub fn missing_key(key: &str) -> BlockReason {
    DelimiterSafe::parse(&pointer_key(key))
        .map_or(BlockReason::InvariantViolation, |key| BlockReason::MissingContextKey { key })
}

/// A key as a pointer names it: in plain letters. The blocker's words name it as the author wrote it.
pub fn pointer_key(key: &str) -> String {
    let plain = |c: char| if matches!(c, 'a'..='z' | '0'..='9' | '_' | '-') { c } else { '_' };
    key.to_lowercase().chars().map(plain).collect()
}

fn listed(faults: &[ContextFault]) -> String {
    faults.iter().map(ContextFault::to_string).collect::<Vec<_>>().join("; ")
}

/// Chooses the first step of a run.
///
/// # Errors
/// A loop at the very start whose input is missing.
pub fn begin(circumstances: Circumstances<'_>) -> Result<Next, Obstacle> {
    select::Selection::new(circumstances, CompletedSteps::default(), Vec::new(), 0).run()
}

/// Completes the pending step and chooses the next.
///
/// # Errors
/// An obstacle, unless the run never stops; and a state in which nothing is pending.
pub fn proceed(circumstances: Circumstances<'_>, state: &EngineState) -> Result<Next, Obstacle> {
    let (Some((completed, stack)), Some(pending)) = (state.progress(), state.pending()) else {
        return Err(Obstacle::Broken { reason: "nothing is pending" });
    };
    let mut completed = completed.clone();
    completed.values.insert(StepInstanceKey::new(pending.step_id.as_str(), &pending.loop_path));
    // The item of the top level that the run is at: the pending step, or the loop around it.
    let item = stack.first().map_or(pending.step_id.as_str(), |outermost| outermost.loop_id.as_str());
    let reached = circumstances.workflow.sequence_place(item).unwrap_or_default();
    select::Selection::new(circumstances, completed, stack.clone(), reached).run()
}

/// The path of the loops on the stack.
fn path_of(stack: &[LoopFrame]) -> Vec<LoopPathEntry> {
    stack
        .iter()
        .map(|frame| LoopPathEntry { loop_id: frame.loop_id.clone(), iteration: frame.iteration })
        .collect()
}

fn running(completed: CompletedSteps, loop_stack: Vec<LoopFrame>, pending: Pending) -> EngineState {
    EngineState::Running(Running { completed, loop_stack, pending })
}
