//! Ed25519 signatures over the bytes of `pack.json` as stored.
//!
//! Nothing is reserialized before signing or verifying, so programs cannot disagree on the signed bytes. The signature
//! is 64 raw bytes at `keys/pack.json.sig` in the archive, or at `signing.signatureRef`; a key is PEM of a
//! SubjectPublicKeyInfo. A key is valid only for its namespaces.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::error::{PackError, PackErrorCode};
use crate::name::{NamespaceGlob, PackName};

/// The default signature path.
pub const SIGNATURE_PATH: &str = "keys/pack.json.sig";
/// The public key path of `interlock pack sign`.
pub const PUBLIC_KEY_PATH: &str = "keys/publisher.pub";
/// The maximum size of a PEM file, in bytes.
const MAX_PEM_BYTES: usize = 16 * 1024;

/// A publisher's public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Parses PEM of a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// `pack_signature_unverifiable`.
    pub fn from_pem(pem: &str) -> Result<Self, PackError> {
        if pem.len() > MAX_PEM_BYTES {
            return Err(unverifiable("the public key is larger than 16 KiB"));
        }
        let key = VerifyingKey::from_public_key_pem(pem.trim())
            .map_err(|_| unverifiable("the public key is not an Ed25519 key in PEM"))?;
        if key.is_weak() {
            return Err(unverifiable("the public key is weak, so its signatures prove nothing"));
        }
        Ok(Self(key))
    }

    /// Parses base64 of the raw 32 bytes, or PEM: lockfiles use both.
    ///
    /// # Errors
    /// `pack_signature_unverifiable`.
    pub fn from_text(text: &str) -> Result<Self, PackError> {
        if text.contains("-----BEGIN") {
            return Self::from_pem(text);
        }
        let bytes: Option<[u8; 32]> =
            STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok()).filter(|key| !key.is_weak());
        key.map(Self).ok_or_else(|| unverifiable("the public key is neither PEM nor base64 of 32 bytes"))
    }

    pub fn to_pem(self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("a key of 32 bytes always serializes")
    }

    pub fn to_base64(self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }

    /// A short name derived from the key.
    pub fn fingerprint(self) -> String {
        crate::integrity::Integrity::of(self.0.as_bytes()).to_hex()[..16].to_owned()
    }

    /// Whether the key signed these bytes.
    pub fn signed(self, bytes: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({})", self.fingerprint())
    }
}

/// A publisher's private key. `Debug` does not print it.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// A key from 32 bytes of system entropy.
    pub fn from_entropy(entropy: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(entropy))
    }

    /// Parses PEM of PKCS #8.
    ///
    /// # Errors
    /// `pack_signature_unverifiable`.
    pub fn from_pem(pem: &str) -> Result<Self, PackError> {
        if pem.len() > MAX_PEM_BYTES {
            return Err(unverifiable("the private key is larger than 16 KiB"));
        }
        let key = SigningKey::from_pkcs8_pem(pem.trim());
        key.map(Self).map_err(|_| unverifiable("the private key is not an Ed25519 key in PEM (PKCS #8)"))
    }

    /// PEM of PKCS #8. This is the secret itself.
    pub fn to_pem(&self) -> String {
        let pem = self.0.to_pkcs8_pem(LineEnding::LF).expect("a key of 32 bytes always serializes");
        (*pem).clone()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.0.sign(bytes).to_bytes()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PrivateKey(of {:?})", self.public())
    }
}

/// A trusted key and its namespaces.
#[derive(Clone, Debug)]
pub struct TrustedKey {
    pub id: String,
    pub key: PublicKey,
    /// The allowed names.
    pub permitted: Vec<NamespaceGlob>,
}

impl TrustedKey {
    pub fn permits(&self, name: &PackName) -> bool {
        self.permitted.iter().any(|glob| glob.matches(name))
    }
}

/// Verifies a manifest and returns the id of the signing key.
///
/// # Errors
/// `pack_signature_unverifiable` if the signature is not 64 bytes, `pack_signature_invalid` if no key matches,
/// `pack_namespace_unauthorized` if a matching key must not sign for this name.
pub fn verify_manifest<'k>(
    manifest: &[u8],
    signature: &[u8],
    name: &PackName,
    keys: &'k [TrustedKey],
) -> Result<&'k TrustedKey, PackError> {
    let signature = raw(signature)?;
    let mut unauthorized = None;
    for key in keys.iter().filter(|key| key.key.signed(manifest, &signature)) {
        if key.permits(name) {
            return Ok(key);
        }
        unauthorized = Some(key);
    }
    Err(match unauthorized {
        Some(key) => PackError::new(
            PackErrorCode::NamespaceUnauthorized,
            format!("the key {} signed {name}, but is not allowed to sign for that namespace", key.id),
        )
        .detail("keyId", key.id.as_str()),
        None => PackError::new(
            PackErrorCode::SignatureInvalid,
            format!("pack.json of {name} is not signed by any of the {} trusted keys", keys.len()),
        ),
    })
}

/// The 64 bytes of a signature.
///
/// # Errors
/// `pack_signature_unverifiable`.
pub fn raw(signature: &[u8]) -> Result<[u8; 64], PackError> {
    signature.try_into().map_err(|_| {
        unverifiable(&format!("a signature must have 64 bytes; this one has {}", signature.len()))
    })
}

/// The signature in a lockfile: over the archive, not over its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LockedSignature {
    /// Always `ed25519`.
    pub algorithm: String,
    /// The key: base64 of 32 bytes, or PEM.
    pub public_key: String,
    /// Base64 of the 64 bytes.
    pub value: String,
}

impl LockedSignature {
    pub fn sign(key: &PrivateKey, archive: &[u8]) -> Self {
        Self {
            algorithm: "ed25519".to_owned(),
            public_key: key.public().to_base64(),
            value: STANDARD.encode(key.sign(archive)),
        }
    }

    /// Verifies an archive.
    ///
    /// # Errors
    /// `pack_signature_unverifiable` if the key, algorithm or signature is unusable, `pack_signature_invalid`
    /// otherwise.
    pub fn verify(&self, archive: &[u8]) -> Result<(), PackError> {
        if self.algorithm != "ed25519" {
            return Err(unverifiable("the signature algorithm is not ed25519"));
        }
        let key = PublicKey::from_text(&self.public_key)?;
        let bytes = STANDARD
            .decode(self.value.trim())
            .map_err(|_| unverifiable("the signature in the lockfile is not valid base64"))?;
        if key.signed(archive, &raw(&bytes)?) {
            return Ok(());
        }
        Err(PackError::new(
            PackErrorCode::SignatureInvalid,
            "the archive does not match the signature in the lockfile",
        ))
    }
}

fn unverifiable(message: &str) -> PackError {
    PackError::new(PackErrorCode::SignatureUnverifiable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8, permitted: &str) -> (PrivateKey, TrustedKey) {
        let private = PrivateKey::from_entropy(&[seed; 32]);
        let trusted = TrustedKey {
            id: format!("key-{seed}"),
            key: private.public(),
            permitted: vec![NamespaceGlob::parse(permitted).unwrap()],
        };
        (private, trusted)
    }

    #[test]
    fn verifies_bytes_key_and_namespace() {
        let name = PackName::parse("vendor.acme.tools").unwrap();
        let (ours, trusted) = key(1, "vendor.acme.*");
        let (_, other) = key(2, "*");
        let manifest = br#"{ "name":  "vendor.acme.tools" }"#;
        let signature = ours.sign(manifest);
        let code = |manifest: &[u8], signature: &[u8], keys: &[TrustedKey]| {
            verify_manifest(manifest, signature, &name, keys)
                .map(|key| key.id.clone())
                .map_err(|error| error.code())
        };
        assert_eq!(code(manifest, &signature, &[other.clone(), trusted.clone()]), Ok("key-1".to_owned()));
        // The same JSON with different spacing was not signed.
        let respelt = br#"{"name":"vendor.acme.tools"}"#;
        assert_eq!(
            code(respelt, &signature, std::slice::from_ref(&trusted)),
            Err(PackErrorCode::SignatureInvalid)
        );
        assert_eq!(code(manifest, &signature, &[other]), Err(PackErrorCode::SignatureInvalid));
        assert_eq!(code(manifest, &signature, &[]), Err(PackErrorCode::SignatureInvalid));
        assert_eq!(
            code(manifest, &signature[..63], std::slice::from_ref(&trusted)),
            Err(PackErrorCode::SignatureUnverifiable)
        );
        let elsewhere = TrustedKey { permitted: vec![NamespaceGlob::parse("core.*").unwrap()], ..trusted };
        assert_eq!(code(manifest, &signature, &[elsewhere]), Err(PackErrorCode::NamespaceUnauthorized));
    }

    #[test]
    fn keys_round_trip() {
        let private = PrivateKey::from_entropy(&[7; 32]);
        let again = PrivateKey::from_pem(&private.to_pem()).unwrap();
        let public = PublicKey::from_pem(&private.public().to_pem()).unwrap();
        assert!(public.signed(b"x", &again.sign(b"x")));
        assert_eq!(PublicKey::from_text(&public.to_base64()).unwrap(), public);
        for text in ["", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----", "AAAA"] {
            assert_eq!(
                PublicKey::from_text(text).unwrap_err().code(),
                PackErrorCode::SignatureUnverifiable,
                "{text}"
            );
        }
        // The neutral element: every message would verify under some signature.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert!(PublicKey::from_text(&STANDARD.encode(neutral)).is_err());
        assert!(!format!("{private:?}").contains(&STANDARD.encode([7; 32])));
    }

    #[test]
    fn lockfile_signatures_cover_the_archive() {
        let private = PrivateKey::from_entropy(&[3; 32]);
        let locked = LockedSignature::sign(&private, b"archive");
        assert_eq!(locked.verify(b"archive"), Ok(()));
        assert_eq!(locked.verify(b"Archive").unwrap_err().code(), PackErrorCode::SignatureInvalid);
        let broken = LockedSignature { value: "***".to_owned(), ..locked };
        assert_eq!(broken.verify(b"archive").unwrap_err().code(), PackErrorCode::SignatureUnverifiable);
    }
}
