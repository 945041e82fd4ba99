//! Running, waiting and failed runs.

use std::sync::Arc;

use flow::run::RunStatus;
use flow::snapshot::RunView;
use maud::{Markup, html};
use ports::runs::RunFilter;
use runs::{Refusal, Scope};

use super::run_list::{self, RUN};
use crate::call::PageRequest;
use crate::layout;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const SHOWN: usize = 10;

const INTERRUPT: &str = "builtin-interlock-approvals:routes/interrupt";

#[derive(Default)]
struct Overview {
    waiting: Vec<RunView>,
    running: Vec<RunView>,
    failed: Vec<RunView>,
    recent: Vec<RunView>,
}

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    if !call.may(Scope::RunsRead) {
        let body = html! { p.notice { "Your key cannot read runs. Use the menu to open the pages that it can read." } (layout::fallbacks(&call, None)) };
        return Ok(Page::new("Overview", body).into());
    }
    let list = async |filter: RunFilter| {
        call.runs().queries().views(&call.caller, &filter, SHOWN).await.map(|(runs, _)| runs)
    };
    let mut waiting = list(RunFilter { waiting: true, ..RunFilter::default() }).await?;
    // A parent that waits for its child has no request to answer.
    waiting.retain(|run| run.interrupt.is_some());
    let overview = Overview {
        waiting,
        running: list(RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() }).await?,
        failed: list(RunFilter { status: Some(RunStatus::Failed), ..RunFilter::default() }).await?,
        recent: list(RunFilter::default()).await?,
    };
    let body = html! {
        (layout::fallbacks(&call, None))
        (call.live("overview", &body(&call, &overview)))
    };
    Ok(Page::new("Overview", body).awake(Wake::Runs).into())
}

fn body(call: &PageRequest, overview: &Overview) -> Markup {
    if overview.recent.is_empty() {
        let help = html! {
            p { "Interlock runs workflows, guides AI agents through them step by step, and asks people for approval. "
                "Start a run:" }
            pre { code { "interlock run examples/runs/hello.json" } }
            p { "The run appears here." }
        };
        return parts::empty("No runs yet.", &help);
    }
    html! {
        div.columns {
            section.panel aria-labelledby="waiting" {
                h2 #waiting { "Waiting for a response " (count(&overview.waiting)) }
                @if overview.waiting.is_empty() { p.muted { "None." } }
                ul.plain {
                    @for run in &overview.waiting {
                        li {
                            (parts::status(run.status.as_str())) " "
                            @let question = run.interrupt.as_ref().map_or_else(|| run.workflow_id.to_string(), run_list::question);
                            (call.anchor(INTERRUPT, &[("runId", run.run_id.as_str())], question))
                            div.muted {
                                (run.workflow_id)
                                @if let Some(waiting) = &run.interrupt {
                                    @if let Some(at) = waiting.requested_at { ", asked " (call.time(at)) }
                                    @if let Some(at) = waiting.deadline { ", until " (call.time(at)) }
                                }
                            }
                        }
                    }
                }
            }
            section.panel aria-labelledby="running" {
                h2 #running { "Running " (count(&overview.running)) }
                @if overview.running.is_empty() { p.muted { "None." } }
                ul.plain {
                    @for run in &overview.running {
                        li {
                            (parts::status(run.status.as_str())) " " (name(call, run))
                            div.muted {
                                @if let Some(node) = &run.current_node_id { "at " (node) ", " }
                                @if let Some(at) = run.started_at { "started " (call.time(at)) }
                            }
                        }
                    }
                }
            }
            section.panel aria-labelledby="failed" {
                h2 #failed { "Failed " (count(&overview.failed)) }
                @if overview.failed.is_empty() { p.muted { "None." } }
                ul.plain {
                    @for run in &overview.failed {
                        li {
                            (parts::status(run.status.as_str())) " " (name(call, run))
                            div { (run_list::reason(run).unwrap_or_default()) }
                            @if let Some(at) = run.completed_at { div.muted { (call.time(at)) } }
                        }
                    }
                }
            }
        }
        h2 { "Latest runs" }
        (run_list::table(call, &overview.recent))
    }
}

/// The count, with a plus sign if the list was truncated.
fn count(runs: &[RunView]) -> Markup {
    html! { span.muted { (runs.len()) @if runs.len() == SHOWN { "+" } } }
}

fn name(call: &PageRequest, run: &RunView) -> Markup {
    html! { (call.anchor(RUN, &[("runId", run.run_id.as_str())], run.workflow_id.as_str())) }
}
