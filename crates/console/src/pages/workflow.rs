//! One workflow: a run workflow or a guided workflow.

use std::sync::Arc;

use catalogue::{CatalogueErrorCode, ResolvedWorkflow};
use flow::definition::Definition;
use flow::id::WorkflowId;
use guide::workflow::compiled::{CompiledWorkflow, SequenceItem};
use guide::workflow::source::MAX_LOOP_DEPTH;
use maud::{Markup, html};
use runs::{ApiCode, Refusal, WorkflowLook};

use super::guided;
use super::workflows::{LIST, may_see_paths};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

const SHOWN_BYTES: usize = 28 << 10;
const NODES: usize = 100;
/// The most bytes of table rows.
const NODE_BYTES: usize = 36 << 10;
const PROBLEMS: usize = 40;

/// A workflow with nodes and edges, run by the host.
pub(crate) async fn run(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let id = WorkflowId::new(call.param("workflowId")?);
    let reading = Arc::clone(&call);
    let look =
        guided::blocking(move || guided::wait_for(reading.runs().definitions().look(&reading.caller, &id)))
            .await?;
    let body = html! {
        (checked(&look))
        section.panel {
            h2 { "Document" }
            p.muted { "The registered document." @if look.document.len() > SHOWN_BYTES { " The first " (SHOWN_BYTES >> 10) " kB of " (look.document.len()) " bytes." } }
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

/// The nodes, within the byte budget.
fn rows(definition: &Definition) -> Vec<Markup> {
    let mut room = NODE_BYTES;
    let mut rows = Vec::new();
    for node in definition.nodes.iter().take(NODES) {
        let row = html! {
            tr {
                th scope="row" { code { (parts::cut(node.id.as_str(), 80)) } }
                td.wide { (node.name) @if node.disabled { " " span.muted { "disabled" } } }
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
                    dt { "Start a run" } dd { code { "interlock run " (look.id) } }
                }
                @let rows = rows(definition);
                div.scroll { table {
                    thead { tr { th { "Node" } th { "Name" } th { "Type" } th.number { "Inputs" } } }
                    tbody { @for row in &rows { (row) } }
                } }
                @if definition.nodes.len() > rows.len() { p.muted { (definition.nodes.len() - rows.len()) " more nodes; see the document." } }
            },
            Err(problems) => div.notice.bad role="alert" {
                p { strong { "This workflow cannot be run." } " It was valid when it was registered, but this version of the host does not accept it. Fix these problems and register it again:" }
                ul { @for problem in problems.iter().take(PROBLEMS) { li { code { (problem.path) } " " (problem.message) } } }
            },
        }
    }
}

/// A workflow with steps, for agents.
pub(crate) async fn guided(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let id = call.param("workflowId")?.to_owned();
    let shows_source = may_see_paths(&call);
    let catalogue = guided::of(&call).await?.catalogue().clone();
    let (found, source) = guided::blocking(move || {
        let found = catalogue.find(None, &id);
        let source = found.as_ref().ok().and_then(|found| catalogue.source_text(found));
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

/// The error for a workflow that is invalid or unknown.
fn invalid(call: &PageRequest, envelope: &canon::error::Envelope) -> Result<Page, Refusal> {
    if envelope.has_code(CatalogueErrorCode::NotFound) {
        let message =
            "Workflow not found. Project workflows are available only to agents that work in that project.";
        return Err(Refusal::new(ApiCode::WorkflowNotFound, message));
    }
    let body = html! {
        div.notice.bad role="alert" {
            @if may_see_paths(call) {
                p { (envelope.message()) }
                p { (envelope.suggestion()) }
            } @else {
                p { "The workflow file is invalid. Sign in with an admin key to see its path and problems." }
            }
        }
    };
    let page = Page::new(call.param("workflowId")?, body);
    Ok(page.below("Workflows", call.link(LIST, &[])).beside(parts::status("invalid")))
}

fn about(call: &PageRequest, found: &ResolvedWorkflow) -> Markup {
    let workflow = &found.workflow;
    html! {
        section.panel {
            p { (workflow.description) }
            dl.facts {
                dt { "Id" } dd { code { (workflow.workflow_id) } @if let Some(suggested) = &found.suggested_id { " " span.muted { "has no namespace; use " code { (suggested) } } } }
                dt { "Version" } dd { (workflow.version) }
                dt { "Hash" } dd { (guided::digest(&found.hash.to_string())) " " span.muted { "new runs are pinned to it" } }
                @if !found.tags.is_empty() { dt { "Tags" } dd { (found.tags.join(", ")) } }
                @if !workflow.features.is_empty() { dt { "Features" } dd { (workflow.features.join(", ")) } }
                @if !workflow.contracts.is_empty() {
                    dt { "Contracts" } dd { @for contract in &workflow.contracts { code { (contract.contract_ref) } " " } }
                }
                @if may_see_paths(call) && let Some(path) = &found.path { dt { "File" } dd { (path.display()) } }
            }
            @if let Some(about) = &found.about { div.markdown { (parts::markdown(about)) } }
            @if !found.examples.is_empty() {
                p.muted { "Example goals" }
                ul { @for example in &found.examples { li { (example) } } }
            }
            @for warning in &workflow.compiled_warnings {
                p.notice.wait { code { (guided::word(&warning.code)) } " " (warning.path) ": " (warning.message) }
            }
        }
    }
}

/// Why this file was selected, and which files it shadows.
fn taken(call: &PageRequest, found: &ResolvedWorkflow) -> Markup {
    html! {
        section.panel {
            h2 { "Source" }
            p { (parts::status_word(&guided::word(&found.source_kind))) " " code { (found.source_ref) } ". " (found.reason) }
            @if !found.explanation.is_empty() {
                h3 { "Shadowed" }
                ul.plain { @for loser in &found.explanation {
                    li {
                        (parts::status(&guided::word(&loser.cause))) " "
                        @if may_see_paths(call) { (loser.path) ": " (loser.reason) } @else { "a file from another source" }
                    }
                } }
            }
        }
    }
}

/// Steps and loops; the compiler limits the depth.
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
                            @if let Some(contract) = &step.output_contract { " " span.muted { "submits " (contract.contract_ref) } }
                            @if let Some(confirmation) = &step.require_confirmation { " " span.muted { "waits for " (guided::word(&confirmation.kind)) } }
                            @if step.run_condition.is_some() { " " span.muted { "conditional" } }
                        }
                    }
                },
                SequenceItem::Loop { loop_id } => {
                    @if let Some(around) = workflow.loop_of(loop_id) {
                        li {
                            code { (around.loop_id) } " " (around.title) " " span.muted { "loop, at most " (around.max_iterations) " iterations" }
                            (sequence(workflow, &around.body, depth + 1))
                        }
                    }
                },
            }
        } }
    }
}
