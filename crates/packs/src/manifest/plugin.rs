//! Front-end plugins.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::URI;
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    Rule, Shape, check, closed, matching, optional, reject_duplicates, required, some, unique,
};

const PLUGIN: Shape = closed(&[
    required("pluginId", matching(64, grammar::slug, "an id such as `chart-viewer`, at most 64 characters")),
    required("surface", Rule::OneOf(&["artifact-viewer", "route", "settings-panel"])),
    required("entry", matching(256, is_entry, "a path in the pack, such as `dist/index.html`, without `..`")),
    required(
        "hostApi",
        Rule::List {
            item: &Rule::OneOf(&["artifact.read", "artifact.write", "host.toast", "host.navigate"]),
            min: 0,
            max: usize::MAX,
            unique: true,
        },
    ),
    optional("connectSrc", unique(&URI)),
]);

/// Stricter than the published pattern, which allows `..` after the start.
fn is_entry(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-'))
        && crate::path::EntryPath::parse(text).is_ok()
}

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let at = at.member("uiPlugins");
    let Some(plugins) = value.get("uiPlugins") else {
        return problems.invalid(&at, "required");
    };
    check(plugins, &some(&Rule::Object(&PLUGIN)), &at, problems);
    reject_duplicates(plugins, "pluginId", ManifestErrorCode::Invalid, &at, problems);
}

/// A front-end plugin. It runs only in a frame of another origin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UiPlugin {
    pub plugin_id: String,
    /// Where it is shown.
    pub surface: PluginSurface,
    /// The archive path of the bundle.
    pub entry: String,
    /// The host methods that it may call.
    pub host_api: Vec<HostMethod>,
    /// The allowed connection targets; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect_src: Vec<String>,
}

/// Where a plugin is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginSurface {
    ArtifactViewer,
    Route,
    SettingsPanel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum HostMethod {
    #[serde(rename = "artifact.read")]
    ArtifactRead,
    #[serde(rename = "artifact.write")]
    ArtifactWrite,
    #[serde(rename = "host.toast")]
    HostToast,
    #[serde(rename = "host.navigate")]
    HostNavigate,
}
