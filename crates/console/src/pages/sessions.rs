//! Guided sessions, grouped by workspace and branch.

use std::sync::Arc;

use ::guided::view::{Branch, Folder, ShelfEntry, ShelfPage};
use canon::time::Timestamp;
use guide::project::summary::SessionSummary;
use maud::{Markup, html};
use runs::Refusal;

use super::guided::{self, SESSION};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const PAGE: usize = 30;
const RUNS: usize = 5;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let first = call.query.number("from").and_then(|from| usize::try_from(from).ok()).unwrap_or_default();
    let shelf = guided::of(&call).await?.shelf(first, PAGE).await.map_err(guided::refused)?;
    let list = if shelf.total == 0 { nothing(&call) } else { folders(&call, &shelf) };
    let body = html! {
        (call.live("sessions", &list))
        (unreadable(&call, &shelf))
        (turning(&call, &shelf))
    };
    Ok(Page::new("Sessions", body).awake(Wake::Often).into())
}

fn nothing(call: &PageRequest) -> Markup {
    let help = html! {
        p { "A session guides an agent through a workflow step by step, and records its notes, blocked attempts "
            "and decisions. Connect an agent over MCP to " code { (call.runs().public_url()) "/mcp" } " with a key, or on this machine with" }
        pre { code { "interlock mcp" } }
        p { "and ask it to start one of the " (call.anchor(super::workflows::LIST, &[], "workflows")) ". The session appears here." }
    };
    parts::empty("No sessions yet.", &help)
}

fn folders(call: &PageRequest, shelf: &ShelfPage) -> Markup {
    html! { @for folder in &shelf.folders { (workspace(call, folder)) } }
}

fn workspace(call: &PageRequest, folder: &Folder) -> Markup {
    html! {
        section.panel {
            h2 { @match &folder.workspace {
                Some(path) => { span.muted { "Workspace " } (path) },
                None => "No workspace",
            } }
            @for branch in &folder.branches { (sessions(call, branch)) }
        }
    }
}

fn sessions(call: &PageRequest, branch: &Branch) -> Markup {
    html! {
        h3 { @match &branch.name {
            Some(name) => { span.muted { "Branch " } (name) },
            None => span.muted { "No branch" },
        } }
        div.scroll.cards {
            table {
                thead { tr {
                    th { "About" } th { "Workflow" } th { "State" } th.number { "Step" } th.number { "Gaps" } th { "Last active" }
                } }
                tbody { @for session in &branch.sessions { (rows(call, session)) } }
            }
        }
    }
}

fn rows(call: &PageRequest, session: &ShelfEntry) -> Markup {
    html! {
        @if session.runs.is_empty() {
            tr {
                th scope="row" { (link(call, session, session.session_id.as_str(), None)) }
                td colspan="5" { (parts::status("damaged")) " " (session.damage.as_deref().unwrap_or("No run yet.")) }
            }
        }
        @for (place, run) in session.runs.iter().enumerate().take(RUNS) {
            tr {
                th.wide scope="row" {
                    @let title = run.title.as_deref().map_or_else(|| session.session_id.to_string(), |title| parts::cut(title, 120));
                    (link(call, session, &title, (place > 0).then_some(run)))
                    @if place == 0 && session.health != "healthy" {
                        " " span title=[session.damage.as_deref()] { (parts::status("damaged")) }
                    }
                    @if place == 0 && session.kept { " " span.muted { "kept" } }
                }
                td { (run.workflow_id) }
                td.state { (parts::status(run.status.as_str())) }
                td data-label="Step" { (run.place.as_deref().unwrap_or("-")) }
                td.number data-label="Gaps" { (gaps(run)) }
                td data-label="Last active" { @if let Some(at) = run.last_modified_ms { (call.time(Timestamp(at))) } }
            }
        }
    }
}

fn link(call: &PageRequest, session: &ShelfEntry, text: &str, run: Option<&SessionSummary>) -> Markup {
    let query = run.map(|run| parts::query(&[("run", run.run_id.as_str())])).unwrap_or_default();
    match call.link(SESSION, &[("sessionId", session.session_id.as_str())]) {
        Some(href) => html! { a href={ (href) (query) } { (text) } },
        None => html! { (text) },
    }
}

fn gaps(run: &SessionSummary) -> Markup {
    html! {
        @match (run.open_gaps, run.open_critical_gaps) {
            (0, _) => span.muted { "0" },
            (open, 0) => (open),
            (open, critical) => { (open) " (" (critical) " critical)" },
        }
    }
}

/// Sessions whose first event cannot be read, so that their workspace is unknown.
fn unreadable(call: &PageRequest, shelf: &ShelfPage) -> Markup {
    if shelf.unreadable_total == 0 {
        return Markup::default();
    }
    html! {
        section.panel {
            h2 { "Damaged sessions " span.muted { (shelf.unreadable_total) } }
            p.muted { "These sessions cannot be continued. Open one to see its valid part; "
                code { "interlock session verify" } " checks all of them." }
            ul.plain { @for id in &shelf.unreadable {
                li { (call.anchor(SESSION, &[("sessionId", id.as_str())], id.as_str())) }
            } }
        }
    }
}

fn turning(call: &PageRequest, shelf: &ShelfPage) -> Markup {
    let newer = (shelf.first > 0).then(|| shelf.first.saturating_sub(PAGE).to_string());
    let older = (shelf.first + PAGE < shelf.total).then(|| (shelf.first + PAGE).to_string());
    html! {
        @if newer.is_some() || older.is_some() {
            p.more {
                @if let Some(from) = newer { a.button rel="prev" href=(call.query.with("from", Some(&from))) { "Newer" } " " }
                span.muted { (shelf.first + 1) " to " ((shelf.first + PAGE).min(shelf.total)) " of " (shelf.total) } " "
                @if let Some(from) = older { a.button rel="next" href=(call.query.with("from", Some(&from))) { "Older" } }
            }
        }
    }
}
