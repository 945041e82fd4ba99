//! Key rotation: replaces an API key, with a grace period in which both keys are valid.

use canon::digest::Digest;
use ports::runs::Change;
use serde_json::json;

use super::{ApiKey, Keys, hash, new_key};
use crate::records::random_failed;
use crate::{ApiCode, Caller, Refusal};

/// The maximum grace period: thirty days. For longer periods, create a second key instead.
pub const MAX_GRACE_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl Keys {
    /// Creates a key with the tenant and the scopes of another key. The old key is revoked after `grace_ms`. The new key is only shown in
    /// the result.
    ///
    /// # Errors
    /// If the old key is unknown, revoked or expired, or the store fails.
    pub async fn rotate(&self, by: &Caller, old: Digest, grace_ms: u64) -> Result<(String, ApiKey), Refusal> {
        let internal = |message: &str| Refusal::new(ApiCode::InternalError, message);
        if grace_ms > MAX_GRACE_MS {
            let message = "the old key can stay valid for at most 30 more days; create a second key instead";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("maxGraceMs", MAX_GRACE_MS));
        }
        let unknown = || {
            Refusal::new(
                ApiCode::NotFound,
                "key not found; `interlock key list` lists all \
                                                          keys",
            )
        };
        let found = self.records.store().api_key(old).await?.ok_or_else(unknown)?;
        let found: ApiKey = serde_json::from_slice(&found).map_err(|_| unknown())?;
        // Same error as for an unknown key, so that callers learn nothing about keys of other tenants.
        if found.tenant != by.tenant {
            return Err(unknown());
        }
        let now = self.records.now().0;
        if found.revoked_at.is_some_and(|at| at <= now) || found.expires_at.is_some_and(|at| at <= now) {
            let message = "the key is no longer valid, so it cannot be rotated; create a new one";
            return Err(Refusal::new(ApiCode::Conflict, message));
        }
        let text = new_key(found.test, self.records.entropy()).map_err(random_failed)?;
        let key = ApiKey {
            id: self.records.new_id("key_")?,
            tenant: found.tenant.clone(),
            scopes: found.scopes.clone(),
            test: found.test,
            created_at: now,
            // The new key has the same lifetime as the old one.
            expires_at: found.expires_at.map(|at| now.saturating_add(at.saturating_sub(found.created_at))),
            revoked_at: None,
            session: found.session.clone(),
        };
        // A second rotation never extends the grace period of the first.
        let until = found.revoked_at.unwrap_or(u64::MAX).min(now.saturating_add(grace_ms));
        let old_key = ApiKey { revoked_at: Some(until), ..found };
        let document = |key: &ApiKey| {
            serde_json::to_vec(key).map_err(|_| {
                internal(
                    "the key cannot be \
            stored",
                )
            })
        };
        let changes = vec![
            Change::PutApiKey { hash: hash(&text), document: document(&key)?.into() },
            Change::PutApiKey { hash: old, document: document(&old_key)?.into() },
            self.records.audited(
                by,
                "key.rotate",
                &json!({"keyId": old_key.id, "newKeyId": key.id, "oldKeyUntil": until}),
            ),
        ];
        self.commit(changes).await?;
        Ok((text, key))
    }
}
