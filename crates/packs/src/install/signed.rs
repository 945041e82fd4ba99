//! One installed pack, loaded only while its signature holds as it is stored now.
//!
//! What was proven at the install is in the record, which lies beside the files: whoever can change the one can change the other.
//! So the signature is verified again over the bytes that are there, with a key that the caller trusts or, without one, with the key
//! that the pack brings, which has to be the one that was recorded.

use std::collections::BTreeSet;

use super::{InstalledPack, InstalledPacks, InstalledRecord, failure};
use crate::disk::Folder;
use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::manifest::{Content, MANIFEST_PATH, MAX_MANIFEST_BYTES, Manifest, ManifestError, SigningMethod};
use crate::name::PackName;
use crate::path::EntryPath;
use crate::signature::{self, PUBLIC_KEY_PATH, PublicKey, SIGNATURE_PATH, TrustedKey};
use crate::trust::Proof;
use crate::version::{self, Version};

/// The largest signature or key that is read; both are far smaller.
const MAX_MATERIAL_BYTES: usize = 16 << 10;

impl InstalledPacks {
    /// The versions of one pack that are there, lowest first. Nothing of other packs is looked at.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    pub fn versions(&self, name: &PackName) -> Result<Vec<Version>, PackError> {
        let names = match self.root.open(name.as_str()).and_then(|versions| versions.names()) {
            Ok(names) => names,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(PackError::storage(&format!("{name} cannot be listed"), &cause)),
        };
        let mut versions: Vec<Version> = names.iter().filter_map(|text| version::parse(text)).collect();
        versions.sort();
        Ok(versions)
    }

    /// Loads a version of a pack, or the highest, after its signature was verified as it is stored. The record that is given back says
    /// what it proves now.
    ///
    /// With keys, one of them signed it. Without, a signature that was there at the install has to hold still, and a pack that
    /// had none has to be what was installed. A signature is over `pack.json`; the other files are held to their digests when they
    /// are read.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_signature_invalid`, `pack_signature_unverifiable`, `pack_namespace_unauthorized`, `pack_load_failure`
    /// when an unsigned pack was changed, `pack_storage_failure`.
    pub fn load_verified(
        &self,
        name: &PackName,
        version: Option<&Version>,
        keys: &[TrustedKey],
    ) -> Result<InstalledPack, PackError> {
        let mut record = match version {
            Some(version) => self.record(name, version)?,
            None => self.highest_record(name)?,
        };
        let folder = self.folder(name, &record.version).map_err(|cause| {
            PackError::storage(&format!("{name}@{} cannot be read", record.version), &cause)
        })?;
        let (manifest, proof) = verified(&folder, &record, keys)?;
        record.proof = proof;
        Ok(InstalledPack { manifest, record })
    }

    /// The types of nodes that the installed packs declare, the highest version of each. A pack that cannot be read declares none.
    ///
    /// # Errors
    /// `pack_storage_failure` when the folder cannot be listed.
    pub fn declared_types(&self) -> Result<BTreeSet<String>, PackError> {
        let names = self
            .root
            .names()
            .map_err(|cause| PackError::storage("the folder of packs cannot be listed", &cause))?;
        let mut types = BTreeSet::new();
        for name in names.iter().filter_map(|name| PackName::parse(name).ok()) {
            let Ok(record) = self.highest_record(&name) else { continue };
            let Ok(pack) = self.load(&name, &record.version, false) else { continue };
            if let Content::Node(nodes) = &pack.manifest.content {
                types.extend(nodes.nodes.iter().map(|node| node.type_id.clone()));
            }
        }
        Ok(types)
    }

    /// The record of the highest version that has one. One that cannot be read is told, and no lower version takes its place.
    fn highest_record(&self, name: &PackName) -> Result<InstalledRecord, PackError> {
        for version in self.versions(name)?.iter().rev() {
            match self.record(name, version) {
                Err(error) if error.code() == PackErrorCode::NotFound => {}
                found => return found,
            }
        }
        Err(PackError::new(PackErrorCode::NotFound, format!("{name} is not installed")))
    }
}

fn verified(
    folder: &Folder,
    record: &InstalledRecord,
    keys: &[TrustedKey],
) -> Result<(Manifest, Proof), PackError> {
    let name = &record.name;
    let invalid = |message: String| PackError::new(PackErrorCode::SignatureInvalid, message);
    let bytes = stored(folder, MANIFEST_PATH, MAX_MANIFEST_BYTES)
        .ok_or_else(|| failure(record, "its pack.json cannot be read"))?;
    let recorded = record.files.iter().find(|file| file.path == MANIFEST_PATH);
    if !recorded.is_some_and(|file| Integrity::of(&bytes).is(file.sha256)) {
        // What is not the bytes that were verified at the install is not what was signed then.
        return Err(match record.proof {
            Proof::Unsigned => failure(record, "`pack.json` is not what was installed"),
            Proof::Signed { .. } | Proof::SelfSigned { .. } => {
                invalid(format!("pack.json of {name}@{} is not what was signed", record.version))
            }
        });
    }
    let manifest = Manifest::read(&bytes).map_err(ManifestError::into_pack_error)?;
    let signature = signature(folder, &manifest, record)?;
    let Some(signature) = signature else {
        return match record.proof {
            Proof::Unsigned if keys.is_empty() => Ok((manifest, Proof::Unsigned)),
            Proof::Unsigned => Err(invalid(format!("{name} has no signature, and one is needed here"))),
            Proof::Signed { .. } | Proof::SelfSigned { .. } => {
                Err(unverifiable(format!("the signature of {name}@{} is gone", record.version)))
            }
        };
    };
    if !keys.is_empty() {
        let key = signature::verify_manifest(&bytes, &signature, name, keys)?;
        return Ok((manifest, Proof::Signed { key_id: key.id.clone() }));
    }
    let key = key_beside(folder, &manifest, record)?;
    let fingerprint = key.fingerprint();
    let expected = match &record.proof {
        Proof::Signed { key_id } => Some(key_id),
        Proof::SelfSigned { fingerprint } => Some(fingerprint),
        Proof::Unsigned => None,
    };
    if let Some(expected) = expected.filter(|expected| **expected != fingerprint) {
        return Err(unverifiable(format!(
            "{name}@{} was signed by {expected}, and the key beside it is {fingerprint}; name the right key",
            record.version
        )));
    }
    if !key.signed(&bytes, &signature::raw(&signature)?) {
        return Err(invalid(format!(
            "pack.json of {name}@{} is not what {fingerprint} signed",
            record.version
        )));
    }
    let proof = match &record.proof {
        Proof::Unsigned => Proof::SelfSigned { fingerprint },
        known => known.clone(),
    };
    Ok((manifest, proof))
}

/// The signature, where there is one.
fn signature(
    folder: &Folder,
    manifest: &Manifest,
    record: &InstalledRecord,
) -> Result<Option<Vec<u8>>, PackError> {
    let signing = manifest.common.signing.as_ref();
    if signing.and_then(|signing| signing.method) == Some(SigningMethod::Sigstore) {
        return Err(unverifiable(format!(
            "{} is signed by sigstore, which is not verified here",
            record.name
        )));
    }
    let named = signing.and_then(|signing| signing.signature_ref.as_deref());
    let found = stored(folder, named.unwrap_or(SIGNATURE_PATH), MAX_MATERIAL_BYTES);
    match (found, named) {
        (None, Some(path)) => Err(unverifiable(format!(
            "the signature `{}` of {}@{} is not there",
            crate::name::shown(path),
            record.name,
            record.version
        ))),
        (found, _) => Ok(found),
    }
}

/// The key that the pack brings.
fn key_beside(
    folder: &Folder,
    manifest: &Manifest,
    record: &InstalledRecord,
) -> Result<PublicKey, PackError> {
    let signing = manifest.common.signing.as_ref();
    let path = signing.and_then(|signing| signing.public_key_ref.as_deref()).unwrap_or(PUBLIC_KEY_PATH);
    let pem = stored(folder, path, MAX_MATERIAL_BYTES).ok_or_else(|| {
        unverifiable(format!(
            "{}@{} does not bring the key that signed it; name the key",
            record.name, record.version
        ))
    })?;
    PublicKey::from_pem(&String::from_utf8_lossy(&pem))
}

/// A file as it is now, whatever was installed; nothing where it cannot be had or is too large.
fn stored(folder: &Folder, path: &str, most: usize) -> Option<Vec<u8>> {
    folder.read_path(&EntryPath::parse(path).ok()?, most).ok().flatten()
}

fn unverifiable(message: String) -> PackError {
    PackError::new(PackErrorCode::SignatureUnverifiable, message)
}
