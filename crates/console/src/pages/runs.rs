//! The list of runs, with filters and paging.

use std::sync::Arc;

use flow::id::WorkflowId;
use flow::run::RunStatus;
use flow::snapshot::RunView;
use maud::{Markup, html};
use ports::runs::{ListCursor, RunFilter};
use runs::Refusal;

use super::run_list;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const PAGE: usize = 50;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let filter = filter(&call);
    let (runs, next) = run_list::read(&call, &filter, PAGE).await?;
    let page = Page::new("Runs", body(&call, &filter, &runs, next.as_ref()));
    Ok(page.awake(if filter.after.is_none() { Wake::Runs } else { Wake::Never }).into())
}

fn filter(call: &PageRequest) -> RunFilter {
    let status = call.query.text("status");
    RunFilter {
        status: status.and_then(RunStatus::parse),
        waiting: status == Some("waiting"),
        workflow_id: call.query.text("workflow").map(WorkflowId::new),
        tag: call.query.text("tag").map(str::to_owned),
        after: run_list::cursor(call),
    }
}

fn body(call: &PageRequest, filter: &RunFilter, runs: &[RunView], next: Option<&ListCursor>) -> Markup {
    let older = run_list::older(call, next);
    let is_filtered = *filter != RunFilter::default();
    html! {
        form.filters method="get" role="search" aria-label="Filter runs" {
            div {
                label for="status" { "State" }
                select #status name="status" {
                    option value="" selected[filter.status.is_none() && !filter.waiting] { "Any" }
                    option value="waiting" selected[filter.waiting] { "waiting for a response" }
                    @for status in RunStatus::ALL {
                        option value=(status) selected[filter.status == Some(status)] { (parts::status_word(status.as_str())) }
                    }
                }
            }
            div {
                label for="workflow" { "Workflow" }
                input #workflow name="workflow" value=[filter.workflow_id.as_ref().map(WorkflowId::as_str)] spellcheck="false";
            }
            div {
                label for="tag" { "Tag" }
                input #tag name="tag" value=[filter.tag.as_deref()] spellcheck="false";
            }
            button type="submit" { "Filter" }
            @if is_filtered { a href=(call.here()) { "Clear" } }
        }
        @let list = if runs.is_empty() { nothing(is_filtered) } else { run_list::table(call, runs) };
        (call.live("runs", &list))
        (parts::more(older.as_deref(), "Older runs"))
    }
}

fn nothing(is_filtered: bool) -> Markup {
    if is_filtered {
        return parts::empty("No runs match these filters.", &html! { p { "Remove a filter to see more." } });
    }
    let help = html! {
        p { "A run is one execution of a workflow. Start one from a shell on this machine:" }
        pre { code { "interlock run examples/runs/hello.json" } }
        p { "or with " code { "POST /v1/runs" } " and your key." }
    };
    parts::empty("No runs yet.", &help)
}
