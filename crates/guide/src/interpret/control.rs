//! Decides whether a loop runs another iteration.

use serde_json::{Map, Value};

use super::scope::{list, value_at};
use super::{Decision, Obstacle, SelectionInput};
use crate::workflow::compiled::{ConditionMode, Count, Loop, LoopControl};
use crate::workflow::condition;

/// The result of evaluating a loop's control.
pub(super) struct LoopEvaluation {
    pub(super) continues: bool,
    pub(super) reason: String,
}

/// Whether a loop starts at all. A decision is requested at the end of the body, so the first iteration needs
/// none.
pub(super) fn evaluate_entry(
    definition: &Loop,
    input: &SelectionInput<'_>,
    visible: &Map<String, Value>,
) -> Result<LoopEvaluation, Obstacle> {
    match &definition.control {
        LoopControl::Decision { .. } => Ok(LoopEvaluation {
            continues: true,
            reason: "the first time round needs no decision".to_owned(),
        }),
        _ => evaluate_iteration(definition, input, visible, 0),
    }
}

/// Whether a loop runs the zero-based iteration `next`.
pub(super) fn evaluate_iteration(
    definition: &Loop,
    input: &SelectionInput<'_>,
    visible: &Map<String, Value>,
    next: u32,
) -> Result<LoopEvaluation, Obstacle> {
    match &definition.control {
        LoopControl::Decision { contract_ref } => match input.decision {
            Some(Decision::Continue) => {
                Ok(LoopEvaluation { continues: true, reason: "the decision is to continue".to_owned() })
            }
            Some(Decision::Stop) => {
                Ok(LoopEvaluation { continues: false, reason: "the decision is to stop".to_owned() })
            }
            None => Err(Obstacle::MissingDecision {
                loop_id: definition.loop_id.clone(),
                contract_ref: contract_ref.clone(),
            }),
        },
        LoopControl::Condition { condition_id, mode } => {
            let Some(condition) = input.workflow.condition(condition_id) else {
                return Err(Obstacle::Broken { reason: "a loop refers to an unknown condition" });
            };
            let (holds, note) = match condition::evaluate(condition, visible) {
                Ok(holds) => (holds, String::new()),
                // A condition that cannot be evaluated does not hold. The trace contains the error.
                Err(error) => (false, format!(" ({error})")),
            };
            let continues = holds == (*mode == ConditionMode::While);
            let word = if holds { "holds" } else { "does not hold" };
            Ok(LoopEvaluation { continues, reason: format!("condition {condition_id} {word}{note}") })
        }
        LoopControl::Count { count } => {
            let count = match count {
                Count::Number(number) => u64::from(*number),
                Count::Key(key) => value_at(visible, key)
                    .and_then(Value::as_u64)
                    .ok_or_else(|| missing(definition, key, "a whole number"))?,
            };
            Ok(LoopEvaluation {
                continues: u64::from(next) < count,
                reason: format!("{next} of {count} iterations done"),
            })
        }
        LoopControl::ForEach { items, object_items, .. } => {
            let list = list(visible, items).ok_or_else(|| missing(definition, items, "a list"))?;
            let continues = (next as usize) < list.len();
            if continues && *object_items && !list[next as usize].is_object() {
                return Err(missing(definition, items, "a list of objects"));
            }
            Ok(LoopEvaluation { continues, reason: format!("{next} of {} items done", list.len()) })
        }
    }
}

fn missing(definition: &Loop, key: &str, expected: &'static str) -> Obstacle {
    Obstacle::MissingInput { loop_id: definition.loop_id.clone(), key: key.to_owned(), expected }
}
