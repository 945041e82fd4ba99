//! The position of a step in a loop.

use crate::record::PendingStep;
use crate::workflow::compiled::{CompiledWorkflow, Loop, LoopControl, Step};

/// One quoted line about the innermost loop; `None` outside of loops and on the decision step itself.
pub(super) fn banner(workflow: &CompiledWorkflow, step: &Step, pending: &PendingStep) -> Option<String> {
    let innermost = pending.loop_path.last()?;
    let definition = workflow.loop_of(&innermost.loop_id)?;
    let pass = innermost.iteration + 1;
    Some(match &definition.control {
        LoopControl::Decision { contract_ref } => {
            if step.output_contract.as_ref().is_some_and(|contract| contract.contract_ref == *contract_ref) {
                return None;
            }
            decided(definition, pass)
        }
        LoopControl::ForEach { .. } => format!("> {}: item {pass}.", definition.title),
        LoopControl::Count { .. } => format!("> {}: iteration {pass}.", definition.title),
        LoopControl::Condition { .. } => {
            format!("> {}: pass {pass} of at most {}.", definition.title, definition.max_iterations)
        }
    })
}

/// The line for a loop with a decision step. It does not contain the loop id, because callers copied it into
/// their decisions.
fn decided(definition: &Loop, pass: u32) -> String {
    let most = definition.max_iterations;
    let hint = match pass {
        1 => "A later step decides whether another pass is worth it.",
        _ if pass >= most => "This is the last pass: verify, and start nothing new.",
        2 => "Look for what the first pass missed; do not repeat it.",
        _ => "Check only what is still uncertain.",
    };
    let done = (0..most.min(20)).map(|index| if index < pass { '#' } else { '.' }).collect::<String>();
    format!("> {}: pass {pass} of at most {most} [{done}]. {hint}", definition.title)
}
