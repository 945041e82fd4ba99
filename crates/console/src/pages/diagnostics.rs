//! What is wrong with the console's own composition, and what to do about it.

use std::sync::Arc;

use composition::Code;
use host::runs::Refusal;
use maud::{Markup, html};
use serde_json::Value;

use crate::call::Call;
use crate::composed::{Finding, Module, Shell};
use crate::page::{Answer, Page};
use crate::parts;
use crate::provider::FOR_MODULES;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let body = html! {
        (findings(&call.shell))
        (composed(&call))
    };
    Ok(Page::new("Diagnostics", body).into())
}

/// Everything that was found, worst first.
fn findings(shell: &Shell) -> Markup {
    if shell.findings.is_empty() {
        return html! { p.notice.good role="status" { "Built-ins, modules and policy fit together." } };
    }
    let mut sorted: Vec<&Finding> = shell.findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    html! {
        @if shell.is_alone {
            p.notice.bad { "Nothing but the pages of the product is shown until the errors below are mended." }
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

/// What was composed, for those who write modules and policies.
fn composed(call: &Call) -> Markup {
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
            h2 { "What the policy did" }
            @let by_operator: Vec<&Value> = shell.effects.iter().filter(|effect| !is_ours(effect)).collect();
            @if by_operator.is_empty() {
                p.muted { "Nothing: there is no policy, or it changes nothing. It is read from "
                    code { (call.console.composer.directory().join("policy.json").display()) } "." }
            }
            @for effect in by_operator { (parts::json(effect)) }
        }
        section.panel {
            h2 { "Handles that modules may use" }
            dl.facts { @for (kind, id, what) in FOR_MODULES { dt { code { (kind) "/" (id) } } dd { (parts::markdown(what)) } } }
        }
    }
}

/// A module: what it is, how it is, and why.
pub(crate) fn module_line(module: &Module) -> Markup {
    html! {
        (parts::status(&module.status)) " " strong { (module.instance_id) } " " span.muted { (module.package) }
        @if let Some(message) = &module.message { div { (message) } }
        @if !module.missing.is_empty() { div.muted { "Missing: " (module.missing.join(", ")) } }
        @if !module.grants.is_empty() { div.muted { "Has: " (module.grants.join(", ")) } }
        @for (label, href) in &module.actions {
            @match href { Some(href) => a.button href=(href) rel="noopener noreferrer" { (label) }, None => span.muted { (label) } } " "
        }
        @if let Some(data) = &module.data { details { summary { "Data" } (parts::json(data)) } }
    }
}

/// Whether an effect is of the order that the product has.
pub(super) fn is_ours(effect: &Value) -> bool {
    let id = effect.get("policyId").and_then(Value::as_str).unwrap_or_default();
    id.starts_with("interlock-sidebar-")
}

/// Where the policy is configured.
pub(crate) fn policy_surface(call: &Call, _: &Value, _: &Value) -> Markup {
    html! {
        p { "Hide, move, replace and rename what the console shows with "
            code { (call.console.composer.directory().join("policy.json").display()) } "." }
    }
}
