//! What is recorded of an installed pack.

use serde::{Deserialize, Serialize};

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::kind::PackKind;
use crate::name::PackName;
use crate::trust::Proof;
use crate::version::Version;

/// The folder that an installed pack keeps to itself.
pub(super) const RECORD_FOLDER: &str = crate::path::RESERVED;
pub(super) const RECORD_NAME: &str = "installed.json";
pub(super) const FORMAT: u64 = 1;
/// 10,000 files with the longest paths are less.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;

/// What was installed, how it proved itself, and what of it does not work here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstalledRecord {
    /// The version of this format.
    pub format: u64,
    /// The name of the pack.
    pub name: PackName,
    /// Its version.
    pub version: Version,
    /// Its kind.
    pub kind: PackKind,
    /// The digest of its archive.
    pub integrity: Integrity,
    /// What it proved.
    pub proof: Proof,
    /// Whether somebody had said before what the archive is, and it was: a signature is over `pack.json` alone, and says nothing of the
    /// files beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
    /// When it was installed.
    pub installed_at: String,
    /// The capabilities that it could use and this host does not give.
    pub degraded: Vec<String>,
    /// Its files, by path.
    pub files: Vec<InstalledFile>,
}

/// A file of an installed pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledFile {
    /// Where it is.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// Its digest.
    pub sha256: Integrity,
}

impl InstalledRecord {
    /// The same with whatever an install of the same bytes has proved besides, or nothing where that is not more.
    pub(super) fn strengthened(&self, again: &Self) -> Option<Self> {
        let is_stronger = again.proof.strength() > self.proof.strength();
        let proof = if is_stronger { again.proof.clone() } else { self.proof.clone() };
        let stronger = Self { proof, announced: self.announced || again.announced, ..self.clone() };
        (stronger != *self).then_some(stronger)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a record has only texts and numbers in it");
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn read(bytes: &[u8], name: &PackName, version: &Version) -> Result<Self, PackError> {
        let failure = |message: String| {
            PackError::new(
                PackErrorCode::LoadFailure,
                format!("the record of {name}@{version} cannot be used: {message}"),
            )
        };
        let record: Self = serde_json::from_slice(bytes).map_err(|error| failure(error.to_string()))?;
        if record.format != FORMAT {
            return Err(failure(format!(
                "it is of format {}, and this program knows {FORMAT}",
                record.format
            )));
        }
        if record.name != *name || record.version != *version {
            return Err(failure(format!("it is of {}@{}", record.name, record.version)));
        }
        Ok(record)
    }
}
