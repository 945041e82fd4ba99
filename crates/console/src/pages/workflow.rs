//! One workflow: that is run, or that guides.

use std::sync::Arc;

use flow::definition::Definition;
use flow::id::WorkflowId;
use guide::workflow::compiled::{CompiledWorkflow, SequenceItem};
use guide::workflow::source::MAX_LOOP_DEPTH;
use host::catalogue::{CatalogueErrorCode, Found};
use host::runs::{ApiCode, Refusal, WorkflowLook};
use maud::{Markup, html};

use super::guided;
use super::workflows::{LIST, sees_places};
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;

/// How much of a document is shown, in bytes.
const SHOWN_BYTES: usize = 28 << 10;
/// How many nodes are listed, at most.
const NODES: usize = 100;
/// How many bytes their rows may have.
const NODE_BYTES: usize = 36 << 10;
/// How many problems are listed.
const PROBLEMS: usize = 40;

/// A workflow that is run.
pub(crate) async fn run(call: Arc<Call>) -> Result<Answer, Refusal> {
    let id = WorkflowId::new(call.param("workflowId")?);
    let reading = Arc::clone(&call);
    let look = guided::blocking(move || reading.runs().workflow_look(&reading.caller, &id)).await?;
    let body = html! {
        (checked(&look))
        section.panel {
            h2 { "Document" }
            p.muted { "As it was registered." @if look.document.len() > SHOWN_BYTES { " The first " (SHOWN_BYTES >> 10) " kB of " (look.document.len()) " bytes." } }
            pre.json tabindex="0" { (parts::excerpt(&indented(&look.document), SHOWN_BYTES)) }
        }
    };
    let state = if look.checked.is_ok() { "valid" } else { "invalid" };
    let page = Page::new(look.id.as_str(), body)
        .below("Workflows", call.link(LIST, &[]))
        .beside(parts::status(state));
    Ok(page.into())
}

fn indented(document: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(document) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
        Err(_) => String::from_utf8_lossy(document).into_owned(),
    }
}

/// The nodes, as many as there is room for.
fn rows(definition: &Definition) -> Vec<Markup> {
    let mut room = NODE_BYTES;
    let mut rows = Vec::new();
    for node in definition.nodes.iter().take(NODES) {
        let row = html! {
            tr {
                th scope="row" { code { (parts::cut(node.id.as_str(), 80)) } }
                td.wide { (node.name) @if node.disabled { " " span.muted { "left out" } } }
                td { code { (node.type_id()) } }
                td.number { (node.inputs.len()) }
            }
        };
        let Some(left) = room.checked_sub(row.0.len()) else { break };
        room = left;
        rows.push(row);
    }
    rows
}

fn checked(look: &WorkflowLook) -> Markup {
    html! {
        @match &look.checked {
            Ok(definition) => section.panel {
                dl.facts {
                    dt { "Name" } dd { (definition.name) }
                    dt { "Version" } dd { (definition.version) }
                    dt { "Digest" } dd { (guided::digest(&look.digest.to_hex())) }
                    dt { "Start one" } dd { code { "interlock run " (look.id) } }
                }
                @let rows = rows(definition);
                div.scroll { table {
                    thead { tr { th { "Node" } th { "Name" } th { "Type" } th.number { "Inputs" } } }
                    tbody { @for row in &rows { (row) } }
                } }
                @if definition.nodes.len() > rows.len() { p.muted { (definition.nodes.len() - rows.len()) " more nodes are in the document." } }
            },
            Err(problems) => div.notice.bad role="alert" {
                p { strong { "This workflow cannot be run." } " It was valid when it was registered; this version of the host takes it no more. Register it again with these mended:" }
                ul { @for problem in problems.iter().take(PROBLEMS) { li { code { (problem.path) } " " (problem.message) } } }
            },
        }
    }
}

/// A workflow that guides.
pub(crate) async fn guided(call: Arc<Call>) -> Result<Answer, Refusal> {
    let id = call.param("workflowId")?.to_owned();
    let shows_source = sees_places(&call);
    let (found, source) = guided::read(&call, move |_, guided| {
        let found = guided.catalogue().find(None, &id);
        let source = found.as_ref().ok().and_then(|found| guided.catalogue().source_text(found));
        Ok((found, source))
    })
    .await?;
    let found = match found {
        Ok(found) => found,
        Err(envelope) => return Ok(invalid(&call, &envelope)?.into()),
    };
    let body = html! {
        @for warning in &found.warnings { p.notice.wait { (warning) } }
        (about(&call, &found))
        (taken(&call, &found))
        section.panel { h2 { "Steps" } (sequence(&found.workflow, &found.workflow.sequence, 0)) }
        @if let Some(source) = source.filter(|_| shows_source || found.path.is_none()) {
            details.box {
                summary { "Source" }
                @if source.len() > SHOWN_BYTES { p.muted { "The first " (SHOWN_BYTES >> 10) " kB of " (source.len()) " bytes." } }
                pre.source tabindex="0" { (parts::excerpt(&source, SHOWN_BYTES)) }
            }
        }
    };
    let page = Page::new(found.workflow.name.clone(), body)
        .below("Workflows", call.link(LIST, &[]))
        .beside(parts::status("valid"));
    Ok(page.into())
}

/// A workflow that there is and that is not valid, or that there is not.
fn invalid(call: &Call, envelope: &canon::error::Envelope) -> Result<Page, Refusal> {
    if envelope.has_code(CatalogueErrorCode::NotFound) {
        let message =
            "there is no workflow of this id here; one of a project counts only where an agent works in it";
        return Err(Refusal::new(ApiCode::WorkflowNotFound, message));
    }
    let body = html! {
        div.notice.bad role="alert" {
            @if sees_places(call) {
                p { (envelope.message()) }
                p { (envelope.suggestion()) }
            } @else {
                p { "Its file is not valid. Somebody with an admin key sees where it is and what is wrong." }
            }
        }
    };
    let page = Page::new(call.param("workflowId")?, body);
    Ok(page.below("Workflows", call.link(LIST, &[])).beside(parts::status("invalid")))
}

fn about(call: &Call, found: &Found) -> Markup {
    let workflow = &found.workflow;
    html! {
        section.panel {
            p { (workflow.description) }
            dl.facts {
                dt { "Id" } dd { code { (workflow.workflow_id) } @if let Some(suggested) = &found.suggested_id { " " span.muted { "has no namespace; " code { (suggested) } " would" } } }
                dt { "Version" } dd { (workflow.version) }
                dt { "Hash" } dd { (guided::digest(&found.hash.to_string())) " " span.muted { "what a run that begins now is pinned to" } }
                @if !found.tags.is_empty() { dt { "Tags" } dd { (found.tags.join(", ")) } }
                @if !workflow.features.is_empty() { dt { "Features" } dd { (workflow.features.join(", ")) } }
                @if !workflow.contracts.is_empty() {
                    dt { "Contracts" } dd { @for contract in &workflow.contracts { code { (contract.contract_ref) } " " } }
                }
                @if sees_places(call) && let Some(path) = &found.path { dt { "File" } dd { (path.display()) } }
            }
            @if let Some(about) = &found.about { div.markdown { (parts::markdown(about)) } }
            @if !found.examples.is_empty() {
                p.muted { "Suits goals such as" }
                ul { @for example in &found.examples { li { (example) } } }
            }
            @for warning in &workflow.compiled_warnings {
                p.notice.wait { code { (guided::word(&warning.code)) } " " (warning.path) ": " (warning.message) }
            }
        }
    }
}

/// Why this file, and which others there are.
fn taken(call: &Call, found: &Found) -> Markup {
    html! {
        section.panel {
            h2 { "Where it comes from" }
            p { (parts::status_word(&guided::word(&found.source_kind))) " " code { (found.source_ref) } ". " (found.reason) }
            @if !found.explanation.is_empty() {
                h3 { "Not taken" }
                ul.plain { @for loser in &found.explanation {
                    li {
                        (parts::status(&guided::word(&loser.cause))) " "
                        @if sees_places(call) { (loser.path) ": " (loser.reason) } @else { "a file of another source" }
                    }
                } }
            }
        }
    }
}

/// Steps and loops, as deep as the compiler lets them be.
fn sequence(workflow: &CompiledWorkflow, items: &[SequenceItem], depth: usize) -> Markup {
    if depth > MAX_LOOP_DEPTH {
        return Markup::default();
    }
    html! {
        ol.outline { @for item in items {
            @match item {
                SequenceItem::Step { step_id } => {
                    @if let Some(step) = workflow.step(step_id) {
                        li {
                            code { (step.step_id) } " " (step.title)
                            @if let Some(contract) = &step.output_contract { " " span.muted { "hands in " (contract.contract_ref) } }
                            @if let Some(confirmation) = &step.require_confirmation { " " span.muted { "waits for " (guided::word(&confirmation.kind)) } }
                            @if step.run_condition.is_some() { " " span.muted { "conditional" } }
                        }
                    }
                },
                SequenceItem::Loop { loop_id } => {
                    @if let Some(around) = workflow.loop_of(loop_id) {
                        li {
                            code { (around.loop_id) } " " (around.title) " " span.muted { "loop, at most " (around.max_iterations) " times" }
                            (sequence(workflow, &around.body, depth + 1))
                        }
                    }
                },
            }
        } }
    }
}
