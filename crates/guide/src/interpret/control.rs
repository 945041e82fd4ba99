//! Whether a loop goes round.

use serde_json::{Map, Value};

use super::scope::{list, value_at};
use super::{Circumstances, Decision, Obstacle};
use crate::workflow::compiled::{ConditionMode, Count, Loop, LoopControl};
use crate::workflow::condition;

/// The answer of a loop's control, and why.
pub(super) struct Verdict {
    pub(super) goes_on: bool,
    pub(super) why: String,
}

/// Whether a loop starts at all. A decision is asked for at the end of the body, so the first time is free.
pub(super) fn enters(
    definition: &Loop,
    circumstances: &Circumstances<'_>,
    visible: &Map<String, Value>,
) -> Result<Verdict, Obstacle> {
    match &definition.control {
        LoopControl::Decision { .. } => {
            Ok(Verdict { goes_on: true, why: "the first time round needs no decision".to_owned() })
        }
        _ => wants(definition, circumstances, visible, 0),
    }
}

/// Whether a loop wants another time round, `next` counted from 0.
pub(super) fn wants(
    definition: &Loop,
    circumstances: &Circumstances<'_>,
    visible: &Map<String, Value>,
    next: u32,
) -> Result<Verdict, Obstacle> {
    match &definition.control {
        LoopControl::Decision { contract_ref } => match circumstances.decision {
            Some(Decision::Continue) => {
                Ok(Verdict { goes_on: true, why: "the decision is to continue".to_owned() })
            }
            Some(Decision::Stop) => Ok(Verdict { goes_on: false, why: "the decision is to stop".to_owned() }),
            None => Err(Obstacle::MissingDecision {
                loop_id: definition.loop_id.clone(),
                contract_ref: contract_ref.clone(),
            }),
        },
        LoopControl::Condition { condition_id, mode } => {
            let Some(condition) = circumstances.workflow.condition(condition_id) else {
                return Err(Obstacle::Broken { reason: "a loop names a condition that is not there" });
            };
            let (holds, note) = match condition::evaluate(condition, visible) {
                Ok(holds) => (holds, String::new()),
                // What cannot be evaluated does not hold; the trace says so instead of hiding it.
                Err(error) => (false, format!(" ({error})")),
            };
            let goes_on = holds == (*mode == ConditionMode::While);
            let word = if holds { "holds" } else { "does not hold" };
            Ok(Verdict { goes_on, why: format!("condition {condition_id} {word}{note}") })
        }
        LoopControl::Count { count } => {
            let count = match count {
                Count::Number(number) => u64::from(*number),
                Count::Key(key) => value_at(visible, key)
                    .and_then(Value::as_u64)
                    .ok_or_else(|| missing(definition, key, "a whole number"))?,
            };
            Ok(Verdict { goes_on: u64::from(next) < count, why: format!("{next} of {count} times done") })
        }
        LoopControl::ForEach { items, object_items, .. } => {
            let list = list(visible, items).ok_or_else(|| missing(definition, items, "a list"))?;
            let goes_on = (next as usize) < list.len();
            if goes_on && *object_items && !list[next as usize].is_object() {
                return Err(missing(definition, items, "a list of objects"));
            }
            Ok(Verdict { goes_on, why: format!("{next} of {} items done", list.len()) })
        }
    }
}

fn missing(definition: &Loop, key: &str, expected: &'static str) -> Obstacle {
    Obstacle::MissingInput { loop_id: definition.loop_id.clone(), key: key.to_owned(), expected }
}
