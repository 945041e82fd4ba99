//! The events of a run, with their payloads.

use std::sync::Arc;

use flow::event::wire::RawEvent;
use flow::id::NodeId;
use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use serde_json::Value;

use super::run_list::RUN;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const PAGE: u64 = 50;
/// The payload characters shown per event in the list.
const SHORT: usize = 480;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let (status, end) = call.runs().queries().status(&call.caller, run_id).await?;
    let run = call.link(RUN, &[("runId", run_id.as_str())]);
    if let Some(sequence) = call.query.number("event") {
        let (events, _) = call.runs().queries().event_page(&call.caller, run_id, sequence, 1).await?;
        let missing = || Refusal::new(ApiCode::NotFound, "Event not found in this run.");
        let event = events.first().filter(|event| event.sequence == sequence).ok_or_else(missing)?;
        let page = Page::new(format!("Event {sequence}"), whole(&call, event));
        return Ok(page.below(run_id.as_str(), run).below("Events", Some(call.here())).into());
    }
    let from = call.query.number("from").unwrap_or(0).min(end);
    let limit = usize::try_from(PAGE).unwrap_or(usize::MAX);
    let (events, more) = call.runs().queries().event_page(&call.caller, run_id, from, limit).await?;
    let next = events.last().filter(|_| more).map(|event| event.sequence + 1);
    let body = html! { (paging(&call, from, next, end)) (call.live("events", &table(&call, &events))) (paging(&call, from, next, end)) };
    let wake = if more || status.is_terminal() { Wake::Never } else { Wake::Run(run_id.clone()) };
    Ok(Page::new("Events", body)
        .below("Runs", call.link("builtin-interlock-runs:routes/list", &[]))
        .below(run_id.as_str(), run)
        .beside(parts::status(status.as_str()))
        .awake(wake)
        .into())
}

fn paging(call: &PageRequest, from: u64, next: Option<u64>, end: u64) -> Markup {
    let to = |from: u64| call.query.with("from", Some(&from.to_string()));
    html! {
        nav.actions aria-label="Pages of events" {
            @if from > 0 { a.button href=(to(0)) { "First" } a.button href=(to(from.saturating_sub(PAGE))) rel="prev" { "Previous" } }
            @if let Some(next) = next { a.button href=(to(next)) rel="next" { "Next" } a.button href=(to(end.saturating_sub(PAGE))) { "Last" } }
            span.muted { (end) " events" }
        }
    }
}

fn table(call: &PageRequest, events: &[RawEvent]) -> Markup {
    html! {
        div.scroll.cards { table {
            thead { tr { th.number { "#" } th { "When" } th { "Event" } th { "Node" } th.wide { "Payload" } } }
            tbody { @for event in events {
                @let payload = Value::Object(event.payload.clone());
                @let text = serde_json::to_string_pretty(&payload).unwrap_or_default();
                tr {
                    td.number data-label="#" { a href=(call.query.with("event", Some(&event.sequence.to_string()))) { (event.sequence) } }
                    td { (call.time(event.timestamp)) }
                    td.name { (event.kind.as_str()) }
                    td data-label="Node" { (parts::cut(event.node_id.as_ref().map(NodeId::as_str).unwrap_or_default(), 60)) }
                    td.wide { @if !event.payload.is_empty() {
                        details id={ "e" (event.sequence) } { summary { span.mono { (parts::json_line(&payload)) } } pre.json { (parts::excerpt(&text, SHORT)) } }
                    } }
                }
            } }
        } }
    }
}

/// One event with its whole payload.
fn whole(call: &PageRequest, event: &RawEvent) -> Markup {
    html! {
        section.panel {
            dl.facts {
                dt { "Event" } dd { (event.kind.as_str()) }
                @if let Some(node) = &event.node_id { dt { "Node" } dd { (node) } }
                dt { "When" } dd { (call.time(event.timestamp)) " " span.muted { (event.timestamp.to_rfc3339()) } }
                @if let Some(cause) = &event.causation_id { dt { "Caused by" } dd { code { (cause) } } }
            }
            (parts::json_whole(&Value::Object(event.payload.clone())))
        }
    }
}
