//! What a run is pinned to, beside what its workflow compiles to today and the source of that.

use std::sync::Arc;

use canon::budget::truncate;
use guide::workflow::compiled::CompiledWorkflow;
use host::guided::view::{Pin, Sides, StepPair};
use host::runs::{ApiCode, Refusal};
use maud::{Markup, html};

use super::guided::{self, SESSION, SESSIONS};
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;

/// How much of the source is shown, in bytes.
const SOURCE_BYTES: usize = 16 << 10;
/// How much of the prompts that differ is shown on one page, in bytes.
const PROMPT_BYTES: usize = 24 << 10;
/// How many steps an outline has.
const OUTLINED: usize = 80;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let id = guided::session_id(&call)?;
    let run = guided::run_id(&call)?;
    let pin = guided::read(&call, move |call, guided| {
        guided.pin(&id, run.as_ref(), &|path| guided::is_open(call, path))
    })
    .await?;
    let none =
        || Refusal::new(ApiCode::NotFound, "the session has no such run, as far as it could be validated");
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
            Sides::Same => p.notice.good { "The source compiles to exactly what this run is pinned to." },
            Sides::Drifted => div.notice.wait role="alert" {
                p { strong { "The workflow has drifted." } " Its source compiles to another hash than the one that this run is pinned to." }
                p { "The run is not affected: it goes on with the pinned form to its end. Start a new run to use today's." }
            },
            Sides::NoSource => div.notice.wait role="alert" {
                p { strong { "There is no valid source today." } " The run is not affected; a new one could not begin." }
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
                Err(refusal) => p { "It cannot be read: " (refusal.envelope().message()) },
            }
        }
    }
}

fn today(pin: &Pin) -> Markup {
    html! {
        section.panel {
            h2 { "Compiled today" }
            @match &pin.today {
                Ok(found) => {
                    dl.facts {
                        dt { "Hash" } dd { (guided::digest(&found.hash.to_string()))
                            @if found.hash == pin.pinned_hash { " " span.muted { "the same" } } @else { " " strong { "another" } } }
                        dt { "From" } dd { (guided::word(&found.source_kind)) " " (found.source_ref) }
                        (about(&found.workflow))
                    }
                    (outline(&found.workflow))
                },
                Err(_) => p.muted { "Nothing: there is no valid source." },
            }
        }
    }
}

fn source(pin: &Pin) -> Markup {
    html! {
        section.panel {
            h2 { "Source today" }
            @match &pin.source {
                Some(source) => {
                    @if source.len() > SOURCE_BYTES { p.muted { "The first " (SOURCE_BYTES >> 10) " kB of " (source.len()) " bytes." } }
                    pre.source tabindex="0" { (truncate(source, SOURCE_BYTES)) }
                },
                None => p.muted { "It cannot be shown: there is none, or it is in a repository that is not a folder here." },
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

/// What became of a step, in a word.
fn change(pair: &StepPair<'_>) -> &'static str {
    match (pair.pinned, pair.today) {
        _ if pair.is_same() => "same",
        (Some(_), Some(_)) => "changed",
        (None, _) => "added",
        (_, None) => "removed",
    }
}

/// The steps that differ, with their prompts as far as there is room.
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
            h2 { "What differs" }
            @if shown.is_empty() && unshown == 0 {
                p { "The steps are the same. Something around them differs: the name, the rules, the contracts, the loops or what is bound." }
            }
            @for pair in &shown {
                @if let Some(step) = pair.pinned.or(pair.today) {
                    h3 { code { (step.step_id) } " " (parts::status(change(pair))) }
                    div.columns {
                        div { p.muted { "Pinned" } (side(pair.pinned)) }
                        div { p.muted { "Today" } (side(pair.today)) }
                    }
                }
            }
            @if unshown > 0 { p.muted { (unshown) " more steps differ; " code { "interlock workflow show " (pin.workflow_id) " --json" } " has all of today's." } }
        }
    }
}

fn side(step: Option<&guide::workflow::compiled::Step>) -> Markup {
    html! {
        @match step {
            Some(step) => { p { strong { (step.title) } } pre tabindex="0" { (step.prompt) } },
            None => p.muted { "It does not have this step." },
        }
    }
}
