//! Plugins: the iframe and its messages.
//!
//! The iframe is sandboxed and on another origin, so it cannot affect the page. The console's
//! script forwards its messages to [`rpc`], which calls the dispatcher with the viewer's scopes.
//! The server trusts only the plugin's name, and verifies that the viewer may use it.

use std::sync::Arc;

use canon::json::{Limits, read};
use flow::id::{ArtifactId, RunId};
use maud::{Markup, html};
use plugins::message::MAX_MESSAGE_BYTES;
use plugins::{Effect, Plugin, PluginPack, PluginResponse, Request, RunArtifacts, artifacts, dispatch};
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};

use crate::call::PageRequest;
use crate::composed::{ARTIFACT_VIEWER, Surface};
use crate::page::{Page, PageResponse};
use crate::parts;

const RPC: &str = "builtin-interlock-plugins:routes/rpc";
const MAX_NAME: usize = 512;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let route = call.shell.find(&call.path).and_then(|(route, _)| route.label.clone());
    let title = route.unwrap_or_else(|| call.handle.owner_id.clone());
    Ok(Page::new(title, panel(&call, call.data(), &Value::Null)).into())
}

/// A plugin as a part of a page; `shown` may name an artifact.
pub(crate) fn panel(call: &PageRequest, data: &Value, shown: &Value) -> Markup {
    let Some((pack, plugin)) = usable(call, data) else {
        return html! { p.muted { "This plugin is not available. See the Modules page." } };
    };
    let address = call.console.host.plugins.as_ref().and_then(|plugins| plugins.address(&pack, &plugin));
    let (Some(address), Some(rpc)) = (address, call.link(RPC, &[])) else {
        return html! { p.muted { "This plugin is not available. See the Modules page." } };
    };
    let artifact = shown.get("artifact").and_then(Value::as_str);
    html! {
        div.plugin data-plugin=(plugin.id) data-pack=(pack.name) data-artifact=[artifact] data-rpc=(rpc) data-csrf=(call.csrf)
            data-csrf-field=(parts::CSRF_FIELD) data-limit=(MAX_MESSAGE_BYTES) {
            iframe sandbox="allow-scripts" src=(address) title={ (plugin.id) " of " (pack.name) } referrerpolicy="no-referrer" {}
            p.muted.by { "Plugin " (plugin.id) " of " (pack.name) " " (pack.version) }
            p.said role="status" {}
        }
        noscript { p.notice { "Plugins require JavaScript." } }
        script type="module" src=(call.console.assets.plugins()) {}
    }
}

/// The plugin panels for an artifact, as placed by the composition.
pub(super) fn viewers(call: &PageRequest, run_id: &RunId, artifact_id: &ArtifactId) -> Markup {
    let shown = json!({"artifact": artifacts::name(run_id, artifact_id)});
    let viewers = call.shell.integration.iter().filter(|surface| surface.purpose == ARTIFACT_VIEWER);
    html! { @for surface in viewers { (viewer(call, surface, &shown)) } }
}

fn viewer(call: &PageRequest, surface: &Surface, shown: &Value) -> Markup {
    let data = surface.handle.data.as_ref().unwrap_or(&Value::Null);
    html! { section.panel { h2 { (surface.label) } (panel(call, data, shown)) } }
}

/// The plugin named by a handle or form, if it is installed and its module is active for this
/// viewer.
fn usable(call: &PageRequest, named: &Value) -> Option<(PluginPack, Plugin)> {
    let text = |name: &str| named.get(name).and_then(Value::as_str);
    let plugins = call.console.host.plugins.as_ref()?;
    let (pack, plugin) = plugins.find(text("pack")?, text("plugin")?)?;
    let module = call.shell.modules.iter().find(|module| module.instance_id == pack.owner)?;
    matches!(module.status.as_str(), "ready" | "readOnly").then_some((pack, plugin))
}

/// Answers a message from a plugin.
pub(crate) async fn rpc(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let wrong = |message: &str| Refusal::new(ApiCode::ValidationError, message);
    let named = json!({"pack": call.form.text("pack"), "plugin": call.form.text("plugin")});
    let Some((pack, plugin)) = usable(&call, &named) else {
        return Err(Refusal::new(ApiCode::NotFound, "Plugin not found, or not ready."));
    };
    let text = call.form.raw("message").unwrap_or_default();
    if text.len() > MAX_MESSAGE_BYTES {
        let message = format!("The message is too large; the limit is {MAX_MESSAGE_BYTES} bytes.");
        return Err(Refusal::new(ApiCode::PayloadTooLarge, message));
    }
    let message =
        read(text.as_bytes(), &Limits::default()).map_err(|_| wrong("The message is not valid JSON."))?;
    let request = match Request::read(&message) {
        Ok(Some(request)) => request,
        Ok(None) => return Err(wrong("The message is not a `ui-plugin/1` message.")),
        Err(malformed) => return Err(wrong(&malformed.to_string())),
    };
    let artifact = call.form.text("artifact").filter(|name| name.len() <= MAX_NAME);
    let is_viewer = plugin.surface == packs::manifest::PluginSurface::ArtifactViewer;
    let artifacts = RunArtifacts {
        runs: call.runs().clone(),
        caller: call.caller.clone(),
        // A plugin on an artifact page can only use that artifact; elsewhere it has none.
        only: is_viewer.then(|| artifact.unwrap_or_default().to_owned()),
        plugin: format!("{}@{}/{}", pack.name, pack.version, plugin.id),
    };
    let id = request.id;
    let work = tokio::spawn(async move { dispatch(&request, &plugin.allowed, &artifacts).await });
    let answered = work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot answer a plugin message");
        PluginResponse::internal(id, "Internal error. Try again.")
    });
    let effect = answered.effect.map(|effect| match effect {
        Effect::Toast { message } => json!({"toast": message}),
        Effect::Navigate { path } => json!({"navigate": call.address(&path)}),
    });
    Ok(PageResponse::Data(json!({"response": answered.response, "effect": effect})))
}
