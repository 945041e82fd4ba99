//! Settings: what the process runs with, and what it would run with if it began now.

use std::sync::Arc;

use host::runs::Refusal;
use maud::{Markup, html};

use super::guided;
use crate::call::Call;
use crate::page::{Answer, Page};
use crate::parts;
use crate::setting::{Desired, Setting};

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let reading = Arc::clone(&call);
    let desired = guided::blocking(move || Ok((reading.console.facts.settings)())).await?;
    let body = html! {
        (verdict(&desired))
        (table(&desired))
        (surfaces(&call))
        p.muted { "Flag over environment over file over default. " code { "interlock doctor" } " prints the same at the command line." }
    };
    Ok(Page::new("Settings", body).into())
}

fn verdict(desired: &Desired) -> Markup {
    let differing = desired.settings.iter().filter(|setting| setting.is_pending()).count();
    html! {
        @if let Some(problem) = &desired.problem {
            div.notice.bad role="alert" {
                p { strong { "The settings file is not valid now." } " " (problem) }
                p { "The process goes on with what it began with. It would not begin with this file." }
            }
        } @else if differing > 0 {
            p.notice.wait role="status" { "What is written differs from what runs: " (differing) @if differing == 1 { " setting" } @else { " settings" } ". Restart the host to apply it." }
        } @else {
            p.notice.good role="status" { "The host runs with what is written." }
        }
    }
}

fn table(desired: &Desired) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Setting" } th { "Applied" } th { "From" } th { "Desired" } th { "From" } } }
            tbody { @for setting in &desired.settings { (row(setting)) } }
        } }
    }
}

fn row(setting: &Setting) -> Markup {
    html! {
        tr {
            th scope="row" { code.name { (setting.name) } }
            td.wide { (value(&setting.applied.value)) }
            td { span.muted { (setting.applied.origin) } }
            @match &setting.desired {
                Some(_) if !setting.is_pending() => { td { span.muted { "the same" } } td {} },
                Some(desired) => { td.wide { (parts::status("after restart")) " " (value(&desired.value)) } td { span.muted { (desired.origin) } } },
                None => { td { span.muted { "not known" } } td {} },
            }
        }
    }
}

fn value(lines: &[String]) -> Markup {
    html! {
        @if lines.is_empty() { span.muted { "none" } }
        @for line in lines { div { (line) } }
    }
}

/// What modules and the product offer to configure.
fn surfaces(call: &Call) -> Markup {
    html! { @for surface in &call.shell.configuration { (crate::layout::surface_panel(call, surface)) } }
}
