//! What the console was composed from: modules, their status, the policy; and why a key is shown, or not.

use std::sync::Arc;

use host::runs::Refusal;
use maud::{Markup, html};

use crate::call::Call;
use crate::composed::Module;
use crate::layout;
use crate::page::{Answer, Page};
use crate::parts;

/// The page of what is wrong with the composition.
const DIAGNOSTICS: &str = "builtin-interlock-console:routes/diagnostics";

/// The longest key that is asked about, in bytes.
const KEY_BYTES: usize = 512;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let key = call.query.text("key").map(|key| parts::cut(key, KEY_BYTES));
    let body = html! {
        (modules(&call))
        (policy(&call))
        (explain(&call, key.as_deref()))
    };
    Ok(Page::new("Modules", body).into())
}

fn modules(call: &Call) -> Markup {
    let shell = &call.shell;
    if shell.modules.is_empty() {
        let help = html! {
            p { "A module adds pages, entries of the menu, panels and renderers to this console. It is a JSON file that says what it contributes; "
                "it brings no code. Put one here, and it is read at once:" }
            pre { code { (place(call, "modules/NAME.json")) } }
            p { (call.anchor(DIAGNOSTICS, &[], "Diagnostics")) " says what is wrong with one that does not appear, and which handles it may use." }
        };
        return parts::empty("No module is installed.", &help);
    }
    html! {
        @for module in &shell.modules { (one(call, module)) }
    }
}

/// A file of the operator: where on the machine it is, for those who run the host.
fn place(call: &Call, name: &str) -> String {
    if super::workflows::sees_places(call) {
        call.console.composer.directory().join(name).display().to_string()
    } else {
        format!("console/{name} in the data directory")
    }
}

fn one(call: &Call, module: &Module) -> Markup {
    html! {
        section.panel {
            h2 { (module.instance_id) " " (parts::status(&module.status)) }
            @if let Some(message) = &module.message { p { (message) } }
            @if is_plugins(call, module) {
                p.notice.wait { "Plugins of this pack can send what they read to any address, through WebRTC, whatever addresses the pack declares. "
                    "Install only plugins that you trust with that data." }
            }
            dl.facts {
                dt { "Package" } dd { (module.package) }
                @if !module.grants.is_empty() { dt { "Granted" } dd { (module.grants.join(", ")) } }
                @if !module.missing.is_empty() { dt { "Missing" } dd { (module.missing.join(", ")) } }
            }
            @for (label, href) in &module.actions {
                @match href.as_deref().filter(|href| href.starts_with('/') && !href.starts_with("//")) {
                    Some(href) => { a.button href=(href) { (label) } " " },
                    None => { span.muted { (label) } " " },
                }
            }
            @if let Some(data) = &module.data { p.muted { "It says of itself: " code { (parts::json_line(data)) } } }
            (layout::fallbacks(call, Some(&module.instance_id)))
        }
    }
}

/// Whether a module is a pack of plugins, and so brings code.
fn is_plugins(call: &Call, module: &Module) -> bool {
    let plugins = call.console.facts.plugins.as_ref();
    plugins.is_some_and(|plugins| plugins.packs().1.iter().any(|pack| pack.owner == module.instance_id))
}

fn policy(call: &Call) -> Markup {
    let shell = &call.shell;
    let theirs: Vec<_> = shell.effects.iter().filter(|effect| !super::diagnostics::is_ours(effect)).collect();
    html! {
        section.panel {
            h2 { "Policy" }
            p.muted { "Hides, moves, replaces and renames what is shown. Read from " code { (place(call, "policy.json")) } "." }
            @if theirs.is_empty() { p { "It changes nothing, or there is none." } }
            ul.plain { @for effect in theirs { li { code { (parts::json_line(effect)) } } } }
            @if !shell.findings.is_empty() {
                p { (shell.findings.len()) " findings: " (call.anchor(DIAGNOSTICS, &[], "see diagnostics")) "." }
            }
        }
    }
}

fn explain(call: &Call, key: Option<&str>) -> Markup {
    html! {
        section.panel {
            h2 { "Why is something shown, or not?" }
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
