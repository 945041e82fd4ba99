//! One node of a session: what the agent was told, what it handed in, and why the engine went where it went.

use std::sync::Arc;

use canon::budget::truncate;
use canon::time::Timestamp;
use guide::record::{NodeId, NodeKind, TraceEntry, TraceRef};
use host::guided::view::{Check, NodeLook, TURNS};
use host::runs::{ApiCode, Refusal};
use maud::{Markup, html};

use super::guided::{self, SESSION, SESSIONS};
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;

/// How much of a prompt is shown, in bytes.
const PROMPT_BYTES: usize = 16 << 10;
/// How many gaps, checks and the like are shown.
const MANY: usize = 20;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let missing = || {
        let message = "the session has no such node, or it is in the part that could not be validated";
        Refusal::new(ApiCode::NotFound, message)
    };
    let id = guided::session_id(&call)?;
    let node = NodeId::parse(call.param("nodeId")?).map_err(|_| missing())?;
    let look = guided::read(&call, move |_, guided| guided.look_at_node(&id, &node)).await?;
    let look = look.ok_or_else(missing)?;
    let turn = &look.turn;
    let title = match &turn.step_title {
        Some(title) => parts::cut(title, 120),
        None if turn.is_complete => "Complete".to_owned(),
        None => format!("Node {}", turn.node_id),
    };
    let kind = match turn.kind {
        NodeKind::Step if turn.is_complete => "complete",
        kind => guided::kind_word(kind),
    };
    let back = call.link(SESSION, &[("sessionId", look.session_id.as_str())]).map(|href| {
        let page = (look.place / TURNS).to_string();
        href + &parts::query(&[("run", look.run_id.as_str()), ("turns", &page)])
    });
    let body = html! {
        @if let Some(damage) = &look.damage { (guided::damage(&look.session_id, damage)) }
        (facts(&call, &look))
        (blockers(&look))
        (skipped(&look))
        (handed_in(&look))
        (missing_things(&look))
        (prompt(&look))
        (checks(&look.checks, &look.consequences))
        (trace(&look.trace))
    };
    let page = Page::new(title, body)
        .below("Sessions", call.link(SESSIONS, &[]))
        .below(look.session_id.as_str(), back)
        .beside(html! { (parts::status(kind)) @if turn.is_tip { " " strong { "tip" } } });
    Ok(page.into())
}

fn facts(call: &Call, look: &NodeLook) -> Markup {
    let turn = &look.turn;
    html! {
        section.panel {
            dl.facts {
                dt { "Node" } dd { code { (turn.node_id) } @if turn.is_fork { ", a fork" } }
                @if let Some(step) = &turn.step_id { dt { "Step" } dd { code { (step) } @if let Some(place) = &turn.place { ", " (place) } @for around in &turn.loops { ", in loop " (around) } } }
                @if let Some(parent) = &turn.parent_node_id { dt { "Made from" } dd { (guided::node_link(call, &look.session_id, parent)) } }
                @if !look.children.is_empty() {
                    dt { "Went on to" }
                    dd {
                        @for (place, (child, kind)) in look.children.iter().enumerate() {
                            @if place > 0 { ", " }
                            (guided::node_link(call, &look.session_id, child)) " (" (guided::kind_word(*kind)) ")"
                        }
                        @if look.children_total > look.children.len() { " and " (look.children_total - look.children.len()) " more" }
                    }
                }
                dt { "Made" } dd { (call.time(Timestamp(turn.created_ms))) }
            }
        }
    }
}

fn prompt(look: &NodeLook) -> Markup {
    html! {
        section.panel {
            h2 { "What the agent was told" }
            @match &look.prompt {
                Some(prompt) => {
                    @if let Some(role) = &prompt.agent_role { p.muted { "As " (parts::cut(role, 400)) } }
                    div.markdown.quoted { (parts::markdown(&truncate(&prompt.text, PROMPT_BYTES))) }
                },
                None if look.turn.is_complete => p.muted { "Nothing: the run is complete here." },
                None => p.muted { "This cannot be said: the state of the node, or the workflow that the run is pinned to, cannot be read." },
            }
        }
    }
}

fn handed_in(look: &NodeLook) -> Markup {
    let turn = &look.turn;
    html! {
        section.panel {
            h2 { "Handed in" @if let Some(step) = &turn.answered_step_title { span.muted { " for " (parts::cut(step, 120)) } } }
            @if turn.notes.is_none() && turn.artifacts.is_empty() {
                p.muted { @match turn.kind {
                    NodeKind::Step if turn.parent_node_id.is_none() => "Nothing: the run begins here.",
                    NodeKind::Step => "Nothing.",
                    NodeKind::Checkpoint => "Nothing: this is a bookmark of the node before it.",
                    NodeKind::BlockedAttempt => "Nothing that could be taken; what was missing stands above.",
                } }
            }
            @if let Some(notes) = &turn.notes { div.markdown.quoted { (parts::markdown(notes)) } }
            @for (artifact, text) in turn.artifacts.iter().zip(&look.artifacts) {
                details.box open[turn.artifacts.len() == 1] {
                    summary { "Artifact " (parts::cut(artifact.kind.as_deref().unwrap_or("of no kind"), 80)) ", " (artifact.bytes) " bytes" }
                    p.muted { "sha256 " (guided::digest(&artifact.sha256)) }
                    @match text {
                        Some(text) => pre.json tabindex="0" { (text) },
                        None => p { "Its bytes cannot be read; " code { "interlock session verify" } " says why." },
                    }
                }
            }
            @for assessment in turn.assessments.iter().take(MANY) { p { span.muted { "Assessed " } (assessment) } }
            @for divergence in turn.divergences.iter().take(MANY) {
                p { span.muted { "Left the path (" (guided::word(&divergence.reason)) "): " } (divergence.summary) }
            }
        }
    }
}

fn blockers(look: &NodeLook) -> Markup {
    html! {
        @for blocker in &look.turn.blockers {
            div.notice.wait {
                p { strong { (guided::word(&blocker.code)) } ": " (blocker.message) }
                @if let Some(fix) = &blocker.suggested_fix { div.markdown { (parts::markdown(fix)) } }
            }
        }
    }
}

fn skipped(look: &NodeLook) -> Markup {
    html! {
        @if !look.turn.skipped.is_empty() {
            section.panel {
                h2 { "Skipped" }
                p.muted { "Steps that did not run on the way here, and the recorded context that decided it." }
                ul.plain { @for skipped in look.turn.skipped.iter().take(MANY) {
                    li {
                        (parts::cut(&skipped.title, 120)) " " code { (skipped.kind) " " (skipped.id) } ": "
                        (parts::cut(&skipped.reason(), 400))
                    }
                } }
            }
        }
    }
}

fn missing_things(look: &NodeLook) -> Markup {
    html! {
        @if !look.turn.gaps.is_empty() {
            section.panel {
                h2 { "Gaps" }
                ul.plain { @for gap in look.turn.gaps.iter().take(MANY) {
                    li {
                        (parts::status(if gap.is_open { "open" } else { "closed" })) " " (guided::word(&gap.severity)) ": " (gap.summary)
                        span.muted { " " (parts::json_line(&serde_json::to_value(gap.reason).unwrap_or_default())) }
                    }
                } }
            }
        }
    }
}

fn checks(checks: &[Check], consequences: &[String]) -> Markup {
    if checks.is_empty() && consequences.is_empty() {
        return Markup::default();
    }
    html! {
        section.panel {
            h2 { "How it was judged" }
            ul.plain {
                @for check in checks.iter().take(MANY) {
                    li {
                        (parts::status(if check.valid { "passed" } else { "invalid" })) " " (check.contract_ref)
                        @for issue in check.issues.iter().take(MANY) { div { (issue) } }
                    }
                }
                @for guidance in consequences { li { span.muted { "The assessment asks: " } (guidance) } }
            }
        }
    }
}

/// What a decision was about.
fn about_words(about: &TraceRef) -> String {
    match about {
        TraceRef::StepId { step_id } => format!("step {step_id}"),
        TraceRef::LoopId { loop_id } => format!("loop {loop_id}"),
        TraceRef::ConditionId { condition_id } => format!("condition {condition_id}"),
        TraceRef::Iteration { value } => format!("time round {}", u64::from(*value) + 1),
    }
}

fn trace(entries: &[TraceEntry]) -> Markup {
    html! {
        section.panel {
            h2 { "Why the engine went on like this" }
            @if entries.is_empty() { p.muted { "No decision is recorded here." } }
            ol.trace { @for entry in entries {
                li {
                    span.muted { (parts::status_word(&guided::word(&entry.kind))) ": " } (entry.summary)
                    @for about in &entry.refs { " " code { (about_words(about)) } }
                }
            } }
        }
    }
}
