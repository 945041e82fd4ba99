//! A run: graph, timeline, values and actions.

use std::sync::Arc;

use canon::time::Timestamp;
use flow::definition::Definition;
use flow::id::{ArtifactId, RunId};
use flow::run::{ForkMode, RunStatus};
use flow::snapshot::{NodeView, RunView};
use flow::state::NodeStatus;
use maud::{Markup, html};
use runs::{Refusal, Scope};
use serde_json::{Map, Value};

use super::run_list::{self, RUN};
use crate::call::PageRequest;
use crate::graph::{self, Drawing, Graph};
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

/// The largest graph shown on this page; larger graphs have a separate page.
const INLINE_NODES: usize = 120;
/// The most bytes of such a graph.
const INLINE_BYTES: usize = 32 << 10;
const MAX_ROWS: usize = 60;
/// The most bytes of the table rows.
const TIMELINE_BYTES: usize = 28 << 10;
/// The most bytes of values that are shown.
const VALUE_BYTES: usize = 24 << 10;
/// The width of the timeline, in SVG units.
const SCALE: u64 = 1000;

pub(super) struct View {
    pub(super) run: RunView,
    definition: Arc<Definition>,
    artifacts: Vec<ArtifactId>,
    next_sequence: u64,
}

impl View {
    pub(super) async fn read(call: &PageRequest) -> Result<Self, Refusal> {
        let run_id = &call.run_id()?;
        let (run, next_sequence) = call.runs().queries().view(&call.caller, run_id).await?;
        let definition = call.runs().queries().definition_of(&call.caller, run_id).await?;
        let artifacts = if call.may(Scope::ArtifactsRead) {
            call.runs().artifacts().ids(&call.caller, run_id).await?
        } else {
            Vec::new()
        };
        Ok(Self { run, definition, artifacts, next_sequence })
    }

    fn node(&self, id: &str) -> Option<&NodeView> {
        self.run.node_states.get(id)
    }

    /// The workflow graph with the node states of this run.
    pub(super) fn graph(&self) -> Graph {
        let nodes = self.definition.nodes.iter().map(|node| {
            let status = self.node(node.id.as_str()).map_or(NodeStatus::Pending, |node| node.status);
            graph::Node {
                label: if node.name.is_empty() { node.id.to_string() } else { node.name.clone() },
                kind: node.type_id().to_owned(),
                tone: if status == NodeStatus::Pending { "none" } else { parts::tone(status.as_str()) },
                state: parts::status_word(status.as_str()),
                href: Some(format!("{}#node", parts::query(&[("node", node.id.as_str())]))),
            }
        });
        let edges = self.definition.edges.iter().map(|edge| (edge.source, edge.target));
        Graph { nodes: nodes.collect(), edges: edges.collect() }
    }

    /// The events that update a page about this run.
    pub(super) fn wake(&self) -> Wake {
        if self.is_over() { Wake::Never } else { Wake::Run(self.run.run_id.clone()) }
    }

    fn is_over(&self) -> bool {
        self.run.status.is_terminal()
    }
}

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let view = View::read(&call).await?;
    let title =
        if view.definition.name.is_empty() { view.run.workflow_id.as_str() } else { &view.definition.name };
    let page = Page::new(title, body(&call, &view))
        .below("Runs", call.link("builtin-interlock-runs:routes/list", &[]))
        .below(view.run.run_id.as_str(), None);
    Ok(page.awake(view.wake()).into())
}

fn body(call: &PageRequest, view: &View) -> Markup {
    let graph = view.graph();
    let nodes = graph.nodes.len();
    let drawing = (nodes <= INLINE_NODES).then(|| Drawing::new(graph).ok()).flatten();
    let drawn =
        drawing.filter(|drawing| drawing.parts() == 1).map(|drawing| (drawing.draw(0), drawing.states(0)));
    let drawn = drawn.filter(|(picture, _)| picture.0.len() <= INLINE_BYTES);
    let node = call.query.text("node").and_then(|id| Some((id, view.node(id)?)));
    html! {
        (call.live("run-state", &state(call, view)))
        @if let Some((id, state)) = node { (node_panel(id, state)) }
        section aria-labelledby="graph-title" {
            h2 #graph-title { "Graph" }
            @if let Some((picture, states)) = drawn {
                (picture)
                (call.live("graph-states", &states))
            } @else {
                p { "The graph has " (nodes) " nodes. "
                    (call.anchor("builtin-interlock-runs:routes/graph", &[("runId", view.run.run_id.as_str())], "Open the graph")) }
            }
        }
        (call.live("timeline", &timeline(call, view)))
        div.columns {
            (call.live("values", &values(&view.run)))
            (call.live("relations", &relations(call, view)))
        }
    }
}

/// The run's status and actions.
fn state(call: &PageRequest, view: &View) -> Markup {
    let run = &view.run;
    html! {
        div.heading {
            (parts::status(run.status.as_str()))
            span.mono { (run.run_id) }
            @if let Some(at) = run.started_at { span.muted { "started " (call.time(at)) } }
            @if let Some(at) = run.completed_at { span.muted { "ended " (call.time(at)) } }
            @if let Some(at) = run.paused_at { span.muted { "paused " (call.time(at)) } }
            @for tag in run.tags.iter().take(8) { code { (tag) } }
        }
        @if let Some(error) = &run.error {
            div.notice.bad role="alert" {
                strong { (run_list::reason(run).unwrap_or_default()) }
                details #error { summary { "Details" } (parts::json(&error.to_json())) }
            }
        }
        @if let Some(waiting) = &run.interrupt {
            div.notice.wait {
                strong { (run_list::question(waiting)) } " "
                span.muted { (waiting.kind) " at " (waiting.node_id) @if let Some(at) = waiting.requested_at { ", requested " (call.time(at)) } }
                @if let Some(href) = call.link("builtin-interlock-approvals:routes/interrupt", &[("runId", run.run_id.as_str())]) {
                    " " a.button href=(href) { @if call.may(Scope::ApprovalsRespond) { "Answer" } @else { "View" } }
                }
            }
        }
        (actions(call, view))
    }
}

fn actions(call: &PageRequest, view: &View) -> Markup {
    let run_id = ("runId", view.run.run_id.as_str());
    let reason = |id: &str| html! { label.muted for=(id) { "Reason (optional)" } input id=(id) name="reason" maxlength="1024"; " " };
    let last = view.next_sequence.saturating_sub(1);
    html! {
        div.actions {
            (call.anchor("builtin-interlock-runs:routes/events", &[run_id], html! { "Events (" (view.next_sequence) ")" }))
            @if !view.is_over() && call.may(Scope::RunsCancel) {
                @if view.run.status == RunStatus::Paused {
                    (call.post_form("builtin-interlock-runs:routes/resume", &[run_id], "", &html! { button.primary type="submit" { "Resume" } }))
                } @else if view.run.status != RunStatus::Cancelling {
                    (call.post_form("builtin-interlock-runs:routes/pause", &[run_id], "", &html! { button type="submit" { "Pause" } }))
                }
                details #cancel-run.box { summary { "Cancel" }
                    (call.post_form("builtin-interlock-runs:routes/cancel", &[run_id], "", &html! {
                        p { "This ends the run and its child runs. It cannot be undone." }
                        (reason("cancel-reason")) button.danger type="submit" { "Cancel run" }
                    }))
                }
            }
            @if call.may(Scope::RunsCreate) {
                details #fork-run.box { summary { "Fork" }
                    (call.post_form("builtin-interlock-runs:routes/fork", &[run_id], "", &html! {
                        label for="fork-from" { "From event" }
                        input #fork-from type="number" name="from" min="0" max=(view.next_sequence) value=(last) required;
                        p.hint { "The first event to execute again. Earlier events are copied." }
                        label.inline { input type="radio" name="mode" value="branch" checked; "Branch: continue with new results" }
                        label.inline { input type="radio" name="mode" value="replay"; "Replay: reuse recorded results" }
                        p { button.primary type="submit" { "Fork" } }
                    }))
                }
            }
            @if let Some(href) = call.link("builtin-interlock-runs:routes/diff", &[run_id]) {
                form method="get" action=(href) {
                    label.inline for="diff-with" { "Compare with" }
                    input #diff-with name="with" required spellcheck="false" placeholder="run id" value=[&view.run.source_run_id];
                    " " button type="submit" { "Compare" }
                }
            }
        }
    }
}

/// A node that has started.
struct Step<'v> {
    id: &'v str,
    status: NodeStatus,
    /// The number of earlier attempts.
    attempt: u32,
    began: Timestamp,
    ended: Option<Timestamp>,
}

/// The started nodes, in order of start.
fn steps(view: &View) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for node in &view.definition.nodes {
        let Some(state) = view.node(node.id.as_str()) else { continue };
        if let Some(began) = state.started_at {
            steps.push(Step {
                id: node.id.as_str(),
                status: state.status,
                attempt: state.attempt,
                began,
                ended: state.completed_at,
            });
        }
    }
    steps.sort_by_key(|step| step.began);
    steps
}

/// The nodes with their durations.
fn timeline(call: &PageRequest, view: &View) -> Markup {
    let steps = steps(view);
    let begin = steps.first().map_or(call.now, |step| step.began);
    let end = steps.iter().map(|step| step.ended.unwrap_or(call.now)).max().unwrap_or(call.now);
    let span = end.since(begin).max(1);
    let page = call.link(RUN, &[("runId", view.run.run_id.as_str())]).unwrap_or_default();
    let mut rows = Vec::new();
    let mut room = TIMELINE_BYTES;
    for step in steps.iter().take(MAX_ROWS) {
        let took = step.ended.unwrap_or(call.now).since(step.began);
        let row = html! {
            tr {
                th scope="row" {
                    a href={ (page) (parts::query(&[("node", step.id)])) "#node" } { (parts::cut(step.id, 80)) }
                    @if step.attempt > 0 { " " span.muted { "attempt " (step.attempt + 1) } }
                }
                td { (parts::status(step.status.as_str())) }
                td { (call.time(step.began)) }
                td.number { (parts::duration(took)) }
                td.wide { (bar(step.status.as_str(), step.began.since(begin) * SCALE / span, took * SCALE / span)) }
            }
        };
        let Some(left) = room.checked_sub(row.0.len()) else { break };
        room = left;
        rows.push(row);
    }
    html! {
        section.panel aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline " span.muted { (steps.len()) " of " (view.definition.nodes.len()) " nodes started" } }
            @if steps.is_empty() { p.muted { "No node has started." } } @else {
                div.scroll { table {
                    thead { tr { th { "Node" } th { "State" } th { "Started" } th.number { "Duration" } th.wide { "When" } } }
                    tbody { @for row in &rows { (row) } }
                } }
                @if steps.len() > rows.len() { p.muted { "The first " (rows.len()) " are shown. See the graph and the events for the rest." } }
            }
        }
    }
}

/// A bar on a time scale that all rows share.
fn bar(status: &str, from: u64, width: u64) -> Markup {
    html! {
        div.bars { svg viewBox={ "0 0 " (SCALE) " 14" } preserveAspectRatio="none" aria-hidden="true" {
            rect class={ "bar " (parts::tone(status)) } x=(from.min(SCALE - 4)) y="3" height="8" width=(width.max(4)) {}
        } }
    }
}

/// One node with its result.
fn node_panel(id: &str, node: &NodeView) -> Markup {
    html! {
        section.panel #node tabindex="-1" {
            h2 { "Node " code { (id) } " " (parts::status(node.status.as_str())) }
            @if let Some(error) = &node.error { h3 { "Error" } (parts::json(&error.to_json())) }
            @match &node.outputs {
                Some(outputs) => { h3 { "Outputs" } (parts::json(&Value::Object(outputs.clone()))) },
                None => p.muted { "No outputs." },
            }
        }
    }
}

fn values(run: &RunView) -> Markup {
    let shown = [
        ("inputs", "Inputs", &run.inputs),
        ("variables", "Variables", &run.variables),
        ("channels", "Channels", &run.channels),
        ("metadata", "Metadata", &run.metadata),
        ("configurable", "Options", &run.configurable),
        ("metrics", "Metrics", &run.metrics),
    ];
    let present = shown.into_iter().filter(|(_, _, members)| !members.is_empty());
    let mut room = VALUE_BYTES;
    html! {
        section.panel {
            h2 { "Values" }
            @if shown.iter().all(|(_, _, members)| members.is_empty()) { p.muted { "The run has no inputs and no values." } }
            @for (name, title, value) in present {
                details id={ "values-" (name) } open[matches!(name, "inputs" | "variables")] { summary { (title) } (members(value, &mut room)) }
            }
        }
    }
}

/// The members of an object, within the byte budget of the page.
fn members(members: &Map<String, Value>, room: &mut usize) -> Markup {
    let mut shown = Vec::new();
    for (name, value) in members {
        let member = html! { h3 { (parts::cut(name, 120)) } (parts::json(value)) };
        let Some(left) = room.checked_sub(member.0.len()) else { break };
        *room = left;
        shown.push(member);
    }
    html! {
        @for member in &shown { (member) }
        @if members.len() > shown.len() { p.muted { "And " (members.len() - shown.len()) " more that do not fit on this page." } }
    }
}

fn relations(call: &PageRequest, view: &View) -> Markup {
    let run = &view.run;
    let children = &run.child_runs;
    let link =
        |run_id: &RunId| call.anchor(RUN, &[("runId", run_id.as_str())], html! { span.mono { (run_id) } });
    html! {
        section.panel {
            h2 { "Artifacts" }
            @if view.artifacts.is_empty() { p.muted { "None." } }
            ul.plain { @for id in &view.artifacts {
                @let href = call.link("builtin-interlock-runs:routes/artifact", &[("runId", view.run.run_id.as_str())]);
                li { @match href { Some(href) => a href={ (href) (parts::query(&[("id", id.as_str())])) } { (id.as_str()) }, None => (id.as_str()) } }
            } }
        }
        section.panel {
            h2 { "Details" }
            dl.facts {
                dt { "Workflow" } dd { (view.run.workflow_id) " " span.muted { (view.definition.version) } }
                dt { "Definition" } dd { code { (parts::cut(&view.definition.digest.to_string(), 23)) } }
                @if let Some(owner) = &run.owner { dt { "Created by" } dd { (owner.principal) } }
                @if let Some(parent) = &run.parent_run_id { dt { "Started by" } dd { (link(parent)) @if let Some(node) = &run.parent_node_id { " at " (node) } } }
                @if let Some(source) = &run.source_run_id {
                    dt { "Forked from" } dd { (link(source)) @if let Some(mode) = run.fork_mode { ", " (fork_word(mode)) }
                        @if let Some(sequence) = run.parent_seq { ", from event " (sequence) } }
                }
            }
            @if !children.is_empty() {
                h3 { "Children" }
                ul.plain { @for child in children.iter().take(100) {
                    li { (parts::status(child.status.as_str())) " " (link(&child.run_id)) " " span.muted { (child.workflow_id) " by " (child.node_id) } }
                } }
                @if children.len() > 100 { p.muted { "And " (children.len() - 100) " more." } }
            }
        }
    }
}

fn fork_word(mode: ForkMode) -> &'static str {
    match mode {
        ForkMode::Replay => "replay",
        ForkMode::Branch => "branch",
    }
}
