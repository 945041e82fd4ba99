//! Bodies for changes to published packs.

use packs::registry::{Deprecation, RotateRequest, Yank};

use super::body;
use super::fields::{Text, Words};
use super::runs::Because;

body! {
    /// Why a version should no longer be used, and what to use instead.
    #[schemars(rename = "Deprecation")]
    closed Deprecate {
        reason = "reason": Option<Words<1024>>,
        superseded_by = "supersededBy": Option<Words<1024>>,
    }
}

impl From<Deprecate> for Deprecation {
    fn from(body: Deprecate) -> Self {
        Self {
            reason: body.reason.map(|reason| reason.0).unwrap_or_default(),
            superseded_by: body.superseded_by.map(|by| by.0),
        }
    }
}

impl From<Because> for Yank {
    fn from(because: Because) -> Self {
        Self { reason: because.into_reason().unwrap_or_default() }
    }
}

body! {
    /// The key that follows, which the key before it signed for.
    #[schemars(rename = "KeyRotation")]
    closed RotateKey {
        kid = "kid": Text,
        public_key = "publicKey": Text,
        valid_from = "validFrom": Text,
        rotation_proof = "rotationProof": Text,
    }
}

impl From<RotateKey> for RotateRequest {
    fn from(key: RotateKey) -> Self {
        Self {
            kid: key.kid.0,
            public_key: key.public_key.0,
            valid_from: key.valid_from.0,
            rotation_proof: key.rotation_proof.0,
        }
    }
}

body! {
    /// Nothing.
    closed Nothing {}
}
