//! Asks the user of a client for the answers that a step needs (elicitation), before the call is made.
//!
//! ```text
//!  continue_workflow ─► does it lack only a person's answer? ─► the client asks its user ─► answer and step: one append
//!                                                                    └─ no answer in time ─► the step is blocked, and says so
//! ```
//!
//! Up to edition 2025-11-25 the server sends `elicitation/create` while the call waits. From 2026-07-28 on,
//! the call is answered with `input_required`, and the client repeats it with the answers. Nothing is stored
//! in between: `requestState` is a digest of the call and its questions, so answers to other questions, or
//! for an output that was changed since, do not count.

use std::collections::BTreeMap;
use std::time::Duration;

use canon::budget::truncate;
use canon::canonical;
use canon::digest::Digest;
use guide::engine::{AnswerOutcome, MAX_ANSWER_BYTES, PeopleAnswers, PersonAnswer, Question, Unanswered};
use guide::record::budgets::WHOLE_NOTES_BYTES;
use guide::workflow::needs;
use guided::Questions;
use guided::api::ContinueRequest;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// How long a person may take to answer the questions of one call.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// How the user of a client can be asked.
pub(super) enum AskChannel {
    /// Not at all: the client does not support elicitation.
    Unsupported,
    /// With a request to the client while its call waits.
    Request(Peer<RoleServer>),
    /// With the result of the call, which the client then repeats.
    Result { state: Option<String>, responses: InputResponses },
}

impl AskChannel {
    /// How the client of this call can ask its user.
    pub(super) fn of(request: &mut CallToolRequestParams, context: &RequestContext<RoleServer>) -> Self {
        let elicitation = context.client_capabilities().and_then(|able| able.elicitation);
        // A client that does not list its modes supports forms.
        if !elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()) {
            return Self::Unsupported;
        }
        let newest = ProtocolVersion::V_2026_07_28;
        if context.protocol_version().is_some_and(|version| version.as_str() >= newest.as_str()) {
            let responses = request.input_responses.take().unwrap_or_default();
            return Self::Result { state: request.request_state.take(), responses };
        }
        Self::Request(context.peer.clone())
    }

    pub(super) const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported)
    }
}

pub(super) enum AskResult {
    /// The call can be made.
    Answered(PeopleAnswers),
    /// The client must ask first.
    InputRequired(InputRequiredResult),
}

/// Asks the user of a client.
pub(super) async fn ask(
    channel: AskChannel,
    request: &ContinueRequest,
    questions: &Questions,
    timeout: Duration,
) -> AskResult {
    match channel {
        AskChannel::Unsupported => AskResult::Answered(PeopleAnswers::default()),
        AskChannel::Request(peer) => AskResult::Answered(ask_now(&peer, request, questions, timeout).await),
        AskChannel::Result { state, responses } => {
            let current = state_of(request, questions);
            if state.as_ref() == Some(&current) {
                return AskResult::Answered(read_all(&questions.questions, &responses));
            }
            let asked = questions.questions.iter().filter_map(|question| {
                let params = params(request, questions, question)?;
                let elicits = InputRequest::Elicitation(ElicitRequest::new(params));
                Some((question.id.clone(), elicits))
            });
            AskResult::InputRequired(InputRequiredResult::new(
                Some(asked.collect::<BTreeMap<_, _>>()),
                Some(current),
            ))
        }
    }
}

/// Asks one question after the other, all within the time limit of the call.
async fn ask_now(
    peer: &Peer<RoleServer>,
    request: &ContinueRequest,
    questions: &Questions,
    timeout: Duration,
) -> PeopleAnswers {
    let deadline = Instant::now() + timeout;
    let mut people = PeopleAnswers::default();
    for question in &questions.questions {
        let answer = match params(request, questions, question) {
            Some(params) => {
                let left = deadline.saturating_duration_since(Instant::now());
                elicit(peer, params, left, timeout).await.and_then(|result| read(question, result))
            }
            None => Err(Unanswered::Failed),
        };
        match answer {
            Ok(answer) => people.answers.push(answer),
            Err(why) => {
                people.unanswered = Some(why);
                return people;
            }
        }
    }
    people
}

async fn elicit(
    peer: &Peer<RoleServer>,
    params: ElicitRequestParams,
    left: Duration,
    timeout: Duration,
) -> Result<ElicitResult, Unanswered> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::with_timeout(left)).await;
    match sent.map_err(|_| Unanswered::Failed)?.await_response().await {
        Ok(ClientResult::ElicitResult(result)) => Ok(result),
        Err(ServiceError::Timeout { .. }) => Err(Unanswered::TimedOut { seconds: timeout.as_secs() }),
        Ok(_) | Err(_) => Err(Unanswered::Failed),
    }
}

/// The answers that were sent with a call. The first question without an answer determines why answers are
/// missing.
fn read_all(questions: &[Question], responses: &InputResponses) -> PeopleAnswers {
    let mut people = PeopleAnswers::default();
    for question in questions {
        let result = responses.get(&question.id).cloned().map(serde_json::from_value::<ElicitResult>);
        let read = match result {
            Some(Ok(result)) => read(question, result),
            Some(Err(_)) => Err(Unanswered::Failed),
            None => Err(Unanswered::Dismissed),
        };
        match read {
            Ok(answer) => people.answers.push(answer),
            Err(why) => {
                people.unanswered.get_or_insert(why);
            }
        }
    }
    people
}

/// Reads a completed form. Declining the form refuses what it asks for.
fn read(question: &Question, result: ElicitResult) -> Result<PersonAnswer, Unanswered> {
    let content = result.content.unwrap_or_default();
    let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let (outcome, words) = match result.action {
        ElicitationAction::Accept if question.needs_words => {
            let words = text("answer").filter(|words| !words.trim().is_empty()).ok_or(Unanswered::Failed)?;
            (AnswerOutcome::Given, Some(words))
        }
        ElicitationAction::Accept => match text("decision").as_deref() {
            Some("approve") => (AnswerOutcome::Given, text("comment")),
            Some("refuse") => (AnswerOutcome::Refused, text("comment")),
            _ => return Err(Unanswered::Failed),
        },
        ElicitationAction::Decline => (AnswerOutcome::Refused, Some("Declined.".to_owned())),
        ElicitationAction::Cancel => return Err(Unanswered::Dismissed),
        _ => return Err(Unanswered::Failed),
    };
    Ok(PersonAnswer { dependency_id: question.id.clone(), outcome, words, person: None })
}

/// The form of a question. `None` only if the protocol library cannot read our own schema.
fn params(
    request: &ContinueRequest,
    questions: &Questions,
    question: &Question,
) -> Option<ElicitRequestParams> {
    let mut message = format!(
        "{}\nStep: {}\n\nThe run needs {} of you: {}",
        questions.run, questions.step_title, question.kind, question.what
    );
    if !question.caution.is_empty() {
        message.push_str("\n\n");
        message.push_str(question.caution);
    }
    if let Some(notes) = request.notes_markdown.as_deref().map(str::trim).filter(|notes| !notes.is_empty()) {
        message.push_str("\n\nWhat the agent submits for this step:\n\n");
        // All that can be accepted: a person must not approve what they cannot read.
        message.push_str(&guide::render::quoted(&truncate(notes, WHOLE_NOTES_BYTES), "> "));
    }
    let artifacts = request.artifacts.iter().filter(|artifact| !needs::is_answer(artifact));
    let artifacts: Vec<_> = artifacts.map(canonical::string_of).collect();
    if question.is_approval && !artifacts.is_empty() {
        message.push_str("\n\nThe artifacts that it submits, as JSON:\n\n");
        message.push_str(&guide::render::quoted(&truncate(&artifacts.join("\n"), WHOLE_NOTES_BYTES), "> "));
    }
    let requested_schema = ElicitationSchema::from_json_schema(form(question)).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

fn form(question: &Question) -> Map<String, Value> {
    let form = if question.needs_words {
        json!({
            "type": "object",
            "properties": {"answer": {
                "type": "string", "title": "Answer", "description": "Recorded in the log of the run.",
                "minLength": 1, "maxLength": MAX_ANSWER_BYTES,
            }},
            "required": ["answer"],
        })
    } else {
        json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "title": "Decision", "enum": ["approve", "refuse"]},
                "comment": {
                    "type": "string", "title": "Comment", "description": "Optional. Recorded in the log of \
                     the run.",
                    "maxLength": MAX_ANSWER_BYTES,
                },
            },
            "required": ["decision"],
        })
    };
    match form {
        Value::Object(form) => form,
        _ => Map::new(),
    }
}

/// The digest that answers are bound to: the complete call and its questions.
fn state_of(request: &ContinueRequest, questions: &Questions) -> String {
    let asked: Vec<_> = questions.questions.iter().map(|question| [&question.id, &question.what]).collect();
    let bound = json!({
        "handle": format!("{:?}", request.handle),
        "notes": request.notes_markdown,
        "artifacts": request.artifacts,
        "context": request.context,
        "preferences": format!("{:?}", request.preferences),
        "asked": asked,
    });
    Digest::of_bytes(canonical::string_of(&bound).as_bytes()).to_hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(needs_words: bool) -> Question {
        let is_approval = !needs_words;
        Question {
            id: "q".to_owned(),
            kind: "approval",
            what: "Go?".to_owned(),
            caution: "",
            needs_words,
            is_approval,
        }
    }

    /// Finding G2: only what a person said counts as their answer.
    #[test]
    fn what_a_form_says() {
        use AnswerOutcome::{Given, Refused};
        let approve = json!({"decision": "approve", "comment": "fine"});
        let cases = [
            (false, json!({"action": "accept", "content": approve}), Ok((Given, Some("fine")))),
            (false, json!({"action": "accept", "content": {"decision": "refuse"}}), Ok((Refused, None))),
            (false, json!({"action": "decline"}), Ok((Refused, Some("Declined.")))),
            (false, json!({"action": "cancel"}), Err(Unanswered::Dismissed)),
            (false, json!({"action": "accept"}), Err(Unanswered::Failed)),
            (false, json!({"action": "accept", "content": {"decision": "maybe"}}), Err(Unanswered::Failed)),
            (true, json!({"action": "accept", "content": {"answer": "B"}}), Ok((Given, Some("B")))),
            (true, json!({"action": "accept", "content": {"answer": " "}}), Err(Unanswered::Failed)),
        ];
        for (needs_words, result, expected) in cases {
            let read = read(&question(needs_words), serde_json::from_value(result.clone()).unwrap());
            let found =
                read.as_ref().map(|answer| (answer.outcome, answer.words.as_deref())).map_err(|why| *why);
            assert_eq!(found, expected, "{result}");
        }
    }

    #[test]
    fn both_forms_are_schemas_that_the_protocol_allows() {
        for needs_words in [false, true] {
            let read = ElicitationSchema::from_json_schema(form(&question(needs_words))).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap()["type"], "object");
        }
    }
}
