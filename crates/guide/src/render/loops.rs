//! The position of a step in its loops.

use serde_json::{Map, Value};

use crate::project::arrival::LoopPass;
use crate::record::PendingStep;
use crate::workflow::compiled::{CompiledWorkflow, Loop, LoopControl, Step};

/// One quoted line per loop around a step, the outermost first; `None` outside of loops. The innermost loop is
/// left out on the step that decides about it.
pub(super) fn banner(
    workflow: &CompiledWorkflow,
    step: &Step,
    pending: &PendingStep,
    context: &Map<String, Value>,
) -> Option<String> {
    let innermost = pending.loop_path.len().checked_sub(1)?;
    let lines = pending.loop_path.iter().enumerate().filter_map(|(depth, at)| {
        let definition = workflow.loop_of(&at.loop_id)?;
        let pass = LoopPass::of(definition, at.iteration, context);
        match &definition.control {
            LoopControl::Decision { contract_ref } if depth == innermost => {
                let contract = step.output_contract.as_ref();
                let decides = contract.is_some_and(|contract| contract.contract_ref == *contract_ref);
                (!decides).then(|| decided(definition, pass))
            }
            LoopControl::Decision { .. }
            | LoopControl::ForEach { .. }
            | LoopControl::Count { .. }
            | LoopControl::Condition { .. } => Some(format!("> {}: {pass}.", definition.title)),
        }
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The line for a loop with a decision step. It does not contain the loop id, because callers copied it into
/// their decisions.
fn decided(definition: &Loop, pass: LoopPass) -> String {
    let most = definition.max_iterations;
    let hint = match pass.number {
        1 => "A later step decides whether another pass is worth it.",
        number if number >= most => "This is the last pass: verify, and start nothing new.",
        2 => "Look for what the first pass missed; do not repeat it.",
        _ => "Check only what is still uncertain.",
    };
    let done = (0..most.min(20)).map(|index| if index < pass.number { '#' } else { '.' }).collect::<String>();
    format!("> {}: {pass} [{done}]. {hint}", definition.title)
}
