//! What a run of a guided session waits for, and the form with which a person answers it.

use std::sync::Arc;

use ::guided::WaitingRun;
use guide::engine::{AnswerOutcome, MAX_ANSWER_BYTES, PersonAnswer, Question};
use guide::record::NodeId;
use maud::{Markup, html};
use runs::{ApiCode, Refusal, Scope};

use super::guided::{self, ANSWER, SESSION};
use crate::call::PageRequest;
use crate::mount::BASE;
use crate::page::PageResponse;
use crate::parts;

/// The questions of a session that are open, each with its form.
pub(super) fn panel(call: &PageRequest, session_id: &str, waiting: &[WaitingRun]) -> Markup {
    html! {
        @for run in waiting {
            section.panel aria-label="Waiting for a person" {
                h2 { "Waiting for a person" }
                @if run.questions.iter().any(|(question, _)| question.is_approval) { (submitted(run)) }
                @for (question, answered) in &run.questions { (one(call, session_id, run, question, *answered)) }
            }
        }
    }
}

/// The notes and artifacts that an approval is about.
fn submitted(run: &WaitingRun) -> Markup {
    html! {
        @match &run.notes {
            Some(notes) => {
                p { "The agent submits these notes. An approval counts only for them." }
                div.markdown.quoted { (parts::markdown(notes)) }
            },
            None => p { "The attempt has no notes. An approval counts only for an attempt without notes." },
        }
        @if !run.artifacts.is_empty() {
            p { "It also submits these artifacts. An approval counts only for them." }
            @for artifact in &run.artifacts { (parts::json(artifact)) }
        }
    }
}

fn one(
    call: &PageRequest,
    session_id: &str,
    run: &WaitingRun,
    question: &Question,
    answered: Option<AnswerOutcome>,
) -> Markup {
    html! {
        h3 { (parts::cut(question.kind, 80)) " " code { (question.id) } }
        p { (question.what) }
        @if !question.caution.is_empty() { p.muted { (question.caution) } }
        @match answered {
            Some(AnswerOutcome::Given) => p.notice { "Answered. The run continues with the agent's next call." },
            Some(AnswerOutcome::Refused) => p.notice.wait { "Rejected. The agent receives this with its next call." },
            None => {},
        }
        @if call.may(Scope::ApprovalsRespond) {
            (form(call, session_id, run, question))
        } @else {
            p.notice { "Your key can view this, but not answer: that requires " code { "approvals:respond" } "." }
        }
    }
}

fn form(call: &PageRequest, session_id: &str, run: &WaitingRun, question: &Question) -> Markup {
    let words = format!("words-{}", question.id);
    let label = if question.needs_words { "Answer" } else { "Comment (optional)" };
    let accept = if question.needs_words { "Answer" } else { "Approve" };
    call.post_form(
        ANSWER,
        &[("sessionId", session_id)],
        "wide",
        &html! {
            input type="hidden" name="node" value=(run.node_id);
            input type="hidden" name="question" value=(question.id);
            label for=(words) { (label) }
            textarea id=(words) name="words" rows="2" maxlength=(MAX_ANSWER_BYTES) {}
            p.actions {
                button.primary type="submit" name="outcome" value="given" { (accept) }
                " "
                button.danger type="submit" name="outcome" value="refused" { "Reject" }
            }
        },
    )
}

/// Records the answer of the form, with the name of the key that the person signed in with.
pub(crate) async fn answer(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let session_id = guided::session_id(&call)?;
    let wrong = |message: &str| Refusal::new(ApiCode::ValidationError, message);
    let outcome = match call.form.text("outcome") {
        Some("given") => AnswerOutcome::Given,
        Some("refused") => AnswerOutcome::Refused,
        _ => return Err(wrong("`outcome` must be `given` or `refused`")),
    };
    let node = NodeId::parse(call.form.text("node").unwrap_or_default());
    let node = node.map_err(|_| wrong("`node` must be the id of the node that waits"))?;
    let mut words = call.form.text("words").map(|words| words.replace("\r\n", "\n"));
    if words.is_none() && outcome == AnswerOutcome::Refused {
        words = Some("Refused.".to_owned());
    }
    let given = PersonAnswer {
        dependency_id: call.form.text("question").unwrap_or_default().to_owned(),
        outcome,
        words,
        person: Some(call.caller.principal.to_string()),
    };
    let sessions = guided::of(&call).await?;
    sessions.answer_in_console(&session_id, &node, &given).await.map_err(guided::refused)?;
    let path = call.link(SESSION, &[("sessionId", session_id.as_str())]).unwrap_or_else(|| BASE.to_owned());
    Ok(PageResponse::See(format!("{path}{}", parts::query(&[("done", "answered")]))))
}
