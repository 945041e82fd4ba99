//! What a run waits for, as its client is told of it.
//!
//! A clarification is something that the client's user may answer, as another argument of the call. Everything else is a decision of
//! somebody who is trusted: whatever comes in over MCP is not, and so there is no form for it here that could be turned into an answer.

use flow::definition::exposed::ExposedType;
use flow::definition::{Definition, Node, NodeType};
use flow::id::{NodeId, RunId};
use flow::interrupt::{AUTH_REQUIRED, InterruptKind};
use flow::state::Interrupt;
use host::runs::{Caller, Refusal, Runs, Scope};
use serde_json::{Map, Value, json};

use super::form::{Form, short};

/// The id of the question that a supervisor's own words are asked under. Other questions of a dispatcher are whether a decision may stand
/// that nobody is sure of, and those are for whoever is trusted.
const SUPERVISORS_QUESTION: &str = "answer";
/// The longest title that is shown, in characters.
const MAX_TITLE_CHARACTERS: usize = 200;

/// What is wanted of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// Answers to questions.
    Answers {
        /// The questions.
        form: Form,
        /// Whether not to answer is an answer too.
        may_refuse: bool,
    },
    /// Nothing but that it knows who is waited for.
    Notice(String),
    /// Nothing: something outside happens, or does not.
    Nothing,
}

/// Where people answer.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The address of this host.
    pub(crate) public_url: String,
    /// Whether there are pages for people.
    pub(crate) console: bool,
}

impl Places {
    /// Where a person answers what a node waits for.
    pub(super) fn answer(&self, run_id: &RunId, node_id: &NodeId) -> String {
        let url = &self.public_url;
        let api = format!("{url}/v1/runs/{run_id}/interrupts/{node_id}");
        if self.console { format!("{url}/approvals/{run_id} in a browser, or {api}") } else { api }
    }

    pub(super) fn run(&self, run_id: &RunId) -> String {
        format!("{}/v1/runs/{run_id}", self.public_url)
    }
}

/// What an open interrupt of a run is to the client that began the run.
pub(super) async fn wanted(
    runs: &Runs,
    caller: &Caller,
    run_id: &RunId,
    open: &Interrupt,
    places: &Places,
) -> Result<Wanted, Refusal> {
    if open.kind == InterruptKind::ExternalEvent {
        return Ok(Wanted::Nothing);
    }
    let definition = runs.definition_of(caller, run_id).await?;
    // As readers see it: what the author hides is not there.
    let (events, _) = runs.event_page(caller, run_id, open.sequence, 1).await?;
    let asked = events.into_iter().next().map(|event| event.payload).unwrap_or_default();
    // Answering has a right of its own, however the answer comes.
    let may_answer = caller.may(Scope::ApprovalsRespond);
    let answers = if may_answer { answers(&definition, open, &asked) } else { None };
    Ok(answers.unwrap_or_else(|| Wanted::Notice(notice(&definition, run_id, open, &asked, places))))
}

/// The form of a clarification that the client's user may answer.
fn answers(definition: &Definition, open: &Interrupt, asked: &Map<String, Value>) -> Option<Wanted> {
    let node = node(definition, open).filter(|_| open.kind == InterruptKind::Clarification)?;
    let data = asked.get("data")?;
    // Of somebody who has to have proved who they are.
    let profiles = [node.raw_config.get("profile"), data.get("profile")];
    if profiles.into_iter().flatten().any(|profile| profile == AUTH_REQUIRED) {
        return None;
    }
    // What is sensitive is not asked for over MCP.
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
    Some(Wanted::Answers { form, may_refuse: is_handler })
}

/// Who is waited for, and where they answer. Nothing of what they decide about: the client is not the one to judge it.
fn notice(
    definition: &Definition,
    run_id: &RunId,
    open: &Interrupt,
    asked: &Map<String, Value>,
    places: &Places,
) -> String {
    let title = asked.get("data").and_then(|data| data.get("title")).and_then(Value::as_str);
    let title = title.map(|title| format!(" ({})", short(title, MAX_TITLE_CHARACTERS))).unwrap_or_default();
    let (workflow, node_id, kind) =
        (short(&definition.name, MAX_TITLE_CHARACTERS), &open.node_id, kind(open.kind));
    format!(
        "{workflow}: the run {run_id} waits for {kind} at `{node_id}`{title}. Nothing that is said here decides it: a person who may \
         answers at {}. Accept to go on waiting for them; decline to be answered now, and the run stays as it is.",
        places.answer(run_id, node_id),
    )
}

const fn kind(kind: InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval => "an approval",
        InterruptKind::Clarification => "answers to its questions",
        InterruptKind::LowConfidence => "somebody to judge a decision that it is not sure of",
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => "somebody to talk to",
        InterruptKind::ExternalEvent | InterruptKind::Custom => "somebody",
    }
}

fn node<'d>(definition: &'d Definition, open: &Interrupt) -> Option<&'d Node> {
    definition.nodes.iter().find(|node| node.id == open.node_id)
}

/// The parameters of `elicitation/create` for what is wanted.
pub(super) fn params(message: &str, schema: Option<&Value>, run_id: &RunId, node_id: &NodeId) -> Value {
    let nothing = json!({"type": "object", "properties": {}});
    json!({
        "message": message,
        "requestedSchema": schema.unwrap_or(&nothing),
        "_meta": {"runId": run_id, "nodeId": node_id},
    })
}
