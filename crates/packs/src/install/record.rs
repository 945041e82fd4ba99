//! The record of an installed pack.

use serde::{Deserialize, Serialize};

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::kind::PackKind;
use crate::name::PackName;
use crate::trust::Proof;
use crate::version::Version;

/// The reserved folder of an installed pack.
pub(super) const RECORD_FOLDER: &str = crate::path::RESERVED;
pub(super) const RECORD_NAME: &str = "installed.json";
pub(super) const FORMAT: u64 = 1;
/// More than 10,000 files with the longest paths need.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;

/// What was installed, how it was verified, and which capabilities are missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstalledRecord {
    pub format: u64,
    pub name: PackName,
    pub version: Version,
    pub kind: PackKind,
    pub integrity: Integrity,
    /// How it was verified.
    pub proof: Proof,
    /// Whether the archive matched an announced digest: a signature covers only `pack.json`, not the other files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
    pub installed_at: String,
    /// The optional capabilities that this host lacks.
    pub degraded: Vec<String>,
    /// Its files, by path.
    pub files: Vec<InstalledFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledFile {
    pub path: String,
    pub size: u64,
    pub sha256: Integrity,
}

impl InstalledRecord {
    /// The record with the additional proof of another install of the same bytes, or `None` if it has none.
    pub(super) fn strengthened(&self, again: &Self) -> Option<Self> {
        let is_stronger = again.proof.strength() > self.proof.strength();
        let proof = if is_stronger { again.proof.clone() } else { self.proof.clone() };
        let stronger = Self { proof, announced: self.announced || again.announced, ..self.clone() };
        (stronger != *self).then_some(stronger)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a record has only strings and numbers");
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn read(bytes: &[u8], name: &PackName, version: &Version) -> Result<Self, PackError> {
        let failure = |message: String| {
            PackError::new(
                PackErrorCode::LoadFailure,
                format!("the record of {name}@{version} is unusable: {message}"),
            )
        };
        let record: Self = serde_json::from_slice(bytes).map_err(|error| failure(error.to_string()))?;
        if record.format != FORMAT {
            return Err(failure(format!(
                "format {} is not supported; this program supports {FORMAT}",
                record.format
            )));
        }
        if record.name != *name || record.version != *version {
            return Err(failure(format!("it belongs to {}@{}", record.name, record.version)));
        }
        Ok(record)
    }
}
