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

/// The format version.
pub(super) const FORMAT: u64 = 1;

/// The registry data of a pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackRecord {
    pub format: u64,
    pub name: PackName,
    /// The first publisher.
    pub owner: String,
    /// The versions, lowest first.
    pub versions: Vec<VersionRecord>,
    /// Unpublished versions. They can only return with the same contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<(Version, Integrity)>,
    /// The signing keys, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keychain: Vec<ChainKey>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersionRecord {
    pub version: Version,
    pub kind: PackKind,
    pub integrity: Integrity,
    pub size: u64,
    pub published_at: Timestamp,
    pub publisher: String,
    pub manifest: Map<String, Value>,
    /// The signature over `pack.json`, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<Yank>,
}

/// Why a version is deprecated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deprecation {
    #[serde(default)]
    pub reason: String,
    /// The replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// Why a version is yanked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Yank {
    #[serde(default)]
    pub reason: String,
}

impl PackRecord {
    pub fn version(&self, version: &Version) -> Option<&VersionRecord> {
        self.versions.iter().find(|record| record.version == *version)
    }

    pub(super) fn version_mut(&mut self, version: &Version) -> Option<&mut VersionRecord> {
        self.versions.iter_mut().find(|record| record.version == *version)
    }

    /// The version shown first: the highest that is not yanked, releases before pre-releases.
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
    /// The signature bytes.
    pub(super) fn signature(&self) -> Option<[u8; 64]> {
        STANDARD.decode(self.signature.as_ref()?).ok()?.try_into().ok()
    }

    pub(super) fn encode_signature(signature: &[u8; 64]) -> String {
        STANDARD.encode(signature)
    }

    /// The parsed manifest.
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
