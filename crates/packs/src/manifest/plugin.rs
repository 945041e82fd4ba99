//! Parts of a front end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::URI;
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{Rule, Shape, check, closed, matching, optional, refuse_twice, required, some, unique};

const PLUGIN: Shape = closed(&[
    required(
        "pluginId",
        matching(64, grammar::slug, "an id such as `chart-viewer`, of at most 64 characters"),
    ),
    required("surface", Rule::OneOf(&["artifact-viewer", "route", "settings-panel"])),
    required(
        "entry",
        matching(256, is_entry, "a path inside the pack, such as `dist/index.html`, without `..`"),
    ),
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

/// The published pattern lets a `..` pass that is not at the beginning; here it does not.
fn is_entry(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-'))
        && crate::path::EntryPath::parse(text).is_ok()
}

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let at = at.member("uiPlugins");
    let Some(plugins) = value.get("uiPlugins") else {
        return problems.invalid(&at, "is required and missing");
    };
    check(plugins, &some(&Rule::Object(&PLUGIN)), &at, problems);
    refuse_twice(plugins, "pluginId", ManifestErrorCode::Invalid, &at, problems);
}

/// A part of a front end. It runs in a frame of another origin, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UiPlugin {
    /// Its id within the pack.
    pub plugin_id: String,
    /// Where it is shown.
    pub surface: PluginSurface,
    /// The bundle, as a path in the archive.
    pub entry: String,
    /// What it may ask its host for.
    pub host_api: Vec<HostMethod>,
    /// Where it may connect to; nowhere without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect_src: Vec<String>,
}

/// Where a plugin is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum PluginSurface {
    ArtifactViewer,
    Route,
    SettingsPanel,
}

/// What a plugin may ask its host for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
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
