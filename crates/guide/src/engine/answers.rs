//! Validates the user's answers to what a step needs.
//!
//! An answer is an artifact of kind `wr.user_answer`. It says which need it answers, who gave it, in which
//! words, and how it was received. If the caller sends it, it is only the caller's claim; a step can
//! [require](Step::require_person) that a person gives it directly.

use canon::budget;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::people::{AnswerOutcome, AnswerProvenance, Unanswered};
use super::reasons::Reason;
use crate::placeholder::is_placeholder;
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, SUGGESTED_FIX_BYTES};
use crate::record::{BlockReason, SessionId};
use crate::render::resolve;
use crate::workflow::compiled::Step;
use crate::workflow::needs::{ANSWER_KIND, Giver, Need, needs};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UserAnswer {
    answered_by: AnsweredBy,
    outcome: AnswerOutcome,
    /// The words of the answer. A secret is never included.
    answer: String,
    provenance: AnswerProvenance,
    #[serde(default, rename = "person")]
    _person: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnsweredBy {
    User,
    Coordinator,
}

/// All answers that count for an attempt.
pub(super) struct AttemptAnswers<'a> {
    /// The artifacts of the attempt: the caller's claims, then the answers of people.
    pub(super) sent: Vec<&'a Value>,
    /// The answers that people gave directly since the step became pending.
    pub(super) recorded: Vec<&'a Value>,
    /// Why a person who was asked did not answer.
    pub(super) unanswered: Option<Unanswered>,
    pub(super) session_id: &'a SessionId,
}

/// The unanswered needs of a step, each with the reason to block.
pub(super) fn unmet<'s>(
    step: &'s Step,
    answered: &AttemptAnswers<'_>,
    context: &Map<String, Value>,
) -> Vec<(Need<'s>, Reason)> {
    let needs = needs(step, context);
    // Report an answer with an unknown id; a typo would otherwise look like a missing answer.
    let strange = answers(&answered.sent).map(id_of).find(|id| needs.iter().all(|need| need.id != *id));
    let mut unmet = Vec::new();
    for need in needs {
        let answer = newest(&need, &answered.sent, &answered.recorded);
        let unanswered = answered.unanswered.filter(|_| need.giver == Giver::User);
        if let Err(fault) = judge(step, &need, answer, strange, unanswered) {
            unmet.push((need, reason(step, &need, &fault, answered.session_id, context)));
        }
    }
    unmet
}

/// Whether a person need not be asked: they already answered, or the coordinator gave an answer that it may
/// give.
pub(super) fn is_settled(step: &Step, need: &Need<'_>, sent: &[&Value], recorded: &[&Value]) -> bool {
    let answer = newest(need, sent, recorded);
    let claims = answer.is_some_and(claimed) && need.giver == Giver::User;
    !claims && judge(step, need, answer, None, None).is_ok()
}

/// The answer that counts: the last one that a person gave directly, otherwise the last one that the caller
/// sent. A caller cannot override a person's answer.
fn newest<'a>(need: &Need<'_>, sent: &[&'a Value], recorded: &[&'a Value]) -> Option<&'a Map<String, Value>> {
    let mut about: Vec<_> = answers(recorded).chain(answers(sent)).collect();
    about.retain(|answer| id_of(answer) == need.id);
    about.iter().rev().find(|answer| !claimed(answer)).or_else(|| about.last()).copied()
}

fn answers<'a>(artifacts: &[&'a Value]) -> impl Iterator<Item = &'a Map<String, Value>> {
    let objects = artifacts.iter().filter_map(|artifact| artifact.as_object());
    objects.filter(|artifact| artifact.get("kind").and_then(Value::as_str) == Some(ANSWER_KIND))
}

fn id_of(answer: &Map<String, Value>) -> &str {
    answer.get("dependencyId").and_then(Value::as_str).unwrap_or_default()
}

fn claimed(answer: &Map<String, Value>) -> bool {
    answer.get("provenance").and_then(Value::as_str) == Some("claimed")
}

/// Why an answer does not satisfy a need.
fn judge(
    step: &Step,
    need: &Need<'_>,
    answer: Option<&Map<String, Value>>,
    strange: Option<&str>,
    unanswered: Option<Unanswered>,
) -> Result<(), String> {
    let Some(artifact) = answer else {
        let strange = strange.map(|id| {
            let shown: String = id.chars().take(64).collect();
            format!(" (an answer to {shown:?} was sent, which this step does not ask for)")
        });
        let nothing = match unanswered {
            None => "no answer was sent".to_owned(),
            Some(why) => describe_unanswered(why),
        };
        return Err(format!("{nothing}{}", strange.unwrap_or_default()));
    };
    let mut members = artifact.clone();
    members.retain(|name, _| name != "kind" && name != "dependencyId");
    let answer: UserAnswer = serde_json::from_value(Value::Object(members))
        .map_err(|_| format!("the answer is invalid: {}", answer_fault(artifact)))?;
    if answer.answer.trim().is_empty() || is_placeholder(&answer.answer) {
        return Err("`answer` is empty or still the placeholder".to_owned());
    }
    if answer.answered_by == AnsweredBy::Coordinator && need.giver == Giver::User {
        return Err("the coordinator answered, but only the user can".to_owned());
    }
    if step.require_person && need.giver == Giver::User && answer.provenance == AnswerProvenance::Claimed {
        let asked = unanswered.map(|why| format!("; {}", describe_unanswered(why)));
        return Err(format!(
            "the answer was sent by the caller, but this step requires that a person gives it directly{}",
            asked.unwrap_or_default()
        ));
    }
    match answer.outcome {
        AnswerOutcome::Given => Ok(()),
        AnswerOutcome::Refused => {
            let words: String = answer.answer.trim().chars().take(120).collect();
            Err(format!("the answer is no: {words:?}"))
        }
    }
}

fn describe_unanswered(why: Unanswered) -> String {
    match why {
        Unanswered::TimedOut { seconds } => {
            format!("the person was asked and did not answer within {seconds} seconds")
        }
        Unanswered::Dismissed => "the person was asked and closed the question without an answer".to_owned(),
        Unanswered::Failed => "the client could not get an answer from the person".to_owned(),
    }
}

/// What is wrong with an invalid answer.
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
        return "`answer` is missing; it must be a string".to_owned();
    }
    let known = ["kind", "dependencyId", "answeredBy", "outcome", "answer", "provenance", "person"];
    let unknown = artifact.keys().find(|key| !known.contains(&key.as_str()));
    unknown.map_or_else(
        || "a field has the wrong type".to_owned(),
        |key| format!("`{}` is an unknown field", key.chars().take(60).collect::<String>()),
    )
}

fn reason(
    step: &Step,
    need: &Need<'_>,
    fault: &str,
    session_id: &SessionId,
    context: &Map<String, Value>,
) -> Reason {
    let detail = need.reason;
    let block = BlockReason::UserOnlyDependency { detail, step_id: step.step_id.clone() };
    let mut reason = Reason::of(block, &step.step_id);
    let whose = match need.giver {
        Giver::User => "from the user",
        Giver::Coordinator => "from the coordinator or the user",
    };
    let (kind, what) = (need.kind(), resolve(need.what, context));
    let message = format!("This step needs {kind} {whose} (`{}`), and {fault}. Needed: {what}", need.id);
    reason.blocker.message = budget::truncate(&message, BLOCKER_MESSAGE_BYTES).into_owned();
    let fix = if step.require_person && need.giver == Giver::User {
        format!(
            "The run waits for a person. Tell the user to answer on the page of session {session_id} in the console \
             (`/console/sessions/{session_id}`), then advance again with the step's output. A client that \
             supports elicitation asks the user itself when you advance again. Do not send a `wr.user_answer`: it is not \
             accepted here. After a refusal, change what was refused first.",
        )
    } else {
        format!(
            "Ask and wait for the answer. Do not answer for the user. {}Then advance again with the step's other output, and \
             this in output.artifacts: {}. outcome is \"given\" or \"refused\"; after a refusal, change what was \
             refused and ask again. The user can also answer in the console (`/console/sessions/{session_id}`); then \
             advance again without the artifact.",
            need.caution(),
            need.example()
        )
    };
    reason.blocker.suggested_fix = Some(budget::truncate(&fix, SUGGESTED_FIX_BYTES).into_owned());
    reason
}
