//! Registry documents.

use canon::time::Timestamp;
use serde_json::{Map, Value, json};

use super::record::{PackRecord, VersionRecord};
use super::{Registry, RegistryError, RegistryStore, known, shown, version_not_found};
use crate::kind::PackKind;
use crate::name::PackName;
use crate::publish::PublishRules;
use crate::trust::TrustMode;
use crate::version::Version;

/// The maximum number of search results.
pub const MAX_FOUND: usize = 100;

/// The registry description: `GET /.well-known/openwop-registry`.
pub fn well_known(rules: &PublishRules) -> Value {
    let keys: Vec<Value> = rules
        .keys
        .iter()
        .map(|key| {
            json!({
                "keyId": key.id, "algorithm": "ed25519", "publicKey": key.key.to_pem(), "permittedNamespaces": key.permitted,
            })
        })
        .collect();
    let namespaces: Vec<String> = rules.scopes.iter().map(|scope| format!("{}.*", scope.as_str())).collect();
    let modes: Vec<&str> = TrustMode::ALL.iter().map(|mode| mode.as_str()).collect();
    json!({
        "registryVersion": "1", "protocolVersion": "1.0", "supportedNamespaces": namespaces,
        "supportedSigningMethods": ["manual", "none"], "supportedTrustModes": modes,
        "endpoints": {
            "registryIndex": "/v1/index.json", "packMetadata": "/v1/packs/{name}",
            "versionManifest": "/v1/packs/{name}/-/{version}.json", "versionTarball": "/v1/packs/{name}/-/{version}.tgz",
            "versionSignature": "/v1/packs/{name}/-/{version}.sig", "publicKey": "/keys/{keyId}.pub",
        },
        "signingKeys": keys,
        "lifecycle": {"yankSupported": true, "deprecateSupported": true, "keyRotationSupported": true},
        "writeApi": true,
    })
}

impl<S: RegistryStore> Registry<S> {
    /// The catalog of visible packs: `GET /v1/index.json`.
    pub fn index(&self, now: Timestamp, is_shown: impl Fn(&PackName) -> bool) -> Value {
        let packs = self.read();
        let shown_packs = packs.values().filter(|record| is_shown(&record.name));
        let entries: Vec<Value> = shown_packs.filter_map(entry).collect();
        // The protocol's text has `generatedAt`, its client reads `generated`.
        json!({
            "registryVersion": "1", "generated": shown(now), "generatedAt": shown(now), "packCount": entries.len(),
            "packs": entries,
        })
    }

    /// The document of a pack: `GET /v1/packs/{name}`.
    ///
    /// # Errors
    /// `pack_not_found`.
    pub fn pack(&self, name: &PackName) -> Result<Value, RegistryError> {
        let packs = self.read();
        let record = known(&packs, name)?;
        let versions: Map<String, Value> = record
            .versions
            .iter()
            .map(|version| (version.version.to_string(), summary(name, version)))
            .collect();
        let latest = record.latest().map(|latest| latest.version.to_string());
        Ok(json!({
            "name": name, "kind": record.latest().map(|latest| latest.kind),
            "description": record.latest().and_then(|latest| latest.manifest.get("description")),
            "latest": latest, "latestVersion": latest, "dist-tags": {"latest": latest}, "versions": versions,
        }))
    }

    /// The manifest of a version with registry data: `GET …/-/{version}.json`.
    ///
    /// # Errors
    /// `pack_not_found` or `pack_version_not_found`.
    pub fn version_manifest(&self, name: &PackName, version: &Version) -> Result<Value, RegistryError> {
        let packs = self.read();
        let found = known(&packs, name)?.version(version).ok_or_else(|| version_not_found(name, version))?;
        let mut document = found.manifest.clone();
        // Not members of this document.
        for name in ["peerDependenciesMeta", "connector"] {
            document.remove(name);
        }
        let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
        put("integrity", json!(found.integrity));
        put("publishedAt", json!(shown(found.published_at)));
        put("tarballUrl", json!(format!("/v1/packs/{name}/-/{version}.tgz")));
        put("deprecated", json!(found.deprecated.is_some()));
        put("yanked", json!(found.yanked.is_some()));
        if let Some(key) = &found.signing_key {
            put("signatureUrl", json!(format!("/v1/packs/{name}/-/{version}.sig")));
            put("signing", json!({"method": "manual", "keyId": key}));
        } else {
            document.remove("signing");
        }
        for (name, text) in reasons(found) {
            document.insert(name.to_owned(), text);
        }
        Ok(Value::Object(document))
    }

    /// Visible packs with all words in their name, description or keywords: `GET /v1/packs/-/search?q=`.
    pub fn search(&self, query: &str, is_shown: impl Fn(&PackName) -> bool) -> Value {
        let words: Vec<String> = query.split_whitespace().take(16).map(str::to_lowercase).collect();
        let packs = self.read();
        let found = packs.values().filter(|record| {
            let Some(latest) = record.latest() else { return false };
            let text = |name: &str| latest.manifest.get(name).map(Value::to_string).unwrap_or_default();
            let all = format!("{} {} {}", record.name, text("description"), text("keywords")).to_lowercase();
            words.iter().all(|word| all.contains(word))
        });
        let found = found.filter(|record| is_shown(&record.name));
        let found: Vec<Value> = found.filter_map(entry).take(MAX_FOUND).collect();
        json!({"q": query, "total": found.len(), "results": found})
    }

    /// Visible packs with a node type, chain or template: `GET /v1/packs/-/by-type/{typeId}`.
    pub fn by_type(&self, type_id: &str, is_shown: impl Fn(&PackName) -> bool) -> Value {
        let packs = self.read();
        let brings = |record: &&PackRecord| {
            record
                .latest()
                .is_some_and(|latest| type_ids(latest).iter().any(|id| id.as_str() == Some(type_id)))
        };
        let found = packs.values().filter(|record| is_shown(&record.name)).filter(brings);
        let found: Vec<Value> = found.filter_map(entry).take(MAX_FOUND).collect();
        json!({"typeId": type_id, "packs": found})
    }
}

/// A catalog entry.
fn entry(record: &PackRecord) -> Option<Value> {
    let latest = record.latest()?;
    let count = |name: &str| latest.manifest.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    Some(json!({
        "name": record.name, "kind": latest.kind, "latest": latest.version, "latestVersion": latest.version,
        "description": latest.manifest.get("description"), "typeIds": type_ids(latest), "nodeCount": count("nodes"),
        "agentCount": count("agents"), "deprecated": latest.deprecated.is_some(), "yanked": latest.yanked.is_some(),
    }))
}

/// The searchable ids of a version, from its manifest.
fn type_ids(version: &VersionRecord) -> Vec<&Value> {
    let (member, id) = match version.kind {
        PackKind::Node => ("nodes", "typeId"),
        PackKind::WorkflowChain => ("chains", "chainId"),
        PackKind::Prompt => ("prompts", "templateId"),
        PackKind::ArtifactType => ("artifactTypes", "artifactTypeId"),
        PackKind::Card => ("cards", "cardTypeId"),
        PackKind::FrontendPlugin => ("uiPlugins", "pluginId"),
        PackKind::Connection => {
            return version
                .manifest
                .get("provider")
                .and_then(|provider| provider.get("id"))
                .into_iter()
                .collect();
        }
    };
    let items = version.manifest.get(member).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get(id)).collect()
}

/// A version in the document of its pack.
fn summary(name: &PackName, found: &VersionRecord) -> Value {
    let address = |ending: &str| format!("/v1/packs/{name}/-/{}.{ending}", found.version);
    let mut summary = json!({
        "manifestUrl": address("json"), "tarballUrl": address("tgz"), "integrity": found.integrity,
        "tarballSha256": found.integrity.to_hex(), "size": found.size, "publishedAt": shown(found.published_at),
        "signingMethod": if found.signing_key.is_some() { "manual" } else { "none" },
        "deprecated": found.deprecated.is_some(), "yanked": found.yanked.is_some(),
    });
    if let (Some(members), Some(key)) = (summary.as_object_mut(), &found.signing_key) {
        members.insert("signatureUrl".to_owned(), json!(address("sig")));
        members.insert("signingKeyId".to_owned(), json!(key));
    }
    if let Some(members) = summary.as_object_mut() {
        members.extend(reasons(found).map(|(name, text)| (name.to_owned(), text)));
    }
    summary
}

fn reasons(found: &VersionRecord) -> impl Iterator<Item = (&'static str, Value)> {
    let deprecated = found.deprecated.iter().flat_map(|notice| {
        [
            ("deprecationReason", Some(json!(notice.reason))),
            ("supersededBy", notice.superseded_by.as_ref().map(|by| json!(by))),
        ]
    });
    let yanked = found.yanked.iter().map(|notice| ("yankedReason", Some(json!(notice.reason))));
    deprecated.chain(yanked).filter_map(|(name, text)| Some((name, text?)))
}
