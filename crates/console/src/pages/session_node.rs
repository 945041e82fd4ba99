//! One node of a session: the prompt, the submission, and the decisions of the engine.

use std::sync::Arc;

use ::guided::view::{Check, NodeLook, TURNS};
use canon::budget::truncate;
use canon::time::Timestamp;
use guide::record::{NodeId, NodeKind, TraceEntry, TraceRef};
use maud::{Markup, html};
use runs::{ApiCode, Refusal};

use super::guided::{self, SESSION, SESSIONS};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

const PROMPT_BYTES: usize = 16 << 10;
const MANY: usize = 20;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let missing = || {
        let message = "Node not found, or it is in the damaged part of the session.";
        Refusal::new(ApiCode::NotFound, message)
    };
    let id = guided::session_id(&call)?;
    let node = NodeId::parse(call.param("nodeId")?).map_err(|_| missing())?;
    let look = guided::of(&call).await?.look_at_node(&id, &node).await.map_err(guided::refused)?;
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
        .beside(html! { (parts::status(kind)) @if turn.is_tip { " " strong { "current" } } });
    Ok(page.into())
}

fn facts(call: &PageRequest, look: &NodeLook) -> Markup {
    let turn = &look.turn;
    html! {
        section.panel {
            dl.facts {
                dt { "Node" } dd { code { (turn.node_id) } @if turn.is_fork { ", a fork" } }
                @if let Some(step) = &turn.step_id { dt { "Step" } dd { code { (step) } @if let Some(place) = &turn.place { ", " (place) } @for around in &turn.loops { ", in loop " (around) } } }
                @if let Some(parent) = &turn.parent_node_id { dt { "Parent" } dd { (guided::node_link(call, &look.session_id, parent)) } }
                @if !look.children.is_empty() {
                    dt { "Children" }
                    dd {
                        @for (place, (child, kind)) in look.children.iter().enumerate() {
                            @if place > 0 { ", " }
                            (guided::node_link(call, &look.session_id, child)) " (" (guided::kind_word(*kind)) ")"
                        }
                        @if look.children_total > look.children.len() { " and " (look.children_total - look.children.len()) " more" }
                    }
                }
                dt { "Created" } dd { (call.time(Timestamp(turn.created_ms))) }
            }
        }
    }
}

fn prompt(look: &NodeLook) -> Markup {
    html! {
        section.panel {
            h2 { "Prompt" }
            @match &look.prompt {
                Some(prompt) => {
                    @if let Some(role) = &prompt.agent_role { p.muted { "As " (parts::cut(role, 400)) } }
                    div.markdown.quoted { (parts::markdown(&truncate(&prompt.text, PROMPT_BYTES))) }
                },
                None if look.turn.is_complete => p.muted { "None: the run is complete." },
                None => p.muted { "Unavailable: the state of the node or the pinned workflow cannot be read." },
            }
        }
    }
}

fn handed_in(look: &NodeLook) -> Markup {
    let turn = &look.turn;
    html! {
        @if !turn.verified.is_empty() {
            section.panel {
                h2 { "Verified by the host" }
                p.muted { "The host checked these facts itself. Everything under Submitted is a claim of the agent." }
                ul.plain { @for check in turn.verified.iter().take(MANY) {
                    li { (parts::status(if check.passed { "verified" } else { "refuted" })) " " (check.words) }
                } }
            }
        }
        section.panel {
            h2 { "Submitted" @if let Some(step) = &turn.answered_step_title { span.muted { " for " (parts::cut(step, 120)) } } }
            @if turn.notes.is_none() && turn.artifacts.is_empty() {
                p.muted { @match turn.kind {
                    NodeKind::Step if turn.parent_node_id.is_none() => "None: this is the first node of the run.",
                    NodeKind::Step => "Nothing.",
                    NodeKind::Checkpoint => "None: a checkpoint bookmarks its parent node.",
                    NodeKind::BlockedAttempt => "The submission was not accepted. See the blockers above.",
                } }
            }
            @if let Some(notes) = &turn.notes { div.markdown.quoted { (parts::markdown(notes)) } }
            @for (artifact, text) in turn.artifacts.iter().zip(&look.artifacts) {
                details.box open[turn.artifacts.len() == 1] {
                    summary { "Artifact " (parts::cut(artifact.kind.as_deref().unwrap_or("without a kind"), 80)) @if let Some(answer) = &artifact.answer { " " (parts::cut(answer, 80)) } ", " (artifact.bytes) " bytes" }
                    p.muted { "sha256 " (guided::digest(&artifact.sha256)) }
                    @match text {
                        Some(text) => pre.json tabindex="0" { (text) },
                        None => p { "The content cannot be read. Run " code { "interlock session verify" } " for the reason." },
                    }
                }
            }
            @for assessment in turn.assessments.iter().take(MANY) { p { span.muted { "Assessed " } (assessment) } }
            @for divergence in turn.divergences.iter().take(MANY) {
                p { span.muted { "Diverged (" (guided::word(&divergence.reason)) "): " } (divergence.summary) }
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
                p.muted { "Steps that were skipped before this node, and the context values that decided it." }
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
            h2 { "Validation" }
            ul.plain {
                @for check in checks.iter().take(MANY) {
                    li {
                        (parts::status(if check.valid { "passed" } else { "invalid" })) " " (check.contract_ref)
                        @for issue in check.issues.iter().take(MANY) { div { (issue) } }
                    }
                }
                @for guidance in consequences { li { span.muted { "Assessment: " } (guidance) } }
            }
        }
    }
}

/// The subject of a decision.
fn about_words(about: &TraceRef) -> String {
    match about {
        TraceRef::StepId { step_id } => format!("step {step_id}"),
        TraceRef::LoopId { loop_id } => format!("loop {loop_id}"),
        TraceRef::ConditionId { condition_id } => format!("condition {condition_id}"),
        TraceRef::Iteration { value } => format!("iteration {}", u64::from(*value) + 1),
    }
}

fn trace(entries: &[TraceEntry]) -> Markup {
    html! {
        section.panel {
            h2 { "Engine decisions" }
            @if entries.is_empty() { p.muted { "No decisions recorded." } }
            ol.trace { @for entry in entries {
                li {
                    span.muted { (parts::status_word(&guided::word(&entry.kind))) ": " } (entry.summary)
                    @for about in &entry.refs { " " code { (about_words(about)) } }
                }
            } }
        }
    }
}
