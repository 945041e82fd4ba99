//! The modules, their status, the policy, and why a key is shown or hidden.

use std::sync::Arc;

use maud::{Markup, html};
use runs::Refusal;

use crate::call::PageRequest;
use crate::composed::Module;
use crate::layout;
use crate::page::{Page, PageResponse};
use crate::parts;

const DIAGNOSTICS: &str = "builtin-interlock-console:routes/diagnostics";

const KEY_BYTES: usize = 512;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let key = call.query.text("key").map(|key| parts::cut(key, KEY_BYTES));
    let body = html! {
        (modules(&call))
        (policy(&call))
        (explain(&call, key.as_deref()))
    };
    Ok(Page::new("Modules", body).into())
}

fn modules(call: &PageRequest) -> Markup {
    let shell = &call.shell;
    if shell.modules.is_empty() {
        let help = html! {
            p { "A module adds pages, menu entries, panels and renderers to this console. It is a JSON file that declares its contributions "
                "and contains no code. Put the file here; the console loads it at once:" }
            pre { code { (place(call, "modules/NAME.json")) } }
            p { (call.anchor(DIAGNOSTICS, &[], "Diagnostics")) " lists problems with modules and the handles that they can use." }
        };
        return parts::empty("No modules installed.", &help);
    }
    html! {
        @for module in &shell.modules { (one(call, module)) }
    }
}

/// An operator's file. Operators see the full path.
fn place(call: &PageRequest, name: &str) -> String {
    if super::workflows::may_see_paths(call) {
        call.console.composer.directory().join(name).display().to_string()
    } else {
        format!("console/{name} in the data directory")
    }
}

fn one(call: &PageRequest, module: &Module) -> Markup {
    html! {
        section.panel {
            h2 { (module.instance_id) " " (parts::status(&module.status)) }
            @if let Some(message) = &module.message { p { (message) } }
            @if is_plugins(call, module) {
                p.notice.wait { "Plugins of this pack can send the data that they read to any address through WebRTC, not only to the addresses that the pack declares. "
                    "Install only plugins that you trust with that data." }
            }
            dl.facts {
                dt { "Package" } dd { (module.package) }
                @if !module.grants.is_empty() { dt { "Granted" } dd { (module.grants.join(", ")) } }
                @if !module.missing.is_empty() { dt { "Missing" } dd { (module.missing.join(", ")) } }
            }
            @for (label, href) in &module.actions {
                @match href.as_deref().filter(|href| href.starts_with('/') && !href.starts_with("//")) {
                    Some(href) => { a.button href=(call.address(href)) { (label) } " " },
                    None => { span.muted { (label) } " " },
                }
            }
            @if let Some(data) = &module.data { p.muted { "Metadata: " code { (parts::json_line(data)) } } }
            (layout::fallbacks(call, Some(&module.instance_id)))
        }
    }
}

/// Whether a module is a plugin pack, and so brings code.
fn is_plugins(call: &PageRequest, module: &Module) -> bool {
    let plugins = call.console.host.plugins.as_ref();
    plugins.is_some_and(|plugins| plugins.packs().1.iter().any(|pack| pack.owner == module.instance_id))
}

fn policy(call: &PageRequest) -> Markup {
    let shell = &call.shell;
    let theirs: Vec<_> = shell.effects.iter().filter(|effect| !super::diagnostics::is_ours(effect)).collect();
    html! {
        section.panel {
            h2 { "Policy" }
            p.muted { "The policy hides, moves, replaces and renames what the console shows. It is read from " code { (place(call, "policy.json")) } "." }
            @if theirs.is_empty() { p { "No policy effects." } }
            ul.plain { @for effect in theirs { li { code { (parts::json_line(effect)) } } } }
            @if !shell.findings.is_empty() {
                p { (shell.findings.len()) " findings: " (call.anchor(DIAGNOSTICS, &[], "see diagnostics")) "." }
            }
        }
    }
}

fn explain(call: &PageRequest, key: Option<&str>) -> Markup {
    html! {
        section.panel {
            h2 { "Explain a key" }
            form.filters method="get" {
                div {
                    label for="key" { "Key" }
                    input #key name="key" size="48" value=[key] placeholder="owner:routes/id" list="keys" autocomplete="off";
                    datalist #keys { @for route in &call.shell.routes { option value=(route.key) {} } }
                }
                button type="submit" { "Explain" }
            }
            @if let Some(key) = key { pre tabindex="0" { (call.console.composer.explain(&call.caller, key)) } }
        }
    }
}
