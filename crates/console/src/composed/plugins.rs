//! Plugin packs as modules: the kernel decides where they are shown and which fallback replaces
//! them.

use packs::manifest::PluginSurface;
use plugins::{Plugin, PluginPack, Plugins};
use serde_json::{Value, json};

use super::files::ModuleFile;

/// The purpose of surfaces that show an artifact.
pub(crate) const ARTIFACT_VIEWER: &str = "artifact-viewer";
/// The sidebar section of plugin pages.
const SECTION: &str = "Plugins";
const MAX_PACKAGE: usize = 214;

/// The pack modules, resolved like file modules.
pub(super) fn modules(plugins: &Plugins, packs: &[PluginPack]) -> Vec<ModuleFile> {
    let file =
        |pack: &PluginPack| ModuleFile { name: pack.owner.clone(), content: Ok(module(plugins, pack)) };
    packs.iter().map(file).collect()
}

fn module(plugins: &Plugins, pack: &PluginPack) -> Value {
    let reads = pack.plugins.iter().any(|plugin| plugin.reads);
    let writes = pack.plugins.iter().any(|plugin| plugin.writes);
    let names = |needed: bool, scopes: &[runs::Scope]| -> Vec<&str> {
        scopes.iter().filter(|_| needed).map(|scope| scope.as_str()).collect()
    };
    let mut module = json!({
        "instanceId": pack.owner,
        "packageId": pack.name.chars().take(MAX_PACKAGE).collect::<String>(),
        "packageVersion": pack.version,
        "moduleApiVersion": composition::VERSION,
        "requires": {
            "scopes": names(reads, runs::artifacts::READING),
            "writeScopes": names(writes, runs::artifacts::CHANGING),
            "settings": ["plugins.listen"],
        },
        "settings": {"plugins.listen": plugins.origin()},
        "contributions": contributions(pack),
    });
    if let Some(problem) = &pack.problem {
        module["problem"] = problem.as_str().into();
    } else if plugins.origin().is_none() {
        let message =
            "Plugins need a separate origin. Set `plugins.listen` in the settings file and restart the host.";
        module["message"] = message.into();
    }
    module
}

fn contributions(pack: &PluginPack) -> Value {
    let (mut routes, mut items, mut settings, mut viewers) = (vec![], vec![], vec![], vec![]);
    for plugin in &pack.plugins {
        let active = json!(["ready", "readOnly"]);
        let label = label(plugin);
        match plugin.surface {
            PluginSurface::Route => {
                let key = format!("{}:routes/{}", pack.owner, plugin.id);
                routes.push(json!({
                    "id": plugin.id, "path": format!("/plugins/{}/{}", pack.owner, plugin.id), "label": label,
                    "activeWhen": active, "renderHandle": handle("page", pack, plugin),
                }));
                items.push(json!({
                    "id": plugin.id, "label": label, "section": SECTION, "routeKey": key, "activeWhen": active,
                }));
            }
            PluginSurface::SettingsPanel => settings.push(json!({
                "id": plugin.id, "purpose": "settings", "label": label, "activeWhen": active,
                "renderHandle": handle("panel", pack, plugin),
            })),
            PluginSurface::ArtifactViewer => viewers.push(json!({
                "id": plugin.id, "purpose": ARTIFACT_VIEWER, "label": label, "activeWhen": active,
                "renderHandle": handle("panel", pack, plugin),
            })),
        }
    }
    let fallback = |status: &str, text: String| {
        let handle = json!({"renderHandleVersion": composition::VERSION, "kind": "panel", "id": "interlock.text", "data": {"text": text}});
        json!({"id": status.to_ascii_lowercase(), "status": status, "label": pack.name, "renderHandle": handle})
    };
    json!({
        "routes": routes,
        "sidebarItems": items,
        "configurationSurfaces": settings,
        "integrationSurfaces": viewers,
        "fallbackSurfaces": [
            fallback("needsConfiguration", "The plugins are unavailable because the host has no origin for them. Set `plugins.listen`.".to_owned()),
            fallback("unauthorized", "The plugins are unavailable because your key cannot read artifacts. Sign in with a key that can.".to_owned()),
            fallback("error", "The plugins are unavailable because the pack could not be verified. Install it again.".to_owned()),
        ],
    })
}

fn handle(kind: &str, pack: &PluginPack, plugin: &Plugin) -> Value {
    json!({
        "renderHandleVersion": composition::VERSION, "kind": kind, "id": "interlock.plugin",
        "data": {"pack": pack.name, "plugin": plugin.id},
    })
}

/// The plugin's label: its id with spaces between the words.
fn label(plugin: &Plugin) -> String {
    let mut words = plugin.id.replace('-', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}
