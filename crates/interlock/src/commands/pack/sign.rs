//! `interlock pack sign` and `interlock pack verify`.

use std::path::{Path, PathBuf};

use packs::archive::{Archive, Limits};
use packs::integrity::Integrity;
use packs::manifest::{MANIFEST_PATH, Manifest, ManifestError};
use packs::path::EntryPath;
use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, SIGNATURE_PATH};
use packs::trust::{self, Proof, TrustPolicy};
use packs::{PackError, publish};
use serde_json::json;
use system::{Entropy as _, SystemEntropy};

use super::{source, trust_policy};
use crate::arguments::{PackSign, PackVerify};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, GOOD, Layout, Overwrite, WARNING};

pub(super) fn sign(arguments: &PackSign) -> Result<ExitStatus, Failure> {
    if let Some(path) = &arguments.new_key {
        return new_key(path, arguments);
    }
    let (Some(dir), Some(key)) = (&arguments.dir, &arguments.key) else { return Ok(ExitStatus::Negative) };
    let key = source::private_key(key)?;
    let mut files = source::files(dir)?;
    source::add_signature(&mut files, &key, dir)?;
    let keys = dir.join("keys");
    std::fs::create_dir_all(&keys).map_err(|cause| Failure::unwritable(Some(&keys), cause))?;
    for path in [SIGNATURE_PATH, PUBLIC_KEY_PATH] {
        let place = EntryPath::parse(path).expect("constant paths are valid");
        if let Some((content, _)) = files.get(&place) {
            output::write_file(&dir.join(path), content, Overwrite::Replace)?;
        }
    }
    let fingerprint = key.public().fingerprint();
    if arguments.answering.json {
        output::json(&json!({"signature": SIGNATURE_PATH, "fingerprint": fingerprint}), Layout::Compact)?;
    } else {
        output::text(&format!(
            "{GOOD}Signed{GOOD:#} pack.json with {fingerprint}; the signature is in {SIGNATURE_PATH}."
        ))?;
    }
    Ok(ExitStatus::Success)
}

fn new_key(path: &Path, arguments: &PackSign) -> Result<ExitStatus, Failure> {
    let mut entropy = [0; 32];
    SystemEntropy
        .fill(&mut entropy)
        .map_err(|cause| Failure::Unreadable { name: "the system's entropy".to_owned(), cause })?;
    let key = PrivateKey::from_entropy(&entropy);
    let advice = "Choose another name. An existing key is never overwritten.";
    output::write_file(path, key.to_pem().as_bytes(), Overwrite::Refuse { advice })?;
    let mut public = path.as_os_str().to_owned();
    public.push(".pub");
    let public = PathBuf::from(public);
    output::write_file(&public, key.public().to_pem().as_bytes(), Overwrite::Refuse { advice })?;
    let fingerprint = key.public().fingerprint();
    if arguments.answering.json {
        let document = json!({"key": path, "publicKey": public, "fingerprint": fingerprint});
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&format!(
            "Created the key {fingerprint} in {}; keep it secret. Give others the public key in {}.",
            path.display(),
            public.display()
        ))?;
    }
    Ok(ExitStatus::Success)
}

pub(super) fn verify(arguments: &PackVerify) -> Result<ExitStatus, Failure> {
    let keys = trust_policy::keys(&arguments.keys)?;
    let bytes = source::archive(&arguments.source)?;
    let archive = Archive::read(&bytes, &Limits::DEFAULT).map_err(|error| {
        // The codes of publishing describe it best.
        let request = publish::PublishRequest {
            name: "core.unknown.pack",
            version: "0.0.0",
            content_type: None,
            sha256: None,
            signing_method: None,
            body: &bytes,
        };
        match publish::check(&request, &publish::PublishRules::private()) {
            Err(refused) => Failure::from(refused.envelope()),
            Ok(_) => Failure::unreadable(Some(&arguments.source), std::io::Error::other(error.to_string())),
        }
    })?;
    let manifest_bytes = archive.file(MANIFEST_PATH).unwrap_or_default();
    let manifest = Manifest::read(manifest_bytes)
        .map_err(ManifestError::into_pack_error)
        .map_err(|error: PackError| Failure::from(error))?;
    let policy = if keys.is_empty() { TrustPolicy::open() } else { TrustPolicy::verified(keys) };
    let integrity = Integrity::of(&bytes);
    let proof = trust::judge(&policy, &manifest, manifest_bytes, integrity, &archive)?;
    if arguments.answering.json {
        let covers = (proof != Proof::Unsigned).then_some(MANIFEST_PATH);
        let document =
            json!({"pack": manifest.id(), "integrity": integrity, "proof": proof, "covers": covers});
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&message(&manifest.id(), &proof, integrity))?;
    }
    Ok(ExitStatus::success_if(proof != Proof::Unsigned))
}

/// What was verified and what it covers. Without this, readers would assume that a signature covers
/// all files.
fn message(id: &str, proof: &Proof, integrity: Integrity) -> String {
    let covered = format!(
        "The signature covers only {MANIFEST_PATH}. The digest of the archive covers the other files, \
         {integrity}: compare it with a digest that you trust."
    );
    match proof {
        Proof::Signed { key_id } => {
            format!("{MANIFEST_PATH} of {id} is {GOOD}signed{GOOD:#} by {key_id}.\n{covered}")
        }
        Proof::SelfSigned { fingerprint } => format!(
            "{MANIFEST_PATH} of {id} is {WARNING}self-signed{WARNING:#} with the key in the pack, \
             {fingerprint}. That key is not trusted; pass a trusted key with --key.\n{covered}"
        ),
        Proof::Unsigned => format!("{id} is {WARNING}not signed{WARNING:#}."),
    }
}
