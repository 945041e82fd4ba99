//! What a host gives to packs.

use std::collections::BTreeSet;

use serde_json::json;

use crate::error::{PackError, PackErrorCode};
use crate::kind::PackKind;
use crate::manifest::{Language, Manifest};

/// What this host gives: the facts that an install is judged by.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// The capabilities, as packs write them in `peerDependencies`: `host.fs`, `secrets`, …. With none, nothing is asked:
    /// somebody else knows them.
    pub capabilities: Option<BTreeSet<String>>,
    /// What runtimes may have; some of [`REQUIREMENTS`](crate::manifest::REQUIREMENTS).
    pub runtime_requirements: BTreeSet<String>,
    /// The languages that are run. With none, nothing is asked: somebody else runs the nodes.
    pub languages: Option<BTreeSet<Language>>,
    /// Whether parts of a front end are loaded.
    pub ui_plugins: bool,
}

impl HostFacts {
    /// A host that gives everything that runtimes may ask for, runs every language and has these capabilities.
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

    /// Whether the host has the capability, with or without `host.` before its name.
    pub fn gives(&self, capability: &str) -> bool {
        let Some(known) = &self.capabilities else { return true };
        let bare = capability.strip_prefix("host.").unwrap_or(capability);
        known.contains(bare) || known.contains(&format!("host.{bare}"))
    }

    /// Whether the pack can be used here, and which of what it could use is missing.
    ///
    /// # Errors
    /// `unsupported_pack_runtime`, `pack_runtime_requirement_unmet`, `pack_peer_dependency_missing` or `pack_kind_invalid`.
    pub fn judge(&self, manifest: &Manifest) -> Result<Vec<String>, PackError> {
        if manifest.kind() == PackKind::FrontendPlugin && !self.ui_plugins {
            let message =
                format!("{} is of kind frontend-plugin, which this host does not load", manifest.id());
            return Err(PackError::new(PackErrorCode::KindInvalid, message));
        }
        if let Some(runtime) = manifest.runtime() {
            // A pack of agents alone has nothing to run.
            let runs = !manifest.type_ids().is_empty();
            if runs && self.languages.as_ref().is_some_and(|languages| !languages.contains(&runtime.language))
            {
                let message = format!(
                    "{} is in {}, which this host does not run",
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
                let message =
                    format!("{} wants {}, which this host does not give", manifest.id(), unmet.join(", "));
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
            let message =
                format!("{} needs {} of its host, and they are missing", manifest.id(), missing.join(", "));
            return Err(PackError::new(PackErrorCode::PeerDependencyMissing, message)
                .detail("missing", json!(missing)));
        }
        Ok(degraded)
    }
}
