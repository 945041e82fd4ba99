//! Approvals: the inbox, the details of a request, and the response.

use std::sync::Arc;

use flow::definition::NodeType;
use flow::id::{NodeId, RunId};
use flow::interrupt::InterruptKind;
use flow::snapshot::{InterruptView, RunView};
use flow::state::Interrupt;
use maud::{Markup, html};
use ports::runs::RunFilter;
use runs::{ApiCode, Direct, Refusal, Scope};
use serde_json::{Map, Value, json};

use super::run_list::{self, RUN};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;
use crate::parts::forms;
use crate::provider::{self, Provider};

const INBOX: &str = "builtin-interlock-approvals:routes/inbox";
const INTERRUPT: &str = "builtin-interlock-approvals:routes/interrupt";
const ANSWER: &str = "builtin-interlock-approvals:routes/answer";

const PAGE: usize = 50;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let filter = RunFilter { waiting: true, after: run_list::cursor(&call), ..RunFilter::default() };
    let (runs, next) = run_list::read(&call, &filter, PAGE).await?;
    let older = run_list::older(&call, next.as_ref());
    let body = html! { (call.live("inbox", &inbox(&call, &runs))) (parts::more(older.as_deref(), "Older")) };
    Ok(Page::new("Approvals", body).awake(Wake::Runs).into())
}

fn inbox(call: &PageRequest, runs: &[RunView]) -> Markup {
    if runs.is_empty() {
        let help = html! { p { "Runs that need an approval, an answer or an external event appear here." } };
        return parts::empty("No pending approvals.", &help);
    }
    html! {
        div.scroll.cards { table {
            thead { tr { th { "Request" } th { "Assigned to" } th { "Workflow" } th { "Requested" } th { "Deadline" } th { "Run" } } }
            tbody { @for run in runs { @if let Some(waiting) = &run.interrupt { tr {
                th.wide scope="row" { (call.anchor(INTERRUPT, &[("runId", run.run_id.as_str())], run_list::question(waiting))) }
                td data-label="Assigned to" { (whom(waiting)) }
                td data-label="Workflow" { (run.workflow_id) }
                td data-label="Requested" { @if let Some(at) = waiting.requested_at { (call.time(at)) } }
                td data-label="Deadline" { @if let Some(at) = waiting.deadline { (call.time(at)) } @else { span.muted { "none" } } }
                td data-label="Run" { (call.anchor(RUN, &[("runId", run.run_id.as_str())], html! { span.mono { (parts::cut(run.run_id.as_str(), 14)) } })) }
            } } } }
        } }
    }
}

/// Who is asked, as far as the gate specifies it.
fn whom(waiting: &InterruptView) -> String {
    let list = ["approversList", "approverRoleRefs", "approverGroupRefs", "audience"];
    let named = list
        .iter()
        .find_map(|name| waiting.data.get(name)?.as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    let names: Vec<&str> = named.iter().filter_map(Value::as_str).take(5).collect();
    if !names.is_empty() {
        return parts::cut(&names.join(", "), 80);
    }
    let role = match waiting.kind {
        InterruptKind::Approval => "any approver",
        InterruptKind::ExternalEvent => "an external system",
        InterruptKind::Clarification
        | InterruptKind::Custom
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose
        | InterruptKind::LowConfidence => "any responder",
    };
    role.to_owned()
}

/// All open requests of one run.
pub(crate) async fn one(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let open = call.runs().queries().open_interrupts(&call.caller, run_id).await?;
    let definition = call.runs().queries().definition_of(&call.caller, run_id).await?;
    let wanted = call.query.text("node");
    let shown: Vec<&Interrupt> =
        open.iter().filter(|open| wanted.is_none_or(|node| open.node_id == node)).collect();
    let body = html! {
        @if shown.is_empty() {
            (parts::empty("No open requests.", &html! { p { "The request was answered, or the run has ended. " (call.anchor(RUN, &[("runId", run_id.as_str())], "View the run")) } }))
        }
        @for interrupt in shown {
            @let kind = definition.nodes.iter().find(|node| node.id == interrupt.node_id).map(|node| node.kind);
            (question(&call, run_id, interrupt, kind))
        }
    };
    let title = if definition.name.is_empty() { definition.id.to_string() } else { definition.name.clone() };
    let page = Page::new(title, body)
        .below("Approvals", call.link(INBOX, &[]))
        .below(run_id.as_str(), call.link(RUN, &[("runId", run_id.as_str())]));
    Ok(page.into())
}

/// One request: what is asked, the subject, the votes so far, and the form.
fn question(call: &PageRequest, run_id: &RunId, interrupt: &Interrupt, kind: Option<NodeType>) -> Markup {
    let data = &interrupt.data;
    let text = |name: &str| data.get(name).and_then(Value::as_str);
    let heading = match interrupt.kind {
        InterruptKind::Clarification => "Questions",
        InterruptKind::Approval
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose
        | InterruptKind::LowConfidence => run_list::asked(data).unwrap_or("Answer required"),
    };
    let is_guided = kind.is_some_and(|kind| kind.as_str() == "interlock.guided");
    html! {
        section.panel id={ "ask-" (interrupt.sequence) } {
            h2 { (parts::cut(heading, 300)) }
            p.muted { (interrupt.kind.as_str()) " at node " code { (interrupt.node_id) } ", requested " (call.time(interrupt.requested_at))
                @if let Some(deadline) = interrupt.deadline { ", times out " (call.time(deadline)) } }
            @for name in ["description", "message", "question"] { @if let Some(text) = text(name) { div.markdown { (parts::markdown(text)) } } }
            (subject(data))
            @if let Some(required) = data.get("requiredApprovals").and_then(Value::as_u64).filter(|required| *required > 1) {
                p { strong { (interrupt.votes.iter().filter(|vote| vote.action != "reject").count()) " of " (required) } " approvals so far." }
            }
            @if !interrupt.votes.is_empty() {
                ul.plain { @for vote in interrupt.votes.iter().take(50) { li { (vote.voter) ": " strong { (vote.action) } ", " (call.time(vote.at)) } } }
            }
            @if is_guided {
                p.notice { "An agent is working on this node. The run continues when its session completes; no response is needed." }
            } @else if call.may(Scope::ApprovalsRespond) {
                (answer_form(call, run_id, interrupt))
            } @else {
                p.notice { "Your key cannot respond. Responding requires the scope " code { "approvals:respond" } "." }
            }
        }
    }
}

/// The subject of the decision.
fn subject(data: &Value) -> Markup {
    const SAID: &[&str] = &[
        "title",
        "prompt",
        "description",
        "message",
        "question",
        "actions",
        "questions",
        "requiredApprovals",
    ];
    let Value::Object(members) = data else { return parts::json_whole(data) };
    let rest: Map<String, Value> = members
        .iter()
        .filter(|(name, _)| !SAID.contains(&name.as_str()) && *name != "artifactData")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    html! {
        @if let Some(artifact) = members.get("artifactData") {
            h3 { "Subject" }
            (artifact_parts(artifact))
        }
        @if !rest.is_empty() { details open[!members.contains_key("artifactData")] { summary { "All details" } (parts::json_whole(&Value::Object(rest))) } }
    }
}

/// An artifact: strings rendered as Markdown under their names, other values as JSON.
fn artifact_parts(artifact: &Value) -> Markup {
    let text = |text: &str| html! { div.markdown.card { (parts::markdown(text)) } };
    match artifact {
        Value::String(whole) => text(whole),
        Value::Object(members) => html! {
            @for (name, value) in members {
                h4 { (name) }
                @match value { Value::String(part) => (text(part)), value => (parts::json_whole(value)) }
            }
        },
        other => parts::json_whole(other),
    }
}

/// The form, drawn by the renderer of this kind of request.
fn answer_form(call: &PageRequest, run_id: &RunId, interrupt: &Interrupt) -> Markup {
    let family = interrupt.kind.as_str().split('.').next().unwrap_or_default();
    let claims = [format!("activity:interrupt.{family}"), "activity:interrupt".to_owned()];
    let handle = claims.iter().find_map(|claim| call.shell.claims.get(claim));
    let panel = handle.and_then(|handle| match provider::find(&handle.owner_id, &handle.kind, &handle.id) {
        Some(Provider::Panel(panel)) => Some((panel, handle.data.as_ref().unwrap_or(&Value::Null))),
        Some(Provider::Route { .. }) | None => None,
    });
    let asked = json!({
        "runId": run_id, "nodeId": interrupt.node_id, "interruptId": interrupt.id, "kind": interrupt.kind,
        "data": interrupt.data, "schema": interrupt.resume_schema,
    });
    match panel {
        Some((panel, data)) => panel(call, data, &asked),
        None => custom(call, &Value::Null, &asked),
    }
}

/// The form around the fields of one kind of request.
fn form(call: &PageRequest, asked: &Value, shape: &str, fields: &Markup) -> Markup {
    let text = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = html! {
        input type="hidden" name="node" value=(text("nodeId"));
        input type="hidden" name="interrupt" value=(text("interruptId"));
        input type="hidden" name="shape" value=(shape);
        (fields)
    };
    call.post_form(ANSWER, &[("runId", text("runId"))], "wide", &fields)
}

/// A control id that is unique among several requests on one page.
fn id(asked: &Value, name: &str) -> String {
    format!("{name}-{}", asked.get("nodeId").and_then(Value::as_str).unwrap_or_default())
}

/// Approval: the actions that the gate allows (accept, reject, refine, accept with changes, ask).
pub(crate) fn approval(call: &PageRequest, _: &Value, asked: &Value) -> Markup {
    let actions =
        asked.pointer("/data/actions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // A gate without `actions` allows accept and reject.
    let allows = |name: &str| match actions {
        [] => matches!(name, "accept" | "reject"),
        actions => actions.iter().any(|action| action == name),
    };
    let artifact = asked.pointer("/data/artifactData");
    let edited = artifact.map(|value| {
        value.as_str().map_or_else(|| serde_json::to_string_pretty(value).unwrap_or_default(), str::to_owned)
    });
    let (reason, refine, edit) = (id(asked, "reason"), id(asked, "refine"), id(asked, "edit"));
    html! {
        (form(call, asked, "approval", &html! {
            label for=(reason) { "Reason " span.muted { "(saved with your decision)" } }
            textarea id=(reason) name="reason" rows="2" maxlength="4000" {}
            p.actions {
                @if allows("accept") { button.primary type="submit" name="action" value="accept" { "Approve" } }
                @if allows("reject") { button.danger type="submit" name="action" value="reject" { "Reject" } }
                @if allows("ask") { button type="submit" name="action" value="ask" { "Ask" } }
                @if allows("override") { button type="submit" name="action" value="override" { "Override" } }
            }
        }))
        @if allows("refine") { details.box { summary { "Request changes" }
            (form(call, asked, "refine", &html! {
                label for=(refine) { "Requested changes" }
                textarea id=(refine) name="feedback" required maxlength="8000" {}
                p { button type="submit" name="action" value="refine" { "Send" } }
            }))
        } }
        @if allows("edit-accept") { details.box { summary { "Edit and approve" }
            (form(call, asked, "edit", &html! {
                label for=(edit) { "Edited version" }
                textarea id=(edit) name="edited" required rows="12" spellcheck="false" { (edited.unwrap_or_default()) }
                p { button.primary type="submit" name="action" value="edit-accept" { "Approve" } }
            }))
        } }
    }
}

/// Clarification: one field per question.
pub(crate) fn clarification(call: &PageRequest, _: &Value, asked: &Value) -> Markup {
    form(
        call,
        asked,
        "clarification",
        &html! {
            @for (question_id, label, schema) in questions(asked) { (forms::field(&format!("answer.{question_id}"), &label, &schema, true)) }
            p { button.primary type="submit" { "Answer" } }
        },
    )
}

/// The questions: id, label, and schema of the answer.
fn questions(asked: &Value) -> Vec<(String, String, Value)> {
    let list = asked.pointer("/data/questions").and_then(Value::as_array);
    let known = list.into_iter().flatten().take(60).filter_map(|question| {
        let id = question.get("id")?.as_str()?.to_owned();
        let text =
            ["question", "text", "prompt", "label"].iter().find_map(|name| question.get(name)?.as_str());
        let mut schema = question.get("schema").cloned().unwrap_or_else(|| json!({"type": "string"}));
        if let (Some(options), Value::Object(members)) =
            (question.get("options").filter(|options| options.is_array()), &mut schema)
        {
            members.entry("enum").or_insert_with(|| options.clone());
        }
        Some((id.clone(), text.map_or(id, str::to_owned), schema))
    });
    known.collect()
}

/// External event: JSON, prefilled with the fields that must match.
pub(crate) fn external_event(call: &PageRequest, _: &Value, asked: &Value) -> Markup {
    let correlation = asked.pointer("/data/correlation").cloned().unwrap_or_else(|| json!({}));
    let text = serde_json::to_string_pretty(&correlation).unwrap_or_default();
    let event = id(asked, "event");
    form(
        call,
        asked,
        "event",
        &html! {
            label for=(event) { "Event" }
            textarea id=(event) name="event" rows="8" spellcheck="false" required { (text) }
            p.hint { "A JSON object. Keep the prefilled fields: the run waits for exactly these values." }
            p { button.primary type="submit" { "Send event" } }
        },
    )
}

/// A turn of a conversation, or its end.
pub(crate) fn conversation(call: &PageRequest, _: &Value, asked: &Value) -> Markup {
    let message = id(asked, "message");
    form(
        call,
        asked,
        "conversation",
        &html! {
            label for=(message) { "Message" }
            textarea id=(message) name="message" {}
            p.actions {
                button.primary type="submit" name="action" value="say" { "Send" }
                button type="submit" name="action" value="close" { "End conversation" }
            }
        },
    )
}

/// Fields from the resume schema, or JSON if there is none.
pub(crate) fn custom(call: &PageRequest, _: &Value, asked: &Value) -> Markup {
    let schema =
        asked.get("schema").filter(|schema| schema.is_object()).cloned().unwrap_or_else(|| json!({}));
    form(
        call,
        asked,
        "custom",
        &html! {
            (forms::fields("value", &schema))
            p { button.primary type="submit" { "Answer" } }
        },
    )
}

/// Handles a submitted response.
pub(crate) async fn answer(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let form = &call.form;
    let node = form.text("node").unwrap_or_default();
    let open = call.runs().queries().open_interrupts(&call.caller, run_id).await?;
    // Checks the id of the request that was shown, so that a response never applies to a later
    // request of the same node.
    let interrupt =
        open.iter().find(|open| open.node_id == node && Some(open.id.as_str()) == form.text("interrupt"));
    let Some(interrupt) = interrupt else {
        let message =
            "This request was already answered, or the run has ended. Open the run for its current state.";
        return Err(Refusal::new(ApiCode::InterruptAlreadyResolved, message));
    };
    let value = resume_value(&call, interrupt)?;
    call.runs().commands().resolve(&call.caller, run_id, &NodeId::new(node), value, Direct).await?;
    let still_open = call
        .runs()
        .queries()
        .open_interrupts(&call.caller, run_id)
        .await?
        .iter()
        .any(|open| open.id == interrupt.id);
    let done = if still_open { "voted" } else { "answered" };
    super::actions::back(&call, run_id, done)
}

/// The resume value for the engine, from the form fields.
fn resume_value(call: &PageRequest, interrupt: &Interrupt) -> Result<Value, Refusal> {
    let form = &call.form;
    let text = |name: &str| form.text(name).map(|text| text.replace("\r\n", "\n"));
    let wrong = |message: &str| Refusal::new(ApiCode::ValidationError, message);
    let action = form.text("action").unwrap_or_default();
    match form.text("shape").unwrap_or_default() {
        "approval" => {
            let mut value = json!({"action": action});
            if let Some(reason) = text("reason") {
                value["reason"] = reason.into();
            }
            Ok(value)
        }
        "refine" => {
            let feedback = text("feedback").ok_or_else(|| wrong("Describe the changes you want."))?;
            Ok(
                json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": feedback}, "feedback": feedback}),
            )
        }
        "edit" => {
            let edited = text("edited").ok_or_else(|| wrong("Enter the edited version."))?;
            let was_text = interrupt.data.get("artifactData").is_some_and(Value::is_string);
            let edited = if was_text { Some(edited.into()) } else { forms::json(&edited) };
            let edited =
                edited.ok_or_else(|| wrong("The edited artifact must be valid JSON, like the original."))?;
            Ok(json!({"action": "edit-accept", "editedArtifactData": edited}))
        }
        "clarification" => {
            let mut answers = Map::new();
            for (id, label, schema) in questions(&json!({"data": interrupt.data})) {
                if let Some(value) = forms::one(&format!("answer.{id}"), &label, &schema, form)? {
                    answers.insert(id, value);
                }
            }
            Ok(json!({"answers": answers}))
        }
        "event" => {
            let event = text("event").and_then(|text| forms::json(&text)).filter(Value::is_object);
            Ok(json!({"eventPayload": event.ok_or_else(|| wrong("The event must be a JSON object."))?}))
        }
        "conversation" => match (action, text("message")) {
            ("close", message) => Ok(message.map_or_else(
                || json!({"action": "close"}),
                |message| json!({"action": "close", "content": message}),
            )),
            (_, Some(message)) => Ok(json!({"content": message})),
            (_, None) => Err(wrong("Enter a message, or end the conversation.")),
        },
        _ => forms::filled("value", interrupt.resume_schema.as_ref().unwrap_or(&json!({})), form),
    }
}
