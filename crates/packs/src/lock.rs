//! Lockfiles: the exact version and digest of every pack.

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

/// The written format version.
pub const LOCKFILE_VERSION: u64 = 1;
/// The maximum size of a lockfile, in bytes.
pub const MAX_LOCKFILE_BYTES: usize = 16 << 20;
/// The maximum number of packs in a lockfile.
pub const MAX_LOCKED_PACKS: usize = 10_000;

const URI: Rule = matching(2048, grammar::uri, "a URI");
const RANGES: Rule = Rule::Map(&text(1, 64));
const LOCKFILE: Shape = closed(&[
    required("lockfileVersion", Rule::Integer { min: 1 }),
    required("generatedAt", matching(64, grammar::date_time, "an RFC 3339 date and time")),
    required(
        "packs",
        Rule::List { item: &Rule::Object(&PACK), min: 0, max: MAX_LOCKED_PACKS, unique: false },
    ),
    optional("registry", URI),
    optional("overrides", Rule::Map(&matching(64, grammar::version, "a version"))),
    optional("fallbackRegistries", Rule::List { item: &URI, min: 0, max: 64, unique: true }),
]);
const PACK: Shape = closed(&[
    required("name", matching(256, |text| PackName::parse_locked(text).is_ok(), "a pack name")),
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lockfile {
    pub lockfile_version: u64,
    pub generated_at: String,
    /// The first registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The packs, by name and version.
    pub packs: Vec<LockedPack>,
    /// Forced versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<PackName, Version>,
    /// The registries used after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_registries: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockedPack {
    pub name: PackName,
    pub version: Version,
    pub integrity: Integrity,
    /// Its origin URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The signature of its archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<LockedSignature>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<PackName, String>,
    /// Required host capabilities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, String>,
}

impl LockedPack {
    /// Checks an archive against the locked digest and signature.
    ///
    /// # Errors
    /// `pack_integrity_mismatch`, `pack_signature_invalid` or `pack_signature_unverifiable`.
    pub fn verify(&self, archive: &[u8]) -> Result<(), PackError> {
        let integrity = Integrity::of(archive);
        if !integrity.is(self.integrity) {
            return Err(self.digest_mismatch(integrity));
        }
        match &self.signature {
            Some(signature) => signature.verify(archive),
            None => Ok(()),
        }
    }

    pub(crate) fn digest_mismatch(&self, found: Integrity) -> PackError {
        let Self { name, version, integrity, .. } = self;
        let message = format!("{name}@{version} has digest {found}; the lockfile has {integrity}");
        PackError::new(PackErrorCode::IntegrityMismatch, message).detail("packName", name.as_str())
    }
}

impl Lockfile {
    /// An empty lockfile.
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
    /// `pack_lockfile_invalid`, with the position.
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
            return Err(invalid(first.pointer.clone(), format!("invalid lockfile at {problems}")));
        }
        let lock = Self::deserialize(&value).map_err(|error| invalid(String::new(), error.to_string()))?;
        if lock.lockfile_version > LOCKFILE_VERSION {
            let message = format!(
                "lockfile version {} is not supported; this program supports {LOCKFILE_VERSION}",
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

    /// The serialized lockfile: sorted, indented by two spaces, with a final line feed. Deterministic.
    pub fn write(&self) -> Vec<u8> {
        let mut sorted = self.clone();
        sorted.packs.sort_by(|left, right| (&left.name, &left.version).cmp(&(&right.name, &right.version)));
        let mut bytes = serde_json::to_vec_pretty(&sorted).expect("a lockfile has only strings and numbers");
        bytes.push(b'\n');
        bytes
    }

    pub fn pack(&self, name: &PackName, version: &Version) -> Option<&LockedPack> {
        self.packs.iter().find(|pack| pack.name == *name && pack.version == *version)
    }

    /// The pins for [`TrustMode::Pinned`](crate::trust::TrustMode::Pinned).
    pub fn pins(&self) -> BTreeMap<(PackName, Version), Integrity> {
        let pins = self.packs.iter().map(|pack| ((pack.name.clone(), pack.version.clone()), pack.integrity));
        pins.collect()
    }
}

/// Members whose names are pack names.
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
