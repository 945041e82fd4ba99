//! Trust policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::manifest::{Manifest, SigningMethod};
use crate::name::{NamespaceGlob, PackName};
use crate::signature::{self, PublicKey, SIGNATURE_PATH, TrustedKey};
use crate::version::Version;

/// How much a pack must prove before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustMode {
    /// Its namespace is on the operator's allow list, and an allowed key signed it.
    Allowlist,
    /// Its digest is in the lockfile.
    Pinned,
    /// A known key signed it that is allowed for its namespace.
    Verified,
    /// Nothing; but a verifiable signature must be valid.
    Open,
}

impl TrustMode {
    pub const ALL: [Self; 4] = [Self::Allowlist, Self::Pinned, Self::Verified, Self::Open];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Pinned => "pinned",
            Self::Verified => "verified",
            Self::Open => "open",
        }
    }
}

/// An operator's trust policy for one registry.
#[derive(Clone, Debug)]
pub struct TrustPolicy {
    pub mode: TrustMode,
    pub keys: Vec<TrustedKey>,
    /// The namespaces of [`TrustMode::Allowlist`].
    pub allowed: Vec<NamespaceGlob>,
    /// The digests of [`TrustMode::Pinned`].
    pub pins: BTreeMap<(PackName, Version), Integrity>,
}

impl TrustPolicy {
    /// No proof is required.
    pub fn open() -> Self {
        Self { mode: TrustMode::Open, keys: Vec::new(), allowed: Vec::new(), pins: BTreeMap::new() }
    }

    /// A signature by one of these keys is required.
    pub fn verified(keys: Vec<TrustedKey>) -> Self {
        Self { mode: TrustMode::Verified, keys, allowed: Vec::new(), pins: BTreeMap::new() }
    }
}

/// How a pack was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Proof {
    /// A known key signed it.
    #[serde(rename_all = "camelCase")]
    Signed {
        key_id: String,
    },
    /// The key in the archive signed it; that key is not trusted.
    #[serde(rename_all = "camelCase")]
    SelfSigned {
        fingerprint: String,
    },
    Unsigned,
}

impl Proof {
    /// The rank of the proof.
    pub(crate) const fn strength(&self) -> u8 {
        match self {
            Self::Unsigned => 0,
            Self::SelfSigned { .. } => 1,
            Self::Signed { .. } => 2,
        }
    }
}

/// Applies the policy to a pack: its bytes, manifest and signature.
///
/// # Errors
/// `pack_namespace_unauthorized`, `pack_integrity_mismatch`, `pack_signature_invalid` or `pack_signature_unverifiable`.
/// A required proof that cannot be verified is an error.
pub fn judge(
    policy: &TrustPolicy,
    manifest: &Manifest,
    manifest_bytes: &[u8],
    integrity: Integrity,
    archive: &Archive,
) -> Result<Proof, PackError> {
    let (name, version) = (&manifest.common.name, &manifest.common.version);
    let signature = signature_of(manifest, archive)?;
    match policy.mode {
        TrustMode::Allowlist => {
            if !policy.allowed.iter().any(|glob| glob.matches(name)) {
                let message = format!("the namespace of {name} is not allowed here");
                return Err(PackError::new(PackErrorCode::NamespaceUnauthorized, message));
            }
            required(policy, name, manifest_bytes, signature)
        }
        TrustMode::Verified => required(policy, name, manifest_bytes, signature),
        TrustMode::Pinned => {
            let pin = policy.pins.get(&(name.clone(), version.clone()));
            if !pin.is_some_and(|pin| pin.is(integrity)) {
                let message = match pin {
                    Some(pin) => format!("{name}@{version} has digest {integrity}; the pin is {pin}"),
                    None => format!("{name}@{version} is not pinned"),
                };
                return Err(PackError::new(PackErrorCode::IntegrityMismatch, message));
            }
            as_far_as_known(policy, manifest, manifest_bytes, signature, archive)
        }
        TrustMode::Open => as_far_as_known(policy, manifest, manifest_bytes, signature, archive),
    }
}

/// The signature in the archive, if any.
///
/// # Errors
/// `pack_signature_unverifiable` if the manifest names a missing one, or an unsupported method.
pub fn signature_of<'a>(manifest: &Manifest, archive: &'a Archive) -> Result<Option<&'a [u8]>, PackError> {
    let signing = manifest.common.signing.as_ref();
    if signing.and_then(|signing| signing.method) == Some(SigningMethod::Sigstore) {
        let message = format!("{} is signed with sigstore, which is not supported", manifest.common.name);
        return Err(PackError::new(PackErrorCode::SignatureUnverifiable, message));
    }
    match signing.and_then(|signing| signing.signature_ref.as_deref()) {
        None => Ok(archive.file(SIGNATURE_PATH)),
        Some(path) => match archive.file(path) {
            Some(signature) => Ok(Some(signature)),
            None => {
                let shown = crate::name::shown(path);
                let message =
                    format!("the signature file `{shown}` of {} is not in the archive", manifest.common.name);
                Err(PackError::new(PackErrorCode::SignatureUnverifiable, message))
            }
        },
    }
}

fn required(
    policy: &TrustPolicy,
    name: &PackName,
    manifest_bytes: &[u8],
    signature: Option<&[u8]>,
) -> Result<Proof, PackError> {
    let Some(signature) = signature else {
        let message = format!("{name} has no signature; a signature is required");
        return Err(PackError::new(PackErrorCode::SignatureInvalid, message));
    };
    let key = signature::verify_manifest(manifest_bytes, signature, name, &policy.keys)?;
    Ok(Proof::Signed { key_id: key.id.clone() })
}

/// Known keys are tried first. A signature by another key must at least match the key in the archive.
fn as_far_as_known(
    policy: &TrustPolicy,
    manifest: &Manifest,
    manifest_bytes: &[u8],
    signature: Option<&[u8]>,
    archive: &Archive,
) -> Result<Proof, PackError> {
    let Some(signature) = signature else { return Ok(Proof::Unsigned) };
    let name = &manifest.common.name;
    let refused = match signature::verify_manifest(manifest_bytes, signature, name, &policy.keys) {
        Ok(key) => return Ok(Proof::Signed { key_id: key.id.clone() }),
        Err(error) if error.code() == PackErrorCode::SignatureInvalid => error,
        Err(error) => return Err(error),
    };
    let path = manifest.common.signing.as_ref().and_then(|signing| signing.public_key_ref.as_deref());
    let Some(pem) = archive.file(path.unwrap_or(signature::PUBLIC_KEY_PATH)) else { return Err(refused) };
    let key = PublicKey::from_pem(&String::from_utf8_lossy(pem))?;
    if key.signed(manifest_bytes, &signature::raw(signature)?) {
        return Ok(Proof::SelfSigned { fingerprint: key.fingerprint() });
    }
    Err(PackError::new(
        PackErrorCode::SignatureInvalid,
        format!("pack.json of {name} does not match the signature by its own key"),
    ))
}
