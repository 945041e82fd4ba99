//! The keys of a pack and their rotation.

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::change::owned;
use super::{Publisher, Registry, RegistryError, RegistryErrorCode, RegistryStore, known, shown};
use crate::name::PackName;
use crate::signature::{self, PublicKey};

/// The maximum number of keys per pack.
pub const MAX_KEYS: usize = 1000;

/// A signing key of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChainKey {
    pub kid: String,
    /// Always `ed25519`.
    pub algorithm: String,
    /// The key as PEM.
    pub public_key: String,
    pub valid_from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<String>,
    /// The previous key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_from: Option<String>,
    /// The next key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_to: Option<String>,
    /// The signature by the previous key, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_proof: Option<String>,
}

impl ChainKey {
    pub(super) fn first(kid: String, key: PublicKey, now: Timestamp) -> Self {
        Self {
            kid,
            algorithm: "ed25519".to_owned(),
            public_key: key.to_pem(),
            valid_from: shown(now),
            valid_until: None,
            rotated_from: None,
            rotated_to: None,
            rotation_proof: None,
        }
    }

    pub(super) fn is(&self, key: PublicKey) -> bool {
        PublicKey::from_pem(&self.public_key).is_ok_and(|own| own == key)
    }
}

/// A key rotation request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateRequest {
    pub kid: String,
    /// The new key, as PEM or base64.
    pub public_key: String,
    pub valid_from: String,
    /// The signature by the old key over `kid`, `publicKey` and `validFrom`, concatenated as written.
    pub rotation_proof: String,
}

impl<S: RegistryStore> Registry<S> {
    /// The keys of a pack, oldest first.
    ///
    /// # Errors
    /// `pack_not_found`.
    pub fn keychain(&self, name: &PackName) -> Result<Vec<ChainKey>, RegistryError> {
        let packs = self.read();
        Ok(known(&packs, name)?.keychain.clone())
    }

    /// The key with that id as PEM, if a pack was signed with it.
    pub fn public_key(&self, kid: &str) -> Option<String> {
        let packs = self.read();
        let mut keys = packs.values().flat_map(|record| &record.keychain);
        keys.find(|key| key.kid == kid).map(|key| key.public_key.clone())
    }

    /// Rotates to a new key, which the valid key must have signed.
    ///
    /// # Errors
    /// `pack_not_found`, `forbidden`, `pack_signature_invalid`, or store errors.
    pub fn rotate(
        &self,
        name: &PackName,
        request: &RotateRequest,
        publisher: Publisher<'_>,
    ) -> Result<ChainKey, RegistryError> {
        use base64::Engine as _;
        let invalid = |message: &str| RegistryError::new(RegistryErrorCode::RotationInvalid, message);
        let mut packs = self.write();
        let mut record = owned(&packs, name, publisher)?.clone();
        let known_before = record.keychain.iter().any(|key| key.kid == request.kid);
        if known_before
            || record.keychain.len() >= MAX_KEYS
            || request.kid.is_empty()
            || request.kid.len() > 256
        {
            return Err(invalid("the new key must have an unused id of at most 256 bytes"));
        }
        if !crate::time::is_date_time(&request.valid_from) {
            return Err(invalid("`validFrom` must be an RFC 3339 date and time"));
        }
        let Some(old) = record.keychain.last_mut() else {
            return Err(invalid("the pack has no key yet; publish a signed version first"));
        };
        let new = PublicKey::from_text(&request.public_key).map_err(|error| invalid(error.message()))?;
        let proof = base64::engine::general_purpose::STANDARD
            .decode(&request.rotation_proof)
            .map_err(|_| invalid("the proof is not valid base64"))?;
        let proof = signature::raw(&proof).map_err(|error| invalid(error.message()))?;
        let old_key = PublicKey::from_pem(&old.public_key).map_err(|error| invalid(error.message()))?;
        let message = format!("{}{}{}", request.kid, request.public_key, request.valid_from);
        if !old_key.signed(message.as_bytes(), &proof) {
            return Err(invalid("the old key did not sign the new one"));
        }
        old.valid_until = Some(request.valid_from.clone());
        old.rotated_to = Some(request.kid.clone());
        let added = ChainKey {
            kid: request.kid.clone(),
            algorithm: "ed25519".to_owned(),
            public_key: new.to_pem(),
            valid_from: request.valid_from.clone(),
            valid_until: None,
            rotated_from: Some(old.kid.clone()),
            rotated_to: None,
            rotation_proof: Some(request.rotation_proof.clone()),
        };
        record.keychain.push(added.clone());
        self.store.save(&record)?;
        packs.insert(name.clone(), record);
        Ok(added)
    }
}
