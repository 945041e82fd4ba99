//! What a host provides to packs.

use std::collections::BTreeSet;

use serde_json::json;

use crate::error::{PackError, PackErrorCode};
use crate::kind::PackKind;
use crate::manifest::{Language, Manifest};

/// What this host provides; an install is checked against it.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Capabilities as in `peerDependencies`: `host.fs`, `secrets`, …. `None` skips the check.
    pub capabilities: Option<BTreeSet<String>>,
    /// Supported runtime requirements; some of [`REQUIREMENTS`](crate::manifest::REQUIREMENTS).
    pub runtime_requirements: BTreeSet<String>,
    /// Supported languages. `None` skips the check.
    pub languages: Option<BTreeSet<Language>>,
    /// Whether front-end plugins are loaded.
    pub ui_plugins: bool,
}

impl HostFacts {
    /// A host with all runtime requirements and languages, and these capabilities.
    pub fn everything(capabilities: impl IntoIterator<Item = String>) -> Self {
        Self {
            capabilities: Some(capabilities.into_iter().collect()),
            runtime_requirements: crate::manifest::REQUIREMENTS
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            languages: None,
            ui_plugins: true,
        }
    }

    /// Whether the host has the capability, with or without the `host.` prefix.
    pub fn gives(&self, capability: &str) -> bool {
        let Some(known) = &self.capabilities else { return true };
        let bare = capability.strip_prefix("host.").unwrap_or(capability);
        known.contains(bare) || known.contains(&format!("host.{bare}"))
    }

    /// Checks whether the pack can be used here; returns the missing optional capabilities.
    ///
    /// # Errors
    /// `unsupported_pack_runtime`, `pack_runtime_requirement_unmet`, `pack_peer_dependency_missing` or
    /// `pack_kind_invalid`.
    pub fn judge(&self, manifest: &Manifest) -> Result<Vec<String>, PackError> {
        if manifest.kind() == PackKind::FrontendPlugin && !self.ui_plugins {
            let message =
                format!("{} has kind frontend-plugin, which this host does not support", manifest.id());
            return Err(PackError::new(PackErrorCode::KindInvalid, message));
        }
        if let Some(runtime) = manifest.runtime() {
            // A pack with only agents has nothing to run.
            let runs = !manifest.type_ids().is_empty();
            if runs && self.languages.as_ref().is_some_and(|languages| !languages.contains(&runtime.language))
            {
                let message = format!(
                    "{} uses the language {}, which this host does not run",
                    manifest.id(),
                    runtime.language.as_str()
                );
                return Err(PackError::new(PackErrorCode::UnsupportedRuntime, message));
            }
            let unmet: Vec<&str> = runtime
                .requires
                .iter()
                .map(String::as_str)
                .filter(|name| !self.runtime_requirements.contains(*name))
                .collect();
            if !unmet.is_empty() {
                let message = format!(
                    "{} requires {}, which this host does not provide",
                    manifest.id(),
                    unmet.join(", ")
                );
                return Err(PackError::new(PackErrorCode::RuntimeRequirementUnmet, message)
                    .detail("unmet", json!(unmet))
                    .detail("manifest", manifest.id())
                    .detail("advice", PackErrorCode::RuntimeRequirementUnmet.advice()));
            }
        }
        let (mut degraded, mut missing) = (Vec::new(), Vec::new());
        for capability in manifest.common.peer_dependencies.keys().filter(|name| !self.gives(name)) {
            let meta = manifest.common.peer_dependencies_meta.get(capability);
            if meta.is_some_and(|meta| meta.optional) {
                degraded.push(capability.clone());
            } else {
                missing.push(capability.as_str());
            }
        }
        if !missing.is_empty() {
            let message = format!(
                "{} requires the host capabilities {}, which are missing",
                manifest.id(),
                missing.join(", ")
            );
            return Err(PackError::new(PackErrorCode::PeerDependencyMissing, message)
                .detail("missing", json!(missing)));
        }
        Ok(degraded)
    }
}
