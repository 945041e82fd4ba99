//! Lockfiles: which version of every pack, with which bytes.

use std::collections::BTreeMap;

use canon::json;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::manifest::grammar;
use crate::manifest::problem::{Pointer, Problems};
use crate::manifest::shape::{
    NON_EMPTY, Rule, Shape, check_object, closed, matching, optional, required, text,
};
use crate::name::PackName;
use crate::signature::LockedSignature;
use crate::version::Version;

/// The version of the format that is written.
pub const LOCKFILE_VERSION: u64 = 1;
/// The most bytes of a lockfile.
pub const MAX_LOCKFILE_BYTES: usize = 16 << 20;
/// The most packs of a lockfile.
pub const MAX_LOCKED_PACKS: usize = 10_000;

const URI: Rule = matching(2048, grammar::uri, "a URI");
const RANGES: Rule = Rule::Map(&text(1, 64));
const LOCKFILE: Shape = closed(&[
    required("lockfileVersion", Rule::Integer { min: 1 }),
    required("generatedAt", matching(64, grammar::date_time, "a date and a time of RFC 3339")),
    required(
        "packs",
        Rule::List { item: &Rule::Object(&PACK), min: 0, max: MAX_LOCKED_PACKS, unique: false },
    ),
    optional("registry", URI),
    optional("overrides", Rule::Map(&matching(64, grammar::version, "a version"))),
    optional("fallbackRegistries", Rule::List { item: &URI, min: 0, max: 64, unique: true }),
]);
const PACK: Shape = closed(&[
    required("name", matching(256, |text| PackName::parse_locked(text).is_ok(), "a name of a pack")),
    required("version", matching(64, grammar::version, "a version")),
    required("integrity", matching(64, |text| Integrity::parse(text).is_ok(), "`sha256-` and base64")),
    optional("resolved", URI),
    optional("signature", Rule::Object(&SIGNATURE)),
    optional("dependencies", RANGES),
    optional("peerDependencies", RANGES),
]);
const SIGNATURE: Shape = closed(&[
    required("algorithm", Rule::OneOf(&["ed25519"])),
    required("publicKey", NON_EMPTY),
    required("value", NON_EMPTY),
]);

/// A lockfile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lockfile {
    /// The version of the format.
    pub lockfile_version: u64,
    /// When it was made.
    pub generated_at: String,
    /// The registry that was asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The packs, by name and version.
    pub packs: Vec<LockedPack>,
    /// Versions that were forced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<PackName, Version>,
    /// The registries that were asked after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_registries: Vec<String>,
}

/// A pack of a lockfile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockedPack {
    /// Its name.
    pub name: PackName,
    /// Its version.
    pub version: Version,
    /// Its bytes.
    pub integrity: Integrity,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// Who signed its archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
    /// What it needs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<PackName, String>,
    /// What it needs of its host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
}

impl LockedPack {
    /// Holds an archive to what is locked: its bytes, and the signature over them where there is one.
    ///
    /// # Errors
    /// `pack_integrity_mismatch`, `pack_signature_invalid` or `pack_signature_unverifiable`.
    pub fn verify(&self, archive: &[u8]) -> Result<(), PackError> {
        let integrity = Integrity::of(archive);
        if !integrity.is(self.integrity) {
            return Err(self.other_bytes(integrity));
        }
        match &self.signature {
            Some(signature) => signature.verify(archive),
            None => Ok(()),
        }
    }

    pub(crate) fn other_bytes(&self, found: Integrity) -> PackError {
        let Self { name, version, integrity, .. } = self;
        let message = format!("{name}@{version} is {found}, and {integrity} is locked");
        PackError::new(PackErrorCode::IntegrityMismatch, message).detail("packName", name.as_str())
    }
}

impl Lockfile {
    /// An empty lockfile of this moment.
    pub fn new(now: Timestamp) -> Self {
        Self {
            lockfile_version: LOCKFILE_VERSION,
            generated_at: now.to_rfc3339(),
            registry: None,
            packs: Vec::new(),
            overrides: BTreeMap::new(),
            fallback_registries: Vec::new(),
        }
    }

    /// Reads a lockfile.
    ///
    /// # Errors
    /// `pack_lockfile_invalid`, with the place.
    pub fn read(bytes: &[u8]) -> Result<Self, PackError> {
        let invalid = |pointer: String, message: String| {
            PackError::new(PackErrorCode::LockfileInvalid, message).detail("pointer", pointer)
        };
        let limits = json::Limits::DEFAULT.max_bytes(MAX_LOCKFILE_BYTES).max_depth(16);
        let value = json::read(bytes, &limits).map_err(|error| invalid(String::new(), error.to_string()))?;
        let mut problems = Problems::default();
        check_object(&value, &LOCKFILE, &Pointer::Root, &mut problems);
        names(&value, &mut problems);
        if let Some(first) = problems.first() {
            return Err(invalid(first.pointer.clone(), format!("the lockfile at {problems}")));
        }
        let lock = Self::deserialize(&value).map_err(|error| invalid(String::new(), error.to_string()))?;
        if lock.lockfile_version > LOCKFILE_VERSION {
            let message = format!(
                "the lockfile is of version {}, and this program knows {LOCKFILE_VERSION}",
                lock.lockfile_version
            );
            return Err(invalid("/lockfileVersion".to_owned(), message));
        }
        let mut seen = BTreeMap::new();
        for (place, pack) in lock.packs.iter().enumerate() {
            if seen.insert((&pack.name, &pack.version), place).is_some() {
                let message = format!("{}@{} is locked twice", pack.name, pack.version);
                return Err(invalid(format!("/packs/{place}"), message));
            }
        }
        Ok(lock)
    }

    /// The bytes of a lockfile: sorted, indented by two, one line feed at the end. The same packs give the same bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut sorted = self.clone();
        sorted.packs.sort_by(|left, right| (&left.name, &left.version).cmp(&(&right.name, &right.version)));
        let mut bytes =
            serde_json::to_vec_pretty(&sorted).expect("a lockfile has only texts and numbers in it");
        bytes.push(b'\n');
        bytes
    }

    /// The pack of that name and version.
    pub fn pack(&self, name: &PackName, version: &Version) -> Option<&LockedPack> {
        self.packs.iter().find(|pack| pack.name == *name && pack.version == *version)
    }

    /// What [`TrustMode::Pinned`](crate::trust::TrustMode::Pinned) goes by.
    pub fn pins(&self) -> BTreeMap<(PackName, Version), Integrity> {
        let pins = self.packs.iter().map(|pack| ((pack.name.clone(), pack.version.clone()), pack.integrity));
        pins.collect()
    }
}

/// Members that are named after packs.
fn names(value: &Value, problems: &mut Problems) {
    let root = Pointer::Root;
    let packs = root.member("packs");
    let check = |members: Option<&Value>, at: &Pointer<'_>, problems: &mut Problems| {
        for name in members.and_then(Value::as_object).into_iter().flat_map(|members| members.keys()) {
            if let Err(error) = PackName::parse_locked(name) {
                problems.invalid(&at.member(name), error.to_string());
            }
        }
    };
    check(value.get("overrides"), &root.member("overrides"), problems);
    for (place, pack) in value.get("packs").and_then(Value::as_array).into_iter().flatten().enumerate() {
        check(pack.get("dependencies"), &packs.item(place).member("dependencies"), problems);
    }
}
