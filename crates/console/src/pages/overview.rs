//! What runs, what waits for whom, what failed.

use std::sync::Arc;

use flow::run::RunStatus;
use flow::store::RunFilter;
use host::runs::{Refusal, Scope};
use maud::{Markup, html};

use super::run_list::{self, RUN, RunRow};
use crate::call::Call;
use crate::layout;
use crate::page::{Answer, Page, Wake};
use crate::parts;

/// How many runs each list shows.
const SHOWN: usize = 10;

/// The page of what one run waits for.
const INTERRUPT: &str = "builtin-interlock-approvals:routes/interrupt";

/// What the overview shows.
#[derive(Default)]
struct Overview {
    waiting: Vec<RunRow>,
    running: Vec<RunRow>,
    failed: Vec<RunRow>,
    recent: Vec<RunRow>,
}

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    if !call.may(Scope::RunsRead) {
        let body = html! { p.notice { "Your key may not read runs; the menu has what it may." } (layout::fallbacks(&call, None)) };
        return Ok(Page::new("Overview", body).into());
    }
    let list = |filter: RunFilter| run_list::read(&call, &filter, SHOWN).map(|(runs, _)| runs);
    let mut waiting = list(RunFilter { waiting: true, ..RunFilter::default() })?;
    // A parent whose child waits has nothing to answer itself.
    waiting.retain(|run| run.interrupt.is_some());
    let overview = Overview {
        waiting,
        running: list(RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() })?,
        failed: list(RunFilter { status: Some(RunStatus::Failed), ..RunFilter::default() })?,
        recent: list(RunFilter::default())?,
    };
    let body = html! {
        (layout::fallbacks(&call, None))
        (call.live("overview", &body(&call, &overview)))
    };
    Ok(Page::new("Overview", body).awake(Wake::Runs).into())
}

fn body(call: &Call, overview: &Overview) -> Markup {
    if overview.recent.is_empty() {
        let help = html! {
            p { "Interlock runs workflows, guides agents through them, and asks people where a person has to decide. "
                "Begin with a run:" }
            pre { code { "interlock run examples/runs/hello.json" } }
            p { "It appears here while it happens." }
        };
        return parts::empty("Nothing has run yet.", &help);
    }
    html! {
        div.columns {
            section.panel aria-labelledby="waiting" {
                h2 #waiting { "Waiting for somebody " (count(&overview.waiting)) }
                @if overview.waiting.is_empty() { p.muted { "Nothing waits." } }
                ul.plain {
                    @for run in &overview.waiting {
                        li {
                            (parts::status(&run.status)) " "
                            @let question = run.interrupt.as_ref().map_or_else(|| run.workflow_id.clone(), run_list::Waiting::question);
                            (call.anchor(INTERRUPT, &[("runId", &run.run_id)], question))
                            div.muted {
                                (run.workflow_id)
                                @if let Some(waiting) = &run.interrupt {
                                    @if let Some(at) = &waiting.requested_at { ", asked " (call.timestamp(at)) }
                                    @if let Some(at) = &waiting.deadline { ", until " (call.timestamp(at)) }
                                }
                            }
                        }
                    }
                }
            }
            section.panel aria-labelledby="running" {
                h2 #running { "Running " (count(&overview.running)) }
                @if overview.running.is_empty() { p.muted { "Nothing runs." } }
                ul.plain {
                    @for run in &overview.running {
                        li {
                            (parts::status(&run.status)) " " (name(call, run))
                            div.muted {
                                @if let Some(node) = &run.current_node_id { "at " (node) ", " }
                                @if let Some(at) = &run.started_at { "started " (call.timestamp(at)) }
                            }
                        }
                    }
                }
            }
            section.panel aria-labelledby="failed" {
                h2 #failed { "Failed " (count(&overview.failed)) }
                @if overview.failed.is_empty() { p.muted { "Nothing failed." } }
                ul.plain {
                    @for run in &overview.failed {
                        li {
                            (parts::status(&run.status)) " " (name(call, run))
                            div { (run.reason().unwrap_or_default()) }
                            @if let Some(at) = &run.completed_at { div.muted { (call.timestamp(at)) } }
                        }
                    }
                }
            }
        }
        h2 { "Latest runs" }
        (run_list::table(call, &overview.recent))
    }
}

/// How many there are, as far as that was looked at.
fn count(runs: &[RunRow]) -> Markup {
    html! { span.muted { (runs.len()) @if runs.len() == SHOWN { "+" } } }
}

fn name(call: &Call, run: &RunRow) -> Markup {
    html! { (call.anchor(RUN, &[("runId", &run.run_id)], &run.workflow_id)) }
}
