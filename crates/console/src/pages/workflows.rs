//! Workflows of both kinds, and whether they are valid.

use std::sync::Arc;

use host::catalogue::{Entry, Listing, SourceInfo};
use host::runs::{Refusal, Scope, WorkflowLook};
use maud::{Markup, html};

use super::guided;
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;

/// The page of all workflows.
pub(super) const LIST: &str = "builtin-interlock-workflows:routes/list";
/// The page of a workflow that guides.
pub(super) const GUIDED: &str = "builtin-interlock-workflows:routes/guided";
/// The page of a workflow that is run.
pub(super) const RUN: &str = "builtin-interlock-workflows:routes/run";

/// How many workflows that are run are on a page: each is checked.
const PAGE: usize = 50;
/// How many workflows that guide are listed.
const LISTED: usize = 80;
/// How many files that are left out are listed.
const PROBLEMS: usize = 20;

/// How many problems of each file are listed.
const PER_FILE: usize = 5;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let from = call.query.number("from").and_then(|from| usize::try_from(from).ok()).unwrap_or_default();
    let reading = Arc::clone(&call);
    let (runs, total) = guided::blocking(move || {
        let ids = reading.runs().workflows(&reading.caller)?;
        let total = ids.len();
        let page = ids.into_iter().skip(from).take(PAGE);
        let looks = page.map(|(id, _)| reading.runs().workflow_look(&reading.caller, &id));
        Ok((looks.collect::<Result<Vec<_>, _>>()?, total))
    })
    .await?;
    let listing = guided::read(&call, |_, guided| Ok(guided.catalogue().list(None))).await?;
    let body = html! {
        (run_workflows(&call, &runs, from, total))
        (guided_workflows(&call, &listing))
        (left_out(&call, &listing))
        (sources(&call, &listing))
    };
    Ok(Page::new("Workflows", body).into())
}

fn run_workflows(call: &Call, looks: &[WorkflowLook], from: usize, total: usize) -> Markup {
    let older = (from + PAGE < total).then(|| call.query.with("from", Some(&(from + PAGE).to_string())));
    html! {
        section.panel {
            h2 { "Run by this host " span.muted { (total) } }
            @if total == 0 {
                (parts::empty("No workflow is registered yet.", &html! {
                    p { "A workflow of this kind has " code { "nodes" } " and " code { "edges" } ", and the host runs it. Serve a folder of them, or run one file:" }
                    pre { code { "interlock serve --workflows ./workflows\ninterlock run examples/runs/hello.json" } }
                }))
            } @else {
                div.scroll { table {
                    thead { tr { th { "Workflow" } th { "Name" } th { "Version" } th.number { "Nodes" } th { "Check" } th { "Digest" } } }
                    tbody { @for look in looks { (run_row(call, look)) } }
                } }
            }
        }
        (parts::more(older.as_deref(), "More workflows"))
    }
}

fn run_row(call: &Call, look: &WorkflowLook) -> Markup {
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

fn guided_workflows(call: &Call, listing: &Listing) -> Markup {
    html! {
        section.panel {
            h2 { "Guiding agents " span.muted { (listing.entries.len()) } }
            p.muted { "A workflow of this kind has " code { "steps" } ". Of files with the same id the one from the highest source is taken; those of a project count where an agent works in it." }
            div.scroll { table {
                thead { tr { th { "Workflow" } th { "For" } th { "Version" } th { "From" } th { "Check" } } }
                tbody { @for entry in listing.entries.iter().take(LISTED) { (guided_row(call, entry)) } }
            } }
            @if listing.entries.len() > LISTED {
                p.muted { (listing.entries.len() - LISTED) " more; " code { "interlock workflow list" } " has all." }
            }
        }
    }
}

fn guided_row(call: &Call, entry: &Entry) -> Markup {
    html! {
        tr {
            th scope="row" { (call.anchor(GUIDED, &[("workflowId", &entry.workflow_id)], &entry.workflow_id)) div.muted { (entry.name) } }
            td.wide { (parts::cut(&entry.description, 160)) }
            td { (entry.version) }
            td {
                (parts::status_word(&guided::word(&entry.source_kind)))
                @if !entry.shadowed.is_empty() { div.muted { "wins over " (entry.shadowed.len()) } }
            }
            td { (parts::status("valid")) @if entry.suggested_id.is_some() { div.muted { "no namespace" } } }
        }
    }
}

/// The files that are no valid workflows, and the sources that cannot be read.
fn left_out(call: &Call, listing: &Listing) -> Markup {
    if listing.problems.is_empty() && listing.unreadable.is_empty() {
        return Markup::default();
    }
    html! {
        section.panel {
            h2 { "Left out " span.muted { (listing.problems.len() + listing.unreadable.len()) } }
            p.muted { "Each is reported, and in nobody's way. " code { "interlock workflow validate FILE" } " says the same at the author's desk." }
            @for note in listing.unreadable.iter().take(PROBLEMS).filter(|_| sees_places(call)) { p.notice.bad { (note) } }
            @for file in listing.problems.iter().take(PROBLEMS) {
                details.box {
                    summary {
                        (parts::status("invalid")) " "
                        @if sees_places(call) { (file.path) } @else { (file.workflow_id.as_deref().unwrap_or("a file")) }
                        " " span.muted { (file.problems.len()) " problems" }
                    }
                    ul { @for problem in file.problems.iter().take(PER_FILE) { li { (problem_words(call, problem)) } } }
                }
            }
        }
    }
}

/// A problem in words. It begins with its file, which only some are shown.
fn problem_words(call: &Call, problem: &guide::workflow::problem::Problem) -> String {
    if sees_places(call) { problem.to_string() } else { problem.clone().in_file("").to_string() }
}

/// Whether the caller is shown where on the machine something lies.
pub(super) fn sees_places(call: &Call) -> bool {
    call.may(Scope::Admin)
}

fn sources(call: &Call, listing: &Listing) -> Markup {
    if !sees_places(call) {
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
            h2 { "Sources of guiding workflows" }
            p.muted { "From the lowest precedence to the highest. " code { "--workflows DIR" } " or " code { "guide.workflow_dirs" } " in the settings add folders." }
            div.scroll { table {
                thead { tr { th { "Kind" } th { "Place" } th.number { "Files" } th.number { "Taken" } th.number { "Give way" } } }
                tbody { @for source in &listing.sources { (row(source)) } }
            } }
        }
    }
}
