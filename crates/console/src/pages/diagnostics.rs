//! Problems in the console's composition, and how to fix them.

use std::sync::Arc;

use composition::Code;
use maud::{Markup, html};
use runs::Refusal;
use serde_json::Value;

use crate::call::PageRequest;
use crate::composed::{Finding, Module, Shell};
use crate::page::{Page, PageResponse};
use crate::parts;
use crate::provider::FOR_MODULES;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let body = html! {
        (findings(&call.shell))
        (composed(&call))
    };
    Ok(Page::new("Diagnostics", body).into())
}

/// All findings, most severe first.
fn findings(shell: &Shell) -> Markup {
    if shell.findings.is_empty() {
        return html! { p.notice.good role="status" { "No problems: built-ins, modules and policy are valid." } };
    }
    let mut sorted: Vec<&Finding> = shell.findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    html! {
        @if shell.is_alone {
            p.notice.bad { "Only the built-in pages are shown until the errors below are fixed." }
        }
        @for finding in sorted {
            section.panel {
                h2 { (parts::status(finding.severity.as_str())) " " (finding.message) }
                p { strong { "What to do: " } (finding.advice) }
                @if !finding.subjects.is_empty() {
                    p.muted { "About " @for (place, subject) in finding.subjects.iter().take(8).enumerate() {
                        @if place > 0 { ", " } code { (subject) }
                    } }
                }
                details { summary { "Details" } (parts::json(&finding.details)) }
                p.muted { "Code " code { (finding.code) }
                    @if Code::ALL.iter().any(|code| code.as_str() == finding.code) { ", explained in " code { "docs/errors/" (finding.code) ".md" } }
                }
            }
        }
    }
}

/// The composition, for authors of modules and policies.
fn composed(call: &PageRequest) -> Markup {
    let shell = &call.shell;
    html! {
        section.panel {
            h2 { "Routes" }
            div.scroll {
                table {
                    thead { tr { th { "Path" } th { "Key" } th { "Rendered by" } } }
                    tbody {
                        @for route in &shell.routes {
                            tr {
                                th scope="row" { code { (route.path) } }
                                td { code { (route.key) } }
                                td { code { (route.handle.kind) "/" (route.handle.id) } }
                            }
                        }
                    }
                }
            }
        }
        section.panel {
            h2 { "Modules" }
            @if shell.modules.is_empty() {
                p.muted { "None. A module is a JSON file in " code { (call.console.composer.directory().join("modules").display()) } "." }
            }
            ul.plain { @for module in &shell.modules { li { (module_line(module)) } } }
        }
        section.panel {
            h2 { "Policy effects" }
            @let by_operator: Vec<&Value> = shell.effects.iter().filter(|effect| !is_ours(effect)).collect();
            @if by_operator.is_empty() {
                p.muted { "None. The policy is read from "
                    code { (call.console.composer.directory().join("policy.json").display()) } "." }
            }
            @for effect in by_operator { (parts::json(effect)) }
        }
        section.panel {
            h2 { "Handles for modules" }
            dl.facts { @for (kind, id, what) in FOR_MODULES { dt { code { (kind) "/" (id) } } dd { (parts::markdown(what)) } } }
        }
    }
}

/// A module: package, status and reason.
pub(crate) fn module_line(module: &Module) -> Markup {
    html! {
        (parts::status(&module.status)) " " strong { (module.instance_id) } " " span.muted { (module.package) }
        @if let Some(message) = &module.message { div { (message) } }
        @if !module.missing.is_empty() { div.muted { "Missing: " (module.missing.join(", ")) } }
        @if !module.grants.is_empty() { div.muted { "Granted: " (module.grants.join(", ")) } }
        @for (label, href) in &module.actions {
            @match href { Some(href) => a.button href=(href) rel="noopener noreferrer" { (label) }, None => span.muted { (label) } } " "
        }
        @if let Some(data) = &module.data { details { summary { "Data" } (parts::json(data)) } }
    }
}

/// Whether an effect comes from the default sidebar order.
pub(super) fn is_ours(effect: &Value) -> bool {
    let id = effect.get("policyId").and_then(Value::as_str).unwrap_or_default();
    id.starts_with("interlock-sidebar-")
}

pub(crate) fn policy_surface(call: &PageRequest, _: &Value, _: &Value) -> Markup {
    html! {
        p { "Hide, move, replace and rename what the console shows with "
            code { (call.console.composer.directory().join("policy.json").display()) } "." }
    }
}
