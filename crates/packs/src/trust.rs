//! Whom to trust.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::manifest::{Manifest, SigningMethod};
use crate::name::{NamespaceGlob, PackName};
use crate::signature::{self, PublicKey, SIGNATURE_PATH, TrustedKey};
use crate::version::Version;

/// How much a pack has to prove before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustMode {
    /// It is in a namespace that the operator listed, and signed by a key that may sign there.
    Allowlist,
    /// Its bytes are those that the lockfile names.
    Pinned,
    /// It is signed by a known key that may sign there.
    Verified,
    /// Nothing; but a signature that can be looked at has to hold.
    Open,
}

impl TrustMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Allowlist, Self::Pinned, Self::Verified, Self::Open];

    /// The mode as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Pinned => "pinned",
            Self::Verified => "verified",
            Self::Open => "open",
        }
    }
}

/// What an operator decided about trust. It holds for one registry and is never handed on to another.
#[derive(Clone, Debug)]
pub struct TrustPolicy {
    /// How much a pack has to prove.
    pub mode: TrustMode,
    /// The keys that are known.
    pub keys: Vec<TrustedKey>,
    /// The namespaces of [`TrustMode::Allowlist`].
    pub allowed: Vec<NamespaceGlob>,
    /// The bytes of [`TrustMode::Pinned`].
    pub pins: BTreeMap<(PackName, Version), Integrity>,
}

impl TrustPolicy {
    /// Nothing has to be proven.
    pub fn open() -> Self {
        Self { mode: TrustMode::Open, keys: Vec::new(), allowed: Vec::new(), pins: BTreeMap::new() }
    }

    /// Everything has to be signed by one of these keys.
    pub fn verified(keys: Vec<TrustedKey>) -> Self {
        Self { mode: TrustMode::Verified, keys, allowed: Vec::new(), pins: BTreeMap::new() }
    }
}

/// What a pack proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Proof {
    /// A known key signed it.
    #[serde(rename_all = "camelCase")]
    Signed {
        /// The key.
        key_id: String,
    },
    /// The key in the archive signed it; nobody vouches for that key.
    #[serde(rename_all = "camelCase")]
    SelfSigned {
        /// The fingerprint of that key.
        fingerprint: String,
    },
    /// It has no signature.
    Unsigned,
}

impl Proof {
    /// How much it is worth, to compare it with another.
    pub(crate) const fn strength(&self) -> u8 {
        match self {
            Self::Unsigned => 0,
            Self::SelfSigned { .. } => 1,
            Self::Signed { .. } => 2,
        }
    }
}

/// Judges a pack that was read: its bytes, its manifest and its signature.
///
/// # Errors
/// `pack_namespace_unauthorized`, `pack_integrity_mismatch`, `pack_signature_invalid` or `pack_signature_unverifiable`.
/// Whatever cannot be verified is refused where it has to be.
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
                let message = format!("{name} is in no namespace that is allowed here");
                return Err(PackError::new(PackErrorCode::NamespaceUnauthorized, message));
            }
            required(policy, name, manifest_bytes, signature)
        }
        TrustMode::Verified => required(policy, name, manifest_bytes, signature),
        TrustMode::Pinned => {
            let pin = policy.pins.get(&(name.clone(), version.clone()));
            if !pin.is_some_and(|pin| pin.is(integrity)) {
                let message = match pin {
                    Some(pin) => format!("{name}@{version} is {integrity}, and {pin} is pinned"),
                    None => format!("{name}@{version} is not pinned"),
                };
                return Err(PackError::new(PackErrorCode::IntegrityMismatch, message));
            }
            as_far_as_known(policy, manifest, manifest_bytes, signature, archive)
        }
        TrustMode::Open => as_far_as_known(policy, manifest, manifest_bytes, signature, archive),
    }
}

/// The signature in the archive, if there is one.
///
/// # Errors
/// `pack_signature_unverifiable` when the manifest names one that is not there, or one of a kind that is not verified here.
pub fn signature_of<'a>(manifest: &Manifest, archive: &'a Archive) -> Result<Option<&'a [u8]>, PackError> {
    let signing = manifest.common.signing.as_ref();
    if signing.and_then(|signing| signing.method) == Some(SigningMethod::Sigstore) {
        let message = format!("{} is signed by sigstore, which is not verified here", manifest.common.name);
        return Err(PackError::new(PackErrorCode::SignatureUnverifiable, message));
    }
    match signing.and_then(|signing| signing.signature_ref.as_deref()) {
        None => Ok(archive.file(SIGNATURE_PATH)),
        Some(path) => match archive.file(path) {
            Some(signature) => Ok(Some(signature)),
            None => {
                let shown = crate::name::shown(path);
                let message =
                    format!("the signature `{shown}` of {} is not in the archive", manifest.common.name);
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
        let message = format!("{name} has no signature, and one is needed here");
        return Err(PackError::new(PackErrorCode::SignatureInvalid, message));
    };
    let key = signature::verify_manifest(manifest_bytes, signature, name, &policy.keys)?;
    Ok(Proof::Signed { key_id: key.id.clone() })
}

/// A known key is asked first. A signature of none of them has to hold at least for the key beside it.
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
        format!("pack.json of {name} is not what its own key signed"),
    ))
}
