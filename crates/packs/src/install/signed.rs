//! Loads an installed pack only if its stored signature is still valid.
//!
//! The proof of the install is in the record beside the files: an attacker who can change one can change the other. The
//! signature is therefore verified again over the stored bytes, with a key that the caller trusts or with the key in
//! the pack, which must be the recorded one.

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

/// The maximum size of a signature or key file, in bytes.
const MAX_MATERIAL_BYTES: usize = 16 << 10;

impl InstalledPacks {
    /// The installed versions of one pack, lowest first. Other packs are not read.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    pub fn versions(&self, name: &PackName) -> Result<Vec<Version>, PackError> {
        let names = match self.root.open(name.as_str()).and_then(|versions| versions.names()) {
            Ok(names) => names,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(PackError::storage(&format!("cannot list {name}"), &cause)),
        };
        let mut versions: Vec<Version> = names.iter().filter_map(|text| version::parse(text)).collect();
        versions.sort();
        Ok(versions)
    }

    /// Loads a version of a pack, or the highest, after verifying its stored signature. The returned record has the
    /// current proof.
    ///
    /// With keys, one of them must have signed it. Without, a signature present at the install must still be valid, and
    /// an unsigned pack must be unchanged. A signature covers `pack.json`; other files are verified by their digests
    /// when read.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_signature_invalid`, `pack_signature_unverifiable`, `pack_namespace_unauthorized`,
    /// `pack_load_failure` if an unsigned pack was changed, `pack_storage_failure`.
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
        let folder = self
            .folder(name, &record.version)
            .map_err(|cause| PackError::storage(&format!("cannot read {name}@{}", record.version), &cause))?;
        let (manifest, proof) = verified(&folder, &record, keys)?;
        record.proof = proof;
        Ok(InstalledPack { manifest, record })
    }

    /// The node types of the installed packs, from the highest version of each. An unreadable pack has none.
    ///
    /// # Errors
    /// `pack_storage_failure` if the folder cannot be listed.
    pub fn declared_types(&self) -> Result<BTreeSet<String>, PackError> {
        let names =
            self.root.names().map_err(|cause| PackError::storage("cannot list the pack folder", &cause))?;
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

    /// The record of the highest version that has one. An unreadable record is an error; no lower version replaces it.
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
        .ok_or_else(|| failure(record, "cannot read its pack.json"))?;
    let recorded = record.files.iter().find(|file| file.path == MANIFEST_PATH);
    if !recorded.is_some_and(|file| Integrity::of(&bytes).is(file.sha256)) {
        // Bytes that differ from the installed ones are not the signed ones.
        return Err(match record.proof {
            Proof::Unsigned => failure(record, "`pack.json` was changed after the install"),
            Proof::Signed { .. } | Proof::SelfSigned { .. } => {
                invalid(format!("pack.json of {name}@{} does not match its signature", record.version))
            }
        });
    }
    let manifest = Manifest::read(&bytes).map_err(ManifestError::into_pack_error)?;
    let signature = signature(folder, &manifest, record)?;
    let Some(signature) = signature else {
        return match record.proof {
            Proof::Unsigned if keys.is_empty() => Ok((manifest, Proof::Unsigned)),
            Proof::Unsigned => Err(invalid(format!("{name} has no signature; a signature is required"))),
            Proof::Signed { .. } | Proof::SelfSigned { .. } => {
                Err(unverifiable(format!("the signature of {name}@{} is missing", record.version)))
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
            "{name}@{} was signed by {expected}, but the key in the pack is {fingerprint}; specify the \
                correct key",
            record.version
        )));
    }
    if !key.signed(&bytes, &signature::raw(&signature)?) {
        return Err(invalid(format!(
            "pack.json of {name}@{} does not match the signature by {fingerprint}",
            record.version
        )));
    }
    let proof = match &record.proof {
        Proof::Unsigned => Proof::SelfSigned { fingerprint },
        known => known.clone(),
    };
    Ok((manifest, proof))
}

/// The signature, if any.
fn signature(
    folder: &Folder,
    manifest: &Manifest,
    record: &InstalledRecord,
) -> Result<Option<Vec<u8>>, PackError> {
    let signing = manifest.common.signing.as_ref();
    if signing.and_then(|signing| signing.method) == Some(SigningMethod::Sigstore) {
        return Err(unverifiable(format!("{} is signed with sigstore, which is not supported", record.name)));
    }
    let named = signing.and_then(|signing| signing.signature_ref.as_deref());
    let found = stored(folder, named.unwrap_or(SIGNATURE_PATH), MAX_MATERIAL_BYTES);
    match (found, named) {
        (None, Some(path)) => Err(unverifiable(format!(
            "the signature file `{}` of {}@{} is missing",
            crate::name::shown(path),
            record.name,
            record.version
        ))),
        (found, _) => Ok(found),
    }
}

/// The key in the pack.
fn key_beside(
    folder: &Folder,
    manifest: &Manifest,
    record: &InstalledRecord,
) -> Result<PublicKey, PackError> {
    let signing = manifest.common.signing.as_ref();
    let path = signing.and_then(|signing| signing.public_key_ref.as_deref()).unwrap_or(PUBLIC_KEY_PATH);
    let pem = stored(folder, path, MAX_MATERIAL_BYTES).ok_or_else(|| {
        unverifiable(format!(
            "{}@{} does not contain its signing key; specify the key",
            record.name, record.version
        ))
    })?;
    PublicKey::from_pem(&String::from_utf8_lossy(&pem))
}

/// A file as stored now; `None` if it is unreadable or too large.
fn stored(folder: &Folder, path: &str, most: usize) -> Option<Vec<u8>> {
    folder.read_path(&EntryPath::parse(path).ok()?, most).ok().flatten()
}

fn unverifiable(message: String) -> PackError {
    PackError::new(PackErrorCode::SignatureUnverifiable, message)
}
