//! The document of a pack.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keychain::ChainKey;
use crate::integrity::Integrity;
use crate::kind::PackKind;
use crate::manifest::Manifest;
use crate::name::PackName;
use crate::resolve::Candidate;
use crate::version::Version;

/// The version of the format.
pub(super) const FORMAT: u64 = 1;

/// Everything that a registry knows of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackRecord {
    /// The version of this format.
    pub format: u64,
    /// The name.
    pub name: PackName,
    /// Who published it first.
    pub owner: String,
    /// The versions, lowest first.
    pub versions: Vec<VersionRecord>,
    /// Versions that were taken back. None of them is ever another archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<(Version, Integrity)>,
    /// The keys that signed it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keychain: Vec<ChainKey>,
}

/// A version of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersionRecord {
    /// The version.
    pub version: Version,
    /// Its kind.
    pub kind: PackKind,
    /// The digest of its archive.
    pub integrity: Integrity,
    /// The size of its archive.
    pub size: u64,
    /// When it was published.
    pub published_at: Timestamp,
    /// Who published it.
    pub publisher: String,
    /// Its manifest.
    pub manifest: Map<String, Value>,
    /// The signature over `pack.json`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The key that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,
    /// Why it should no longer be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    /// Why it was withdrawn from ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<Yank>,
}

/// Why a version should no longer be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deprecation {
    /// In words.
    #[serde(default)]
    pub reason: String,
    /// What to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// Why a version was withdrawn from ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Yank {
    /// In words.
    #[serde(default)]
    pub reason: String,
}

impl PackRecord {
    /// What is known of a version.
    pub fn version(&self, version: &Version) -> Option<&VersionRecord> {
        self.versions.iter().find(|record| record.version == *version)
    }

    pub(super) fn version_mut(&mut self, version: &Version) -> Option<&mut VersionRecord> {
        self.versions.iter_mut().find(|record| record.version == *version)
    }

    /// The version that is shown first: the highest that is not yanked, releases before pre-releases.
    pub fn latest(&self) -> Option<&VersionRecord> {
        let usable = || self.versions.iter().filter(|record| record.yanked.is_none());
        let by_version = |record: &&VersionRecord| record.version.clone();
        usable()
            .filter(|record| record.version.pre.is_empty())
            .max_by_key(by_version)
            .or_else(|| usable().max_by_key(by_version))
            .or_else(|| self.versions.iter().max_by_key(by_version))
    }
}

impl VersionRecord {
    /// The 64 bytes of the signature.
    pub(super) fn signature(&self) -> Option<[u8; 64]> {
        STANDARD.decode(self.signature.as_ref()?).ok()?.try_into().ok()
    }

    pub(super) fn encode_signature(signature: &[u8; 64]) -> String {
        STANDARD.encode(signature)
    }

    /// The manifest, read again.
    pub(super) fn read_manifest(&self) -> Option<Manifest> {
        Manifest::from_value(&Value::Object(self.manifest.clone())).ok()
    }

    pub(super) fn candidate(&self, name: &PackName) -> Option<Candidate> {
        let manifest = self.read_manifest()?;
        Some(Candidate {
            version: self.version.clone(),
            integrity: self.integrity,
            resolved: None,
            signature: None,
            dependencies: manifest.common.dependencies,
            peer_dependencies: manifest.common.peer_dependencies,
        })
        .filter(|_| manifest.common.name == *name)
    }
}
