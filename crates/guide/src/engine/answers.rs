//! What the user answered, as far as a caller tells, and what is still to be asked.
//!
//! An answer is an artifact of the kind `wr.user_answer`: it says which need it is about, who gave
//! it and in which words, and stands in the log like every artifact. The engine cannot hear the
//! user. What it can do is never to go on in silence.

use canon::budget;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reasons::Reason;
use crate::placeholder::is_placeholder;
use crate::record::BlockReason;
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, SUGGESTED_FIX_BYTES};
use crate::render::resolve;
use crate::workflow::compiled::Step;
use crate::workflow::needs::{ANSWER_KIND, Giver, Need, needs};

/// An answer, as a caller sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    answered_by: AnsweredBy,
    outcome: Outcome,
    /// What was said. A secret itself is never part of it.
    answer: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnsweredBy {
    User,
    Coordinator,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Given,
    Refused,
}

/// The needs of a step that no answer meets, each with the reason why it stops a run.
pub(super) fn unmet<'s>(
    step: &'s Step,
    artifacts: &[Value],
    context: &Map<String, Value>,
) -> Vec<(Need<'s>, Reason)> {
    let needs = needs(step, context);
    let sent: Vec<&Map<String, Value>> = artifacts
        .iter()
        .filter_map(Value::as_object)
        .filter(|artifact| artifact.get("kind").and_then(Value::as_str) == Some(ANSWER_KIND))
        .collect();
    let id_of = |artifact: &Map<String, Value>| {
        artifact.get("dependencyId").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    // A slip in the id would otherwise look like silence.
    let strange =
        sent.iter().map(|artifact| id_of(artifact)).find(|id| needs.iter().all(|need| need.id != id));
    let mut unmet = Vec::new();
    for need in needs {
        // Somebody who answers twice means the last answer.
        let answer = sent.iter().rev().find(|artifact| id_of(artifact) == need.id);
        if let Err(fault) = judge(&need, answer.copied(), strange.as_deref()) {
            unmet.push((need, reason(step, &need, &fault, context)));
        }
    }
    unmet
}

/// Why an answer does not meet a need.
fn judge(need: &Need<'_>, answer: Option<&Map<String, Value>>, strange: Option<&str>) -> Result<(), String> {
    let Some(artifact) = answer else {
        let strange = strange.map(|id| {
            let shown: String = id.chars().take(64).collect();
            format!(" (an answer to {shown:?} was sent, which this step does not ask for)")
        });
        return Err(format!("no answer was sent{}", strange.unwrap_or_default()));
    };
    let mut members = artifact.clone();
    members.retain(|name, _| name != "kind" && name != "dependencyId");
    let answer: Answer = serde_json::from_value(Value::Object(members))
        .map_err(|_| format!("the answer is invalid: {}", answer_fault(artifact)))?;
    if answer.answer.trim().is_empty() || is_placeholder(&answer.answer) {
        return Err("the answer does not say what was said".to_owned());
    }
    if answer.answered_by == AnsweredBy::Coordinator && need.giver == Giver::User {
        return Err("it was answered by the coordinator, and only the user can".to_owned());
    }
    match answer.outcome {
        Outcome::Given => Ok(()),
        Outcome::Refused => {
            let words: String = answer.answer.trim().chars().take(120).collect();
            Err(format!("the answer is no: {words:?}"))
        }
    }
}

/// What is wrong with an answer that is not one, in words.
fn answer_fault(artifact: &Map<String, Value>) -> String {
    let choices = [("answeredBy", &["user", "coordinator"][..]), ("outcome", &["given", "refused"][..])];
    for (member, allowed) in choices {
        let quoted: Vec<String> = allowed.iter().map(|one| format!("{one:?}")).collect();
        match artifact.get(member).and_then(Value::as_str) {
            Some(value) if allowed.contains(&value) => {}
            Some(value) => {
                let shown: String = value.chars().take(60).collect();
                return format!("`{member}` is {shown:?}; it must be {}", quoted.join(" or "));
            }
            None => return format!("`{member}` is missing; it must be {}", quoted.join(" or ")),
        }
    }
    if !artifact.get("answer").is_some_and(Value::is_string) {
        return "`answer` is missing; it must be text".to_owned();
    }
    let known = ["kind", "dependencyId", "answeredBy", "outcome", "answer"];
    let unknown = artifact.keys().find(|key| !known.contains(&key.as_str()));
    unknown.map_or_else(
        || "it has a member of another type".to_owned(),
        |key| format!("`{}` is not a member of it", key.chars().take(60).collect::<String>()),
    )
}

fn reason(step: &Step, need: &Need<'_>, fault: &str, context: &Map<String, Value>) -> Reason {
    let detail = need.reason;
    let block = BlockReason::UserOnlyDependency { detail, step_id: step.step_id.clone() };
    let mut reason = Reason::of(block, &step.step_id);
    let whose = match need.giver {
        Giver::User => "of the user",
        Giver::Coordinator => "of the coordinator or the user",
    };
    let (kind, what) = (need.kind(), resolve(need.what, context));
    let message = format!("This step needs {kind} {whose} (`{}`), and {fault}. Needed: {what}", need.id);
    reason.blocker.message = budget::truncate(&message, BLOCKER_MESSAGE_BYTES).into_owned();
    let fix = format!(
        "Ask, and wait: do not answer for anybody. {}Then advance again with the token of this reply, the step's other \
         output, and this in output.artifacts: {}. outcome is \"given\" or \"refused\"; after a no, change what was refused \
         and ask again.",
        need.caution(),
        need.example()
    );
    reason.blocker.suggested_fix = Some(budget::truncate(&fix, SUGGESTED_FIX_BYTES).into_owned());
    reason
}
