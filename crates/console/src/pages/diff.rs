//! Compares two runs.

use std::sync::Arc;

use flow::history::{ComparedEvent, Difference, EventDifference, StateDifference};
use flow::id::{NodeId, RunId};
use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};

use super::run_list::RUN;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

/// The most differences shown per kind.
const SHOWN: usize = 60;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let Some(other) = call.query.text("with") else {
        return Err(Refusal::new(
            ApiCode::ValidationError,
            "Name the run to compare with in `with`, or use Compare on the run's page.",
        ));
    };
    let difference = call.runs().queries().difference(&call.caller, run_id, &RunId::new(other)).await?;
    let link = |run_id: &str| call.link(RUN, &[("runId", run_id)]);
    let run_id = run_id.as_str();
    let page = Page::new("Compare", body(&call, run_id, other, &difference));
    Ok(page.below(run_id, link(run_id)).below(other, link(other)).into())
}

fn body(call: &PageRequest, a: &str, b: &str, difference: &Difference) -> Markup {
    let Difference { diverged_at, events, state, is_truncated } = difference;
    let link = |run_id: &str| call.anchor(RUN, &[("runId", run_id)], html! { span.mono { (run_id) } });
    html! {
        p { "A is " (link(a)) ", B is " (link(b)) ". "
            @match diverged_at {
                Some(sequence) => { "First difference: event " strong { (sequence) } "." },
                None => strong { "The runs are identical." },
            }
        }
        @if !events.is_empty() {
            section.panel {
                h2 { "Events " span.muted { (events.len()) @if *is_truncated { "+" } } }
                div.scroll { table {
                    thead { tr { th.number { "#" } th { "" } th { "A" } th { "B" } } }
                    tbody { @for entry in events.iter().take(SHOWN) { tr {
                        td.number { (entry.sequence) }
                        td { (change(entry)) }
                        td.half { (event(entry.a.as_ref())) }
                        td.half { (event(entry.b.as_ref())) }
                    } } }
                } }
                @if events.len() > SHOWN { p.muted { "The first " (SHOWN) " are shown." } }
            }
        }
        @if !state.is_empty() { section.panel { h2 { "State" } (parts::json_whole(&sides(state))) } }
    }
}

const fn change(entry: &EventDifference) -> &'static str {
    match (&entry.a, &entry.b) {
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
        (None, _) => "added",
    }
}

/// The members that differ, each with both values.
fn sides(state: &[StateDifference]) -> Value {
    let member =
        |StateDifference { member, a, b }: &StateDifference| ((*member).to_owned(), json!({"a": a, "b": b}));
    Value::Object(state.iter().map(member).collect())
}

fn event(event: Option<&ComparedEvent>) -> Markup {
    let Some(ComparedEvent { kind, node_id, payload }) = event else {
        return html! { span.muted { "no event" } };
    };
    html! {
        strong { (kind.as_str()) } " " (node_id.as_ref().map_or("", NodeId::as_str))
        div.mono { (parts::json_line(&Value::Object(payload.clone()))) }
    }
}
