//! A guided session: facts, graph and turns.

use std::sync::Arc;

use ::guided::view::{RunLook, SessionLook, TURNS, Turn};
use canon::budget::truncate;
use canon::time::Timestamp;
use guide::project::summary::SessionSummary;
use guide::record::{NodeId, NodeKind};
use maud::{Markup, PreEscaped, html};
use runs::Refusal;

use super::guided::{self, NODE, PIN, SESSION, SESSIONS};
use super::session_answer;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const NOTES: usize = 110;
/// The most artifacts, blockers and gaps shown per turn; the node's page shows all.
const FEW: usize = 2;
const CONTEXT_BYTES: usize = 4 << 10;
const RUNS: usize = 20;

/// The workflow that a new run would be pinned to.
struct CurrentWorkflow {
    /// Whether that equals this run's pin; `None` if no new run can start.
    is_same: Option<bool>,
}

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let id = guided::session_id(&call)?;
    let run = guided::run_id(&call)?;
    let page = call.query.number("turns").and_then(|page| usize::try_from(page).ok());
    let sessions = guided::of(&call).await?;
    let address = |node: &NodeId| {
        let params = [("sessionId", id.as_str()), ("nodeId", node.as_str())];
        call.link(NODE, &params).unwrap_or_default()
    };
    let look = sessions.look(&id, run.as_ref(), page, &address).await.map_err(guided::refused)?;
    let today = match shown_run(&look) {
        Some(run) => {
            let reading = Arc::clone(&call);
            let found = sessions.today(run, move |path| guided::is_open(&reading, path)).await;
            Some(CurrentWorkflow { is_same: found.ok().map(|found| found.hash == run.workflow_hash) })
        }
        None => None,
    };
    // A damaged session cannot be continued, so it waits for no response.
    let waiting = match look.damage {
        None => sessions.waiting_for_people(&id).await.map_err(guided::refused)?,
        Some(_) => Vec::new(),
    };
    let run = shown_run(&look);
    let title = run.and_then(|run| run.title.clone()).unwrap_or_else(|| look.session_id.to_string());
    let body = html! {
        @if let Some(damage) = &look.damage { (guided::damage(&look.session_id, damage)) }
        @if let Some(part) = &look.salvaged {
            p.notice.wait { "Partial data: this is the valid part of session " (part.session_id) ". The rest is damaged: " (part.problem) }
        }
        @if let (Some(run), Some(today)) = (run, &today) { (drift(&call, &look, run, today)) }
        (runs(&look))
        // Apart from the rest, which changes often: a form that is being filled in is left alone.
        (call.live("waiting", &session_answer::panel(&call, look.session_id.as_str(), &waiting)))
        (call.live("session", &html! {
            (facts(&call, &look))
            @if let Some(shown) = &look.shown { (picture(shown)) (turns(&call, &look, shown)) }
        }))
        @if let Some(shown) = &look.shown { (turning(&call, shown)) (context(shown)) }
    };
    let page = Page::new(parts::cut(&title, 160), body)
        .below("Sessions", call.link(SESSIONS, &[]))
        .awake(Wake::Often);
    Ok(match run {
        Some(run) => page.beside(call.live("session-status", &parts::status(run.status.as_str()))).into(),
        None => page.into(),
    })
}

fn shown_run(look: &SessionLook) -> Option<&SessionSummary> {
    let shown = look.shown.as_ref()?;
    look.runs.iter().find(|run| run.run_id == shown.replay.run_id)
}

fn drift(call: &PageRequest, look: &SessionLook, run: &SessionSummary, today: &CurrentWorkflow) -> Markup {
    let href = call.link(PIN, &[("sessionId", look.session_id.as_str())]);
    let href = href.map(|href| href + &parts::query(&[("run", run.run_id.as_str())]));
    let see = html! { @if let Some(href) = &href { " " a href=(href) { "Compare" } } };
    html! {
        @match today.is_same {
            Some(true) => {},
            Some(false) => p.notice.wait {
                "The workflow has changed since this run started. This run keeps its pinned version; a new run uses the current version." (see)
            },
            None => p.notice.wait {
                "No new run can start: the source of " code { (run.workflow_id) } " was not found or is invalid. This run keeps its pinned version." (see)
            },
        }
    }
}

/// Tabs, if the session has several runs.
fn runs(look: &SessionLook) -> Markup {
    if look.runs.len() < 2 {
        return Markup::default();
    }
    let shown = look.shown.as_ref().map(|shown| &shown.replay.run_id);
    html! {
        nav.tabs aria-label="Runs of this session" {
            @for (place, run) in look.runs.iter().enumerate().take(RUNS) {
                @let href = parts::query(&[("run", run.run_id.as_str())]);
                a href=(href) aria-current=[(Some(&run.run_id) == shown).then_some("page")] { "Run " (place + 1) ", " (run.workflow_id) }
            }
        }
    }
}

fn facts(call: &PageRequest, look: &SessionLook) -> Markup {
    let run = shown_run(look);
    let time = |at: Option<u64>| at.map(|at| call.time(Timestamp(at)));
    let at_pin = run.and_then(|run| {
        let href = call.link(PIN, &[("sessionId", look.session_id.as_str())])?;
        Some(href + &parts::query(&[("run", run.run_id.as_str())]))
    });
    html! {
        section.panel {
            dl.facts {
                dt { "Session" } dd { code { (look.session_id) } @if look.kept { " " span.muted { "kept" } } }
                @if let Some(parent) = &look.parent_session_id {
                    dt { "Delegated from" } dd { (call.anchor(SESSION, &[("sessionId", parent.as_str())], parent.as_str())) }
                }
                @if let Some(run) = run {
                    dt { "Workflow" }
                    dd {
                        (call.anchor(super::workflows::GUIDED, &[("workflowId", &run.workflow_id)], &run.workflow_id))
                        ", pinned to " (guided::digest(&run.workflow_hash.to_string()))
                        @if let Some(href) = &at_pin { " " a href=(href) { "Compare versions" } }
                    }
                    @if let Some(root) = &run.repo_root { dt { "Workspace" } dd { (root) } }
                    @if let Some(branch) = &run.git_branch {
                        dt { "Branch" } dd { (branch) @if let Some(head) = &run.git_head_sha { " at " code { (parts::cut(head, 12)) } } }
                    }
                    dt { @if look.damage.is_some() { "Last step" } @else { "Current step" } }
                    dd { @match &run.tip_node_id {
                        Some(tip) if !run.is_complete => { (run.place.as_deref().unwrap_or("pending step")) ", node " (guided::node_link(call, &look.session_id, tip)) },
                        Some(tip) => { "complete; the last node is " (guided::node_link(call, &look.session_id, tip)) },
                        None => "no nodes yet",
                    } }
                    dt { "Gaps" }
                    dd { (run.open_gaps) " open" @if run.open_critical_gaps > 0 { ", " (run.open_critical_gaps) " critical" } }
                    dt { "Started" } dd { (time(run.created_ms).unwrap_or_default()) ", last active " (time(run.last_modified_ms).unwrap_or_default()) }
                }
                @if let Some(metrics) = look.shown.as_ref().and_then(|shown| shown.replay.metrics_line()) {
                    dt { "Metrics" } dd { (parts::cut(&metrics, 400)) }
                }
                dt { "Events" } dd { (look.events) }
            }
        }
    }
}

fn picture(shown: &RunLook) -> Markup {
    html! {
        figure.drawing {
            div.graph tabindex="0" { (PreEscaped(&shown.picture)) }
            figcaption.legend {
                span.key.step { "step" } span.key.blocked { "blocked attempt" } span.key.checkpoint { "checkpoint" } span.key.complete { "complete" }
                span { "Thick border: current node. Thick line: path to it. Dashed line: fork." }
            }
        }
    }
}

fn turns(call: &PageRequest, look: &SessionLook, shown: &RunLook) -> Markup {
    html! {
        div.scroll {
            table {
                caption.muted { "Turns " (shown.window.start + 1) " to " (shown.window.end) " of " (shown.nodes) ", oldest first" }
                thead { tr { th { "Node" } th { "Kind" } th { "Pending step" } th { "Submitted" } th { "When" } } }
                tbody { @for turn in &shown.replay.turns { (row(call, look, turn)) } }
            }
        }
    }
}

fn row(call: &PageRequest, look: &SessionLook, turn: &Turn) -> Markup {
    let kind = match turn.kind {
        NodeKind::Step if turn.is_complete => "complete",
        kind => guided::kind_word(kind),
    };
    html! {
        tr.tip[turn.is_tip] {
            th scope="row" { (guided::node_link(call, &look.session_id, &turn.node_id)) }
            td { (parts::status(kind))
                @if turn.is_fork { " " span.muted { "fork" } }
                @if turn.is_tip { " " strong { "current" } }
            }
            td {
                @match &turn.step_title {
                    Some(title) => {
                        (parts::cut(title, 60))
                        @if let Some(place) = &turn.place { " " span.muted { (place) } }
                    },
                    None if turn.is_complete => span.muted { "complete" },
                    None if !turn.is_readable => span.muted { "unreadable state" },
                    None => span.muted { "none" },
                }
                @for around in &turn.loops { " " span.muted { "[" (around) "]" } }
            }
            td.wide {
                @if let Some(notes) = &turn.notes { (guided::first_line(notes, NOTES)) }
                @for artifact in turn.artifacts.iter().take(FEW) { div.muted { "artifact " (parts::cut(artifact.kind.as_deref().unwrap_or("without a kind"), 40)) @if let Some(answer) = &artifact.answer { " " (parts::cut(answer, 80)) } } }
                @for check in turn.verified.iter().take(FEW) { div { (parts::status(if check.passed { "verified" } else { "refuted" })) " " (parts::cut(&check.words, NOTES)) } }
                @for skipped in turn.skipped.iter().take(FEW) { div { (parts::status("skipped")) " " (parts::cut(&skipped.title, 60)) span.muted { " " (parts::cut(&skipped.reason(), NOTES)) } } }
                @for blocker in turn.blockers.iter().take(FEW) { div { (parts::status("blocked")) " " (parts::cut(&blocker.message, NOTES)) } }
                @for gap in turn.gaps.iter().filter(|gap| gap.is_open).take(FEW) { div { (parts::status("gap")) " " (parts::cut(&gap.summary, NOTES)) } }
            }
            td { (call.time(Timestamp(turn.created_ms))) }
        }
    }
}

fn turning(call: &PageRequest, shown: &RunLook) -> Markup {
    let page = shown.window.start / TURNS;
    let earlier = page.checked_sub(1).map(|page| page.to_string());
    let later = (shown.window.end < shown.nodes).then(|| (page + 1).to_string());
    html! {
        @if earlier.is_some() || later.is_some() {
            p.more {
                @if let Some(page) = earlier { a.button rel="prev" href=(call.query.with("turns", Some(&page))) { "Earlier turns" } " " }
                @if let Some(page) = later { a.button rel="next" href=(call.query.with("turns", Some(&page))) { "Later turns" } }
            }
        }
    }
}

fn context(shown: &RunLook) -> Markup {
    let context = serde_json::to_string_pretty(&shown.replay.context).unwrap_or_default();
    html! {
        details.box {
            summary { "Context of the run" }
            p.muted { "The latest context values of the run." }
            pre.json tabindex="0" { (truncate(&context, CONTEXT_BYTES)) }
        }
    }
}
