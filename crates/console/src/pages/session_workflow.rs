//! The workflow that a run is pinned to, next to its current compiled form and source.

use std::sync::Arc;

use ::guided::view::{Pin, Sides, StepPair};
use canon::budget::truncate;
use guide::workflow::compiled::CompiledWorkflow;
use maud::{Markup, html};
use runs::{ApiCode, Refusal};

use super::guided::{self, SESSION, SESSIONS};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

const SOURCE_BYTES: usize = 16 << 10;
/// The bytes of differing prompts shown on one page.
const PROMPT_BYTES: usize = 24 << 10;
const OUTLINED: usize = 80;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let id = guided::session_id(&call)?;
    let run = guided::run_id(&call)?;
    let reading = Arc::clone(&call);
    let sessions = guided::of(&call).await?;
    let pin = sessions.pin(&id, run.as_ref(), move |path| guided::is_open(&reading, path));
    let pin = pin.await.map_err(guided::refused)?;
    let none = || Refusal::new(ApiCode::NotFound, "Run not found in the valid part of this session.");
    let pin = pin.ok_or_else(none)?;
    let back = call.link(SESSION, &[("sessionId", pin.session_id.as_str())]);
    let back = back.map(|href| href + &parts::query(&[("run", pin.run_id.as_str())]));
    let body = html! {
        (verdict(&pin))
        div.sides {
            (pinned(&pin))
            (today(&pin))
            (source(&pin))
        }
        (steps(&pin))
    };
    let page = Page::new(format!("Workflow {}", pin.workflow_id), body)
        .below("Sessions", call.link(SESSIONS, &[]))
        .below(pin.session_id.as_str(), back);
    Ok(page.into())
}

fn verdict(pin: &Pin) -> Markup {
    html! {
        @match pin.sides() {
            Sides::Same => p.notice.good { "The current source compiles to the version that this run is pinned to." },
            Sides::Drifted => div.notice.wait role="alert" {
                p { strong { "The workflow has drifted." } " Its source compiles to a different hash than the one this run is pinned to." }
                p { "This run is not affected: it keeps the pinned version. Start a new run to use the current version." }
            },
            Sides::NoSource => div.notice.wait role="alert" {
                p { strong { "No valid source." } " This run is not affected, but no new run can start." }
                @if let Err(envelope) = &pin.today {
                    p { (envelope.message()) " " (envelope.suggestion()) }
                }
            },
        }
    }
}

fn pinned(pin: &Pin) -> Markup {
    html! {
        section.panel {
            h2 { "Pinned" }
            dl.facts {
                dt { "Hash" } dd { (guided::digest(&pin.pinned_hash.to_string())) }
                dt { "From" } dd { (guided::word(&pin.source_kind)) " " (pin.source_ref) }
                @if let Ok(workflow) = &pin.pinned { (about(workflow)) }
            }
            @match &pin.pinned {
                Ok(workflow) => (outline(workflow)),
                Err(refusal) => p { "Cannot be read: " (refusal.envelope().message()) },
            }
        }
    }
}

fn today(pin: &Pin) -> Markup {
    html! {
        section.panel {
            h2 { "Current version" }
            @match &pin.today {
                Ok(found) => {
                    dl.facts {
                        dt { "Hash" } dd { (guided::digest(&found.hash.to_string()))
                            @if found.hash == pin.pinned_hash { " " span.muted { "same as pinned" } } @else { " " strong { "different" } } }
                        dt { "From" } dd { (guided::word(&found.source_kind)) " " (found.source_ref) }
                        (about(&found.workflow))
                    }
                    (outline(&found.workflow))
                },
                Err(_) => p.muted { "None: no valid source." },
            }
        }
    }
}

fn source(pin: &Pin) -> Markup {
    html! {
        section.panel {
            h2 { "Current source" }
            @match &pin.source {
                Some(source) => {
                    @if source.len() > SOURCE_BYTES { p.muted { "The first " (SOURCE_BYTES >> 10) " kB of " (source.len()) " bytes." } }
                    pre.source tabindex="0" { (truncate(source, SOURCE_BYTES)) }
                },
                None => p.muted { "Not available: there is no source, or it is in a remote repository." },
            }
        }
    }
}

fn about(workflow: &CompiledWorkflow) -> Markup {
    html! {
        dt { "Name" } dd { (workflow.name) }
        dt { "Version" } dd { (workflow.version) }
        dt { "Steps" } dd { (workflow.steps.len()) @if !workflow.loops.is_empty() { ", in " (workflow.loops.len()) " loops" } }
    }
}

fn outline(workflow: &CompiledWorkflow) -> Markup {
    html! {
        ol.outline { @for step in workflow.steps.iter().take(OUTLINED) { li { code { (step.step_id) } " " (parts::cut(&step.title, 80)) } } }
        @if workflow.steps.len() > OUTLINED { p.muted { (workflow.steps.len() - OUTLINED) " more steps." } }
    }
}

/// How a step differs, as a status word.
fn change(pair: &StepPair<'_>) -> &'static str {
    match (pair.pinned, pair.today) {
        _ if pair.is_same() => "same",
        (Some(_), Some(_)) => "changed",
        (None, _) => "added",
        (_, None) => "removed",
    }
}

/// The differing steps with their prompts, within the byte budget.
fn steps(pin: &Pin) -> Markup {
    let pairs = pin.steps();
    let differing: Vec<&StepPair<'_>> = pairs.iter().filter(|pair| !pair.is_same()).collect();
    if pin.sides() != Sides::Drifted {
        return Markup::default();
    }
    let mut room = PROMPT_BYTES;
    let mut unshown = 0;
    let mut shown = Vec::new();
    for pair in differing {
        let bytes = [pair.pinned, pair.today].iter().flatten().map(|step| step.prompt.len()).sum::<usize>();
        match room.checked_sub(bytes) {
            Some(left) => {
                room = left;
                shown.push(*pair);
            }
            None => unshown += 1,
        }
    }
    html! {
        section.panel {
            h2 { "Differences" }
            @if shown.is_empty() && unshown == 0 {
                p { "The steps are equal. The name, rules, contracts, loops or bindings differ." }
            }
            @for pair in &shown {
                @if let Some(step) = pair.pinned.or(pair.today) {
                    h3 { code { (step.step_id) } " " (parts::status(change(pair))) }
                    div.columns {
                        div { p.muted { "Pinned" } (side(pair.pinned)) }
                        div { p.muted { "Current" } (side(pair.today)) }
                    }
                }
            }
            @if unshown > 0 { p.muted { (unshown) " more steps differ. Run " code { "interlock workflow show " (pin.workflow_id) " --json" } " for the current version." } }
        }
    }
}

fn side(step: Option<&guide::workflow::compiled::Step>) -> Markup {
    html! {
        @match step {
            Some(step) => { p { strong { (step.title) } } pre tabindex="0" { (step.prompt) } },
            None => p.muted { "No such step." },
        }
    }
}
