//! Plugins: the frame of one, and the way of its messages.
//!
//! The frame is of another origin and sandboxed, so it can do nothing to the page. A script of ours hands its messages to
//! [`rpc`], which asks the dispatcher with the rights of whoever looks; nothing that the page says about the plugin is
//! believed but its name, and nothing that the plugin says about itself.

use std::sync::Arc;

use canon::json::{Limits, read};
use flow::id::{ArtifactId, RunId};
use host::plugins::message::MAX_MESSAGE_BYTES;
use host::plugins::{
    Answer as Answered, Effect, Plugin, PluginPack, Request, RunArtifacts, artifacts, dispatch,
};
use host::runs::{ApiCode, Refusal};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::call::Call;
use crate::composed::{ARTIFACT_VIEWER, Surface};
use crate::page::{Answer, Page};
use crate::parts;

/// Where the script sends messages.
const RPC: &str = "builtin-interlock-plugins:routes/rpc";
/// The longest name of an artifact that is taken from a form.
const MAX_NAME: usize = 512;

/// The page of a plugin.
pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let route = call.shell.find(&call.path).and_then(|(route, _)| route.label.clone());
    let title = route.unwrap_or_else(|| call.handle.owner_id.clone());
    Ok(Page::new(title, panel(&call, call.data(), &Value::Null)).into())
}

/// A plugin as a part of a page. What is shown may be an artifact, by its name.
pub(crate) fn panel(call: &Call, data: &Value, shown: &Value) -> Markup {
    let Some((pack, plugin)) = usable(call, data) else {
        return html! { p.muted { "This plugin is not available now; see Modules." } };
    };
    let address = call.console.facts.plugins.as_ref().and_then(|plugins| plugins.address(&pack, &plugin));
    let (Some(address), Some(rpc)) = (address, call.link(RPC, &[])) else {
        return html! { p.muted { "This plugin is not available now; see Modules." } };
    };
    let artifact = shown.get("artifact").and_then(Value::as_str);
    html! {
        div.plugin data-plugin=(plugin.id) data-pack=(pack.name) data-artifact=[artifact] data-rpc=(rpc) data-csrf=(call.csrf)
            data-csrf-field=(parts::CSRF_FIELD) data-limit=(MAX_MESSAGE_BYTES) {
            iframe sandbox="allow-scripts" src=(address) title={ (plugin.id) " of " (pack.name) } referrerpolicy="no-referrer" {}
            p.muted.by { "Plugin " (plugin.id) " of " (pack.name) " " (pack.version) }
            p.said role="status" {}
        }
        noscript { p.notice { "Plugins need script." } }
        script type="module" src=(call.console.assets.plugins()) {}
    }
}

/// What plugins show of an artifact, where the kernel put them.
pub(super) fn viewers(call: &Call, run_id: &RunId, artifact_id: &ArtifactId) -> Markup {
    let shown = json!({"artifact": artifacts::name(run_id, artifact_id)});
    let viewers = call.shell.integration.iter().filter(|surface| surface.purpose == ARTIFACT_VIEWER);
    html! { @for surface in viewers { (viewer(call, surface, &shown)) } }
}

fn viewer(call: &Call, surface: &Surface, shown: &Value) -> Markup {
    let data = surface.handle.data.as_ref().unwrap_or(&Value::Null);
    html! { section.panel { h2 { (surface.label) } (panel(call, data, shown)) } }
}

/// The plugin that a handle or a form names, if it is there and its module shows it to this viewer.
fn usable(call: &Call, named: &Value) -> Option<(PluginPack, Plugin)> {
    let text = |name: &str| named.get(name).and_then(Value::as_str);
    let plugins = call.console.facts.plugins.as_ref()?;
    let (pack, plugin) = plugins.find(text("pack")?, text("plugin")?)?;
    let module = call.shell.modules.iter().find(|module| module.instance_id == pack.owner)?;
    matches!(module.status.as_str(), "ready" | "readOnly").then_some((pack, plugin))
}

/// A message of a plugin, and what comes of it.
pub(crate) async fn rpc(call: Arc<Call>) -> Result<Answer, Refusal> {
    let wrong = |message: &str| Refusal::new(ApiCode::ValidationError, message);
    let named = json!({"pack": call.form.text("pack"), "plugin": call.form.text("plugin")});
    let Some((pack, plugin)) = usable(&call, &named) else {
        return Err(Refusal::new(ApiCode::NotFound, "there is no such plugin, or it is not ready"));
    };
    let text = call.form.raw("message").unwrap_or_default();
    if text.len() > MAX_MESSAGE_BYTES {
        let message = format!("a message has at most {MAX_MESSAGE_BYTES} bytes");
        return Err(Refusal::new(ApiCode::PayloadTooLarge, message));
    }
    let message = read(text.as_bytes(), &Limits::default()).map_err(|_| wrong("a message is JSON"))?;
    let request = match Request::read(&message) {
        Ok(Some(request)) => request,
        Ok(None) => return Err(wrong("the message is not of ui-plugin/1")),
        Err(malformed) => return Err(wrong(&malformed.to_string())),
    };
    let artifact = call.form.text("artifact").filter(|name| name.len() <= MAX_NAME);
    let is_viewer = plugin.surface == packs::manifest::PluginSurface::ArtifactViewer;
    let artifacts = RunArtifacts {
        runs: call.runs().clone(),
        caller: call.caller.clone(),
        // Whoever shows an artifact is about that one, and about none where the page has none.
        only: is_viewer.then(|| artifact.unwrap_or_default().to_owned()),
        plugin: format!("{}@{}/{}", pack.name, pack.version, plugin.id),
    };
    let id = request.id;
    let work = tokio::spawn(async move { dispatch(&request, &plugin.allowed, &artifacts).await });
    let answered = work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a message of a plugin could not be answered");
        Answered::internal(id, "the host failed; try again")
    });
    let effect = answered.effect.map(|effect| match effect {
        Effect::Toast { message } => json!({"toast": message}),
        Effect::Navigate { path } => json!({"navigate": path}),
    });
    Ok(Answer::Data(json!({"response": answered.response, "effect": effect})))
}
