//! Validates the user's answers to what a step needs.
//!
//! An answer is an artifact of kind `wr.user_answer`. It says which need it answers, who gave it, in which
//! words, and how it was received. If the caller sends it, it is only the caller's claim; a step can
//! [require](Step::require_person) that a person gives it directly.

use canon::budget;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::members::{Member, fault};
use super::people::{
    ARTIFACTS_MEMBER, AnswerOutcome, AnswerProvenance, NOTES_MEMBER, SubmittedOutput, Unanswered,
};
use super::reasons::Reason;
use crate::placeholder::is_placeholder;
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, SUGGESTED_FIX_BYTES};
use crate::record::{BlockReason, SessionId};
use crate::render::resolve;
use crate::workflow::compiled::Step;
use crate::workflow::needs::{ANSWER_KIND, Giver, Need, needs};

/// The members of an answer. The engine adds those that are not the caller's.
const MEMBERS: [Member; 8] = [
    Member::choice("answeredBy", &["user", "coordinator"]),
    Member::choice("outcome", &["given", "refused"]),
    Member::text("answer"),
    Member::text("dependencyId").optional(),
    Member::text("provenance").optional(),
    Member::text("person").optional(),
    Member::text(NOTES_MEMBER).optional(),
    Member::text(ARTIFACTS_MEMBER).optional(),
];

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
    #[serde(default, rename = "notesSha256")]
    _notes_sha256: Option<String>,
    #[serde(default, rename = "artifactsSha256")]
    _artifacts_sha256: Option<String>,
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
    /// The attempt's output, which an approval must be bound to. `None` if the attempt lacks notes that the step
    /// requires: it is blocked anyway, and an approval given before is not lost.
    pub(super) output: Option<SubmittedOutput>,
}

/// The answer that counts for a need.
enum Counted<'a> {
    Answer(&'a Map<String, Value>),
    /// A person approved an attempt with other notes or artifacts.
    Outdated,
    Missing,
}

impl AttemptAnswers<'_> {
    /// Whether a person need not be asked: they already answered, or the coordinator gave an answer that it may
    /// give.
    pub(super) fn is_settled(&self, step: &Step, need: &Need<'_>) -> bool {
        let counted = self.counted(need);
        let claims =
            matches!(counted, Counted::Answer(answer) if claimed(answer)) && need.giver == Giver::User;
        !claims && judge(step, need, &counted, None, None).is_ok()
    }

    /// The last answer that a person gave directly, without approvals of other output; otherwise the last one that the
    /// caller sent. A caller cannot override a person's answer.
    fn counted(&self, need: &Need<'_>) -> Counted<'_> {
        let about = || {
            let all = answers(&self.recorded).chain(answers(&self.sent));
            all.filter(|answer| id_of(answer) == need.id)
        };
        let direct: Vec<_> = about().filter(|answer| !claimed(answer)).collect();
        let is_outdated = |answer: &Map<String, Value>| {
            self.output.is_some_and(|output| is_outdated_approval(need, answer, output))
        };
        let Some((last, earlier)) = direct.split_last() else {
            return about().last().map_or(Counted::Missing, Counted::Answer);
        };
        // Of several approvals, the one of this output counts, unless the person refused after it.
        let approvals = earlier.iter().rev().take_while(|answer| is_given(answer));
        let valid = std::iter::once(last).chain(approvals).find(|answer| !is_outdated(answer));
        let claim = || about().filter(|answer| claimed(answer)).last();
        valid.copied().or_else(claim).map_or(Counted::Outdated, Counted::Answer)
    }
}

/// Whether an answer approves another output than this.
pub(super) fn is_outdated(need: &Need<'_>, answer: &Value, output: SubmittedOutput) -> bool {
    answer.as_object().is_some_and(|answer| is_outdated_approval(need, answer, output))
}

/// A refusal is never outdated: it counts until the person answers again.
fn is_outdated_approval(need: &Need<'_>, answer: &Map<String, Value>, output: SubmittedOutput) -> bool {
    need.is_approval() && is_given(answer) && output.differs_from(answer)
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
        let answer = answered.counted(&need);
        let unanswered = answered.unanswered.filter(|_| need.giver == Giver::User);
        if let Err(fault) = judge(step, &need, &answer, strange, unanswered) {
            unmet.push((need, reason(step, &need, &fault, answered.session_id, context)));
        }
    }
    unmet
}

fn answers<'a>(artifacts: &[&'a Value]) -> impl Iterator<Item = &'a Map<String, Value>> {
    let objects = artifacts.iter().filter_map(|artifact| artifact.as_object());
    objects.filter(|artifact| artifact.get("kind").and_then(Value::as_str) == Some(ANSWER_KIND))
}

fn id_of(answer: &Map<String, Value>) -> &str {
    answer.get("dependencyId").and_then(Value::as_str).unwrap_or_default()
}

fn is_given(answer: &Map<String, Value>) -> bool {
    answer.get("outcome").and_then(Value::as_str) == Some("given")
}

fn claimed(answer: &Map<String, Value>) -> bool {
    answer.get("provenance").and_then(Value::as_str) == Some("claimed")
}

/// Why an answer does not satisfy a need.
fn judge(
    step: &Step,
    need: &Need<'_>,
    answer: &Counted<'_>,
    strange: Option<&str>,
    unanswered: Option<Unanswered>,
) -> Result<(), String> {
    let artifact = match answer {
        Counted::Answer(artifact) => *artifact,
        Counted::Outdated => {
            let asked = unanswered.map(|why| format!("; {}", describe_unanswered(why)));
            let outdated = "a person approved it with other notes or artifacts; an approval counts only for those that the person saw";
            return Err(format!("{outdated}{}", asked.unwrap_or_default()));
        }
        Counted::Missing => {
            let strange = strange.map(|id| {
                let shown: String = id.chars().take(64).collect();
                format!(" (an answer to {shown:?} was sent, which this step does not ask for)")
            });
            let nothing = match unanswered {
                None => "no answer was sent".to_owned(),
                Some(why) => describe_unanswered(why),
            };
            return Err(format!("{nothing}{}", strange.unwrap_or_default()));
        }
    };
    let mut members = artifact.clone();
    members.retain(|name, _| name != "kind" && name != "dependencyId");
    let answer: UserAnswer = serde_json::from_value(Value::Object(members))
        .map_err(|_| format!("the answer is invalid: {}", fault(artifact, &MEMBERS)))?;
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
    let output = if need.is_approval() {
        "the same notes and artifacts: an approval counts only for those that the person saw"
    } else {
        "the step's output"
    };
    let fix = if step.require_person && need.giver == Giver::User {
        format!(
            "The run waits for a person. Tell the user to answer on the page of session {session_id} in the console \
             (`/console/sessions/{session_id}`), then advance again with {output}. A client that \
             supports elicitation asks the user itself when you advance again. Do not send a `wr.user_answer`: it is not \
             accepted here. After a refusal, change what was refused first.",
        )
    } else {
        format!(
            "Ask and wait for the answer. Do not answer for the user. {}Then advance again with the step's other output, and \
             this in output.artifacts: {}. outcome is \"given\" or \"refused\"; after a refusal, change what was \
             refused and ask again. The user can also answer in the console (`/console/sessions/{session_id}`); then \
             advance again with {output}, without the artifact.",
            need.caution(),
            need.example()
        )
    };
    reason.blocker.suggested_fix = Some(budget::truncate(&fix, SUGGESTED_FIX_BYTES).into_owned());
    reason
}
