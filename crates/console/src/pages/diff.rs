//! Two runs side by side.

use std::sync::Arc;

use flow::id::RunId;
use host::runs::{ApiCode, Refusal};
use maud::{Markup, html};
use serde_json::Value;

use super::run_list::RUN;
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;

/// How many differences are shown of each kind.
const SHOWN: usize = 60;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let run_id = &call.run_id()?;
    let Some(other) = call.query.text("with") else {
        return Err(Refusal::new(
            ApiCode::ValidationError,
            "say which run to compare with, from the page of this one",
        ));
    };
    let difference = call.runs().difference(&call.caller, run_id, &RunId::new(other))?;
    let link = |run_id: &str| call.link(RUN, &[("runId", run_id)]);
    let run_id = run_id.as_str();
    let page = Page::new("Difference", body(&call, run_id, other, &difference));
    Ok(page.below(run_id, link(run_id)).below(other, link(other)).into())
}

fn body(call: &Call, a: &str, b: &str, difference: &Value) -> Markup {
    let events =
        difference.get("eventDiffs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let state = difference
        .get("stateDiff")
        .filter(|state| state.as_object().is_some_and(|members| !members.is_empty()));
    let link = |run_id: &str| call.anchor(RUN, &[("runId", run_id)], html! { span.mono { (run_id) } });
    html! {
        p { "A is " (link(a)) ", B is " (link(b)) ". "
            @match difference.get("divergedAtSeq").and_then(Value::as_u64) {
                Some(sequence) => { "They part at event " strong { (sequence) } "." },
                None => strong { "They tell the same story." },
            }
        }
        @if !events.is_empty() {
            section.panel {
                h2 { "Events " span.muted { (events.len()) @if difference.get("truncated").is_some() { "+" } } }
                div.scroll { table {
                    thead { tr { th.number { "#" } th { "" } th { "A" } th { "B" } } }
                    tbody { @for entry in events.iter().take(SHOWN) { tr {
                        td.number { (entry.get("seq").and_then(Value::as_u64).unwrap_or_default()) }
                        td { (entry.get("op").and_then(Value::as_str).unwrap_or_default()) }
                        td.half { (event(entry.get("aEvent"))) }
                        td.half { (event(entry.get("bEvent"))) }
                    } } }
                } }
                @if events.len() > SHOWN { p.muted { "The first " (SHOWN) " are shown." } }
            }
        }
        @if let Some(state) = state { section.panel { h2 { "What they hold" } (parts::json_whole(state)) } }
    }
}

fn event(event: Option<&Value>) -> Markup {
    let Some(event) = event else { return html! { span.muted { "nothing" } } };
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    html! {
        strong { (text("type")) } " " (text("nodeId"))
        div.mono { (parts::json_line(event.get("payload").unwrap_or(&Value::Null))) }
    }
}
