//! The settings in use, and those that a restart would apply.

use std::sync::Arc;

use maud::{Markup, html};
use runs::Refusal;

use super::guided;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;
use crate::setting::{Desired, Setting};

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let reading = Arc::clone(&call);
    let desired = guided::blocking(move || Ok((reading.console.host.settings)())).await?;
    let body = html! {
        (verdict(&desired))
        (table(&desired))
        (surfaces(&call))
        p.muted { "Precedence: flag, environment, file, default. " code { "interlock doctor" } " prints the same list." }
    };
    Ok(Page::new("Settings", body).into())
}

fn verdict(desired: &Desired) -> Markup {
    let differing = desired.settings.iter().filter(|setting| setting.is_pending()).count();
    html! {
        @if let Some(problem) = &desired.problem {
            div.notice.bad role="alert" {
                p { strong { "The settings file is invalid." } " " (problem) }
                p { "The host keeps its current settings. Fix the file before you restart the host, because it cannot start with this file." }
            }
        } @else if differing > 0 {
            p.notice.wait role="status" { "Pending changes: " (differing) @if differing == 1 { " setting" } @else { " settings" } ". Restart the host to apply them." }
        } @else {
            p.notice.good role="status" { "All settings are applied." }
        }
    }
}

fn table(desired: &Desired) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Setting" } th { "Applied" } th { "From" } th { "Configured" } th { "From" } } }
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
                Some(_) if !setting.is_pending() => { td { span.muted { "unchanged" } } td {} },
                Some(desired) => { td.wide { (parts::status("after restart")) " " (value(&desired.value)) } td { span.muted { (desired.origin) } } },
                None => { td { span.muted { "unknown" } } td {} },
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

/// Settings surfaces of modules and built-ins.
fn surfaces(call: &PageRequest) -> Markup {
    html! { @for surface in &call.shell.configuration { (crate::layout::surface_panel(call, surface)) } }
}
