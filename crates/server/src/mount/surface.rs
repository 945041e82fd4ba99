//! What a client is asked or notified of while its run waits.
//!
//! A clarification can be answered by the client's user, like another argument of the call. Every other
//! interrupt is a decision of a trusted person. Input over MCP is not trusted, so those have no form here
//! that could be turned into an answer.

use flow::definition::exposed::ExposedType;
use flow::definition::{Definition, Node, NodeType};
use flow::id::{NodeId, RunId};
use flow::interrupt::{AUTH_REQUIRED, InterruptKind};
use flow::state::Interrupt;
use runs::{Caller, Refusal, Runs, Scope};
use serde_json::{Map, Value, json};

use super::form::{Form, short};

/// The id of a supervisor's own question. Other questions of a dispatcher ask to confirm a decision with low
/// confidence, and need a trusted person.
const SUPERVISORS_QUESTION: &str = "answer";
/// The maximum length of a shown title, in characters.
const MAX_TITLE_CHARACTERS: usize = 200;

/// What to send to a client for an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elicitation {
    /// Questions to answer.
    Answers {
        form: Form,
        /// Whether declining counts as an answer.
        may_refuse: bool,
    },
    /// A notice about who must answer.
    Notice(String),
    /// Nothing: the run waits for an external event.
    Nothing,
}

/// Where people answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerUrls {
    /// The public URL of this host.
    pub(crate) public_url: String,
    /// Whether the console is enabled.
    pub(crate) console: bool,
}

impl AnswerUrls {
    /// Where a person answers the interrupt of a node.
    pub(super) fn answer(&self, run_id: &RunId, node_id: &NodeId) -> String {
        let url = &self.public_url;
        let api = format!("{url}/v1/runs/{run_id}/interrupts/{node_id}");
        if self.console { format!("{url}/console/approvals/{run_id} in a browser, or {api}") } else { api }
    }

    pub(super) fn run(&self, run_id: &RunId) -> String {
        format!("{}/v1/runs/{run_id}", self.public_url)
    }
}

/// What to send to the client that started the run for an open interrupt.
pub(super) async fn elicitation(
    runs: &Runs,
    caller: &Caller,
    run_id: &RunId,
    open: &Interrupt,
    urls: &AnswerUrls,
) -> Result<Elicitation, Refusal> {
    if open.kind == InterruptKind::ExternalEvent {
        return Ok(Elicitation::Nothing);
    }
    let definition = runs.queries().definition_of(caller, run_id).await?;
    // As readers see it, without sensitive values.
    let (events, _) = runs.queries().event_page(caller, run_id, open.sequence, 1).await?;
    let asked = events.into_iter().next().map(|event| event.payload).unwrap_or_default();
    // Answering requires its own permission, on every channel.
    let may_answer = caller.may(Scope::ApprovalsRespond);
    let answers = if may_answer { answers(&definition, open, &asked) } else { None };
    Ok(answers.unwrap_or_else(|| Elicitation::Notice(notice(&definition, run_id, open, &asked, urls))))
}

/// The form of a clarification that the client's user may answer.
fn answers(definition: &Definition, open: &Interrupt, asked: &Map<String, Value>) -> Option<Elicitation> {
    let node = node(definition, open).filter(|_| open.kind == InterruptKind::Clarification)?;
    let data = asked.get("data")?;
    // It must be answered by a person with a verified identity.
    let profiles = [node.raw_config.get("profile"), data.get("profile")];
    if profiles.into_iter().flatten().any(|profile| profile == AUTH_REQUIRED) {
        return None;
    }
    // Sensitive values are not requested over MCP.
    if !node.sensitive_outputs.is_empty() {
        return None;
    }
    let questions = data.get("questions")?;
    let is_handler = node.kind == NodeType::Exposed(ExposedType::Elicitation);
    if node.kind == NodeType::Dispatch
        && questions.as_array()?.iter().any(|question| question["id"] != SUPERVISORS_QUESTION)
    {
        return None;
    }
    let schema = asked.get("resumeSchema").filter(|_| is_handler);
    let required = schema.and_then(|schema| schema.pointer("/anyOf/0/properties/answers/required"));
    let form = Form::of(&definition.name, questions, required)?;
    Some(Elicitation::Answers { form, may_refuse: is_handler })
}

/// Who must answer, and where. It contains nothing about the decision itself, because the client does not
/// decide it.
fn notice(
    definition: &Definition,
    run_id: &RunId,
    open: &Interrupt,
    asked: &Map<String, Value>,
    urls: &AnswerUrls,
) -> String {
    let title = asked.get("data").and_then(|data| data.get("title")).and_then(Value::as_str);
    let title = title.map(|title| format!(" ({})", short(title, MAX_TITLE_CHARACTERS))).unwrap_or_default();
    let (workflow, node_id, kind) =
        (short(&definition.name, MAX_TITLE_CHARACTERS), &open.node_id, kind(open.kind));
    format!(
        "{workflow}: the run {run_id} waits for {kind} at `{node_id}`{title}. It cannot be answered here: \
         a person with permission answers at {}. Accept to keep waiting. Decline to end this call now; the \
         run keeps waiting.",
        urls.answer(run_id, node_id),
    )
}

const fn kind(kind: InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval => "an approval",
        InterruptKind::Clarification => "answers to its questions",
        InterruptKind::LowConfidence => "a person to confirm a decision with low confidence",
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => "a reply in a conversation",
        InterruptKind::ExternalEvent | InterruptKind::Custom => "input",
    }
}

fn node<'d>(definition: &'d Definition, open: &Interrupt) -> Option<&'d Node> {
    definition.nodes.iter().find(|node| node.id == open.node_id)
}

/// The parameters of `elicitation/create`.
pub(super) fn params(message: &str, schema: Option<&Value>, run_id: &RunId, node_id: &NodeId) -> Value {
    let nothing = json!({"type": "object", "properties": {}});
    json!({
        "message": message,
        "requestedSchema": schema.unwrap_or(&nothing),
        "_meta": {"runId": run_id, "nodeId": node_id},
    })
}
