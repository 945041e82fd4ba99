//! Answers to questions.

use serde_json::{Map, Value, json};

use super::{invalid_answer, matches_schema};
use crate::engine::Refusal;
use crate::state::Interrupt;

/// The answers, keyed by the id of their question. An answer contains such an object, or a list of `{id, answer}`.
pub(super) fn judge(interrupt: &Interrupt, value: &Value) -> Result<Value, Refusal> {
    let given = value.get("answers");
    let answer_to = |id: &str| match given {
        Some(Value::Object(answers)) => answers.get(id),
        Some(Value::Array(answers)) => {
            answers.iter().find(|answer| answer.get("id").and_then(Value::as_str) == Some(id))?.get("answer")
        }
        _ => None,
    };
    let questions = interrupt.data.get("questions").and_then(Value::as_array);
    let (mut answers, mut missing) = (Map::new(), Vec::new());
    for question in questions.into_iter().flatten() {
        let Some(id) = question.get("id").and_then(Value::as_str) else { continue };
        match answer_to(id).filter(|answer| !answer.is_null()) {
            None => missing.push(id),
            Some(answer) => {
                if let Some(schema) = question.get("schema") {
                    matches_schema(schema, answer)?;
                }
                answers.insert(id.to_owned(), answer.clone());
            }
        }
    }
    if missing.is_empty() {
        return Ok(json!({"answers": answers}));
    }
    Err(invalid_answer(
        "every question requires an answer",
        json!({"field": "resumeValue.answers", "missing": missing}),
    ))
}
