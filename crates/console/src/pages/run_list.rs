//! The table of runs that several pages share.

use canon::time::Timestamp;
use flow::snapshot::{InterruptView, RunView};
use maud::{Markup, html};
use ports::runs::{ListCursor, RunFilter};
use runs::{ApiCode, Refusal};
use serde_json::Value;

use crate::call::PageRequest;
use crate::parts;

pub(super) const RUN: &str = "builtin-interlock-runs:routes/run";

/// The error of a run in one line.
pub(super) fn reason(run: &RunView) -> Option<String> {
    run.error.as_ref().map(|error| parts::cut(&error.message, 160))
}

fn took(run: &RunView, now: Timestamp) -> Option<String> {
    let ended = run.completed_at.unwrap_or(now);
    run.started_at.map(|began| parts::duration(ended.since(began)))
}

/// The question of an interrupt in one line.
pub(super) fn question(waiting: &InterruptView) -> String {
    asked(&waiting.data)
        .map_or_else(|| format!("{} at {}", waiting.kind, waiting.node_id), |text| parts::cut(text, 160))
}

/// The title of a request, from the field that its kind uses for it.
pub(super) fn asked(data: &Value) -> Option<&str> {
    // No response is needed: the run continues when the agent is done.
    if data.get("eventType").and_then(Value::as_str) == Some(flow::engine::guide::EVENT_TYPE) {
        return Some("An agent is working");
    }
    let named = ["title", "prompt", "question", "message", "description", "initialPrompt", "eventType"];
    let pointers = [
        "/payload/title",
        "/payload/prompt",
        "/payload/message",
        "/questions/0/question",
        "/questions/0/text",
        "/customKind",
    ];
    let direct = named.iter().find_map(|name| data.get(name)?.as_str());
    direct.or_else(|| pointers.iter().find_map(|pointer| data.pointer(pointer)?.as_str()))
}

/// The query field with the cursor of a page.
const CURSOR: &str = "before";

pub(super) fn cursor(call: &PageRequest) -> Option<ListCursor> {
    call.query.text(CURSOR).map(ListCursor::new)
}

/// A page of runs, and the cursor of the next one. An invalid cursor, such as one in an edited address, gives the first page.
pub(super) async fn read(
    call: &PageRequest,
    filter: &RunFilter,
    limit: usize,
) -> Result<(Vec<RunView>, Option<ListCursor>), Refusal> {
    match call.runs().queries().views(&call.caller, filter, limit).await {
        Err(refusal) if filter.after.is_some() && refusal.code == ApiCode::ValidationError => {
            let first = RunFilter { after: None, ..filter.clone() };
            call.runs().queries().views(&call.caller, &first, limit).await
        }
        read => read,
    }
}

/// The link to the next page.
pub(super) fn older(call: &PageRequest, next: Option<&ListCursor>) -> Option<String> {
    next.map(|next| call.query.with(CURSOR, Some(next.as_str())))
}

pub(super) fn table(call: &PageRequest, runs: &[RunView]) -> Markup {
    html! {
        div.scroll.cards {
            table {
                thead { tr { th { "Run" } th { "Workflow" } th { "State" } th { "Current node" } th { "Started" } th.number { "Duration" } } }
                tbody {
                    @for run in runs {
                        tr {
                            th scope="row" { (call.anchor(RUN, &[("runId", run.run_id.as_str())], html! { span.mono { (run.run_id) } })) }
                            td.name { (run.workflow_id) }
                            td.state { (parts::status(run.status.as_str())) }
                            td.wide {
                                @match (&run.interrupt, reason(run)) {
                                    (Some(waiting), _) => (question(waiting)),
                                    (None, Some(reason)) => (reason),
                                    (None, None) => @if let Some(node) = &run.current_node_id { (node) },
                                }
                            }
                            td data-label="Started" { @if let Some(at) = run.started_at { (call.time(at)) } }
                            td.number data-label="Duration" { (took(run, call.now).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}
