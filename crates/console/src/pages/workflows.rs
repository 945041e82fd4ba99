//! Run workflows and guided workflows, and whether they are valid.

use std::sync::Arc;

use catalogue::{Entry, Listing, SourceInfo};
use maud::{Markup, html};
use runs::{Refusal, Scope, WorkflowLook};

use super::guided;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

pub(super) const LIST: &str = "builtin-interlock-workflows:routes/list";
pub(super) const GUIDED: &str = "builtin-interlock-workflows:routes/guided";
pub(super) const RUN: &str = "builtin-interlock-workflows:routes/run";

/// The run workflows on a page; each is validated.
const PAGE: usize = 50;
const LISTED: usize = 80;
const PROBLEMS: usize = 20;

const PER_FILE: usize = 5;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let from = call.query.number("from").and_then(|from| usize::try_from(from).ok()).unwrap_or_default();
    let reading = Arc::clone(&call);
    let (runs, total) = guided::blocking(move || {
        let ids = guided::wait_for(reading.runs().definitions().workflows(&reading.caller))?;
        let total = ids.len();
        let page = ids.into_iter().skip(from).take(PAGE);
        let looks =
            page.map(|(id, _)| guided::wait_for(reading.runs().definitions().look(&reading.caller, &id)));
        Ok((looks.collect::<Result<Vec<_>, _>>()?, total))
    })
    .await?;
    let listing = guided::of(&call).await?.list_workflows(None).await;
    let body = html! {
        (run_workflows(&call, &runs, from, total))
        (guided_workflows(&call, &listing))
        (left_out(&call, &listing))
        (sources(&call, &listing))
    };
    Ok(Page::new("Workflows", body).into())
}

fn run_workflows(call: &PageRequest, looks: &[WorkflowLook], from: usize, total: usize) -> Markup {
    let older = (from + PAGE < total).then(|| call.query.with("from", Some(&(from + PAGE).to_string())));
    html! {
        section.panel {
            h2 { "Run workflows " span.muted { (total) } }
            @if total == 0 {
                (parts::empty("No workflows registered yet.", &html! {
                    p { "A run workflow has " code { "nodes" } " and " code { "edges" } " and is run by this host. Serve a folder of workflows, or run one file:" }
                    pre { code { "interlock serve --workflows ./workflows\ninterlock run examples/runs/hello.json" } }
                }))
            } @else {
                div.scroll { table {
                    thead { tr { th { "Workflow" } th { "Name" } th { "Version" } th.number { "Nodes" } th { "State" } th { "Digest" } } }
                    tbody { @for look in looks { (run_row(call, look)) } }
                } }
            }
        }
        (parts::more(older.as_deref(), "More workflows"))
    }
}

fn run_row(call: &PageRequest, look: &WorkflowLook) -> Markup {
    html! {
        tr {
            th scope="row" { (call.anchor(RUN, &[("workflowId", look.id.as_str())], look.id.as_str())) }
            @match &look.checked {
                Ok(definition) => {
                    td { (definition.name) } td { (definition.version) } td.number { (definition.nodes.len()) }
                    td { (parts::status("valid")) }
                },
                Err(problems) => {
                    td {} td {} td {}
                    td { (parts::status("invalid")) " " @if let Some(problem) = problems.first() { (parts::cut(&problem.to_string(), 120)) } }
                },
            }
            td { (guided::digest(&look.digest.to_hex())) }
        }
    }
}

fn guided_workflows(call: &PageRequest, listing: &Listing) -> Markup {
    html! {
        section.panel {
            h2 { "Guided workflows " span.muted { (listing.entries.len()) } }
            p.muted { "A guided workflow has " code { "steps" } " that an agent follows. If several files have the same id, the source with the highest precedence wins. Project workflows are available to agents that work in that project." }
            div.scroll { table {
                thead { tr { th { "Workflow" } th { "Description" } th { "Version" } th { "Source" } th { "State" } } }
                tbody { @for entry in listing.entries.iter().take(LISTED) { (guided_row(call, entry)) } }
            } }
            @if listing.entries.len() > LISTED {
                p.muted { (listing.entries.len() - LISTED) " more. " code { "interlock workflow list" } " shows all workflows." }
            }
        }
    }
}

fn guided_row(call: &PageRequest, entry: &Entry) -> Markup {
    html! {
        tr {
            th scope="row" { (call.anchor(GUIDED, &[("workflowId", &entry.workflow_id)], &entry.workflow_id)) div.muted { (entry.name) } }
            td.wide { (parts::cut(&entry.description, 160)) }
            td { (entry.version) }
            td {
                (parts::status_word(&guided::word(&entry.source_kind)))
                @if !entry.shadowed.is_empty() { div.muted { "shadows " (entry.shadowed.len()) } }
            }
            td { (parts::status("valid")) @if entry.suggested_id.is_some() { div.muted { "no namespace" } } }
        }
    }
}

/// Invalid workflow files, and sources that cannot be read.
fn left_out(call: &PageRequest, listing: &Listing) -> Markup {
    if listing.problems.is_empty() && listing.unreadable.is_empty() {
        return Markup::default();
    }
    html! {
        section.panel {
            h2 { "Invalid files " span.muted { (listing.problems.len() + listing.unreadable.len()) } }
            p.muted { "These files are skipped; other workflows are not affected. Check a file with " code { "interlock workflow validate FILE" } "." }
            @for note in listing.unreadable.iter().take(PROBLEMS).filter(|_| may_see_paths(call)) { p.notice.bad { (note) } }
            @for file in listing.problems.iter().take(PROBLEMS) {
                details.box {
                    summary {
                        (parts::status("invalid")) " "
                        @if may_see_paths(call) { (file.path) } @else { (file.workflow_id.as_deref().unwrap_or("a file")) }
                        " " span.muted { (file.problems.len()) " problems" }
                    }
                    ul { @for problem in file.problems.iter().take(PER_FILE) { li { (problem_words(call, problem)) } } }
                }
            }
        }
    }
}

/// The problem without its path, which only operators see.
fn problem_words(call: &PageRequest, problem: &guide::workflow::problem::Problem) -> String {
    if may_see_paths(call) { problem.to_string() } else { problem.clone().in_file("").to_string() }
}

/// Whether the caller may see file system paths.
pub(super) fn may_see_paths(call: &PageRequest) -> bool {
    call.may(Scope::Admin)
}

fn sources(call: &PageRequest, listing: &Listing) -> Markup {
    if !may_see_paths(call) {
        return Markup::default();
    }
    let row = |source: &SourceInfo| {
        html! {
            tr {
                th scope="row" { (parts::status_word(source.category.as_str())) }
                td.wide { (source.display_name) @if source.stale { " " (parts::status("error")) } }
                td.number { (source.total_workflow_count) }
                td.number { (source.effective_workflow_count) }
                td.number { (source.shadowed_workflow_count) }
            }
        }
    };
    html! {
        section.panel {
            h2 { "Sources of guided workflows" }
            p.muted { "From the lowest precedence to the highest. " code { "--workflows DIR" } " or " code { "guide.workflow_dirs" } " in the settings adds folders." }
            div.scroll { table {
                thead { tr { th { "Kind" } th { "Location" } th.number { "Files" } th.number { "Used" } th.number { "Shadowed" } } }
                tbody { @for source in &listing.sources { (row(source)) } }
            } }
        }
    }
}
