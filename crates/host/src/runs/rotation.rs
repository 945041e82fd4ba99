//! A new key in the place of an old one, with a while in which both are good.

use canon::digest::Digest;
use ports::runs::Change;
use serde_json::json;

use super::keys::{ApiKey, hash, new_key};
use super::{ApiCode, Caller, Refusal, Runs, no_entropy};

/// The longest time in which both keys are good: thirty days. Longer is two keys, not a rotation.
pub const MAX_GRACE_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl Runs {
    /// Makes a key with the tenant and the rights of another, which is good for `grace_ms` more and then revoked. The new key is
    /// shown here and nowhere else.
    ///
    /// # Errors
    /// When the old key is unknown, was taken back, or has expired, or the store fails.
    pub async fn rotate_key(
        &self,
        by: &Caller,
        old: Digest,
        grace_ms: u64,
    ) -> Result<(String, ApiKey), Refusal> {
        let internal = |message: &str| Refusal::new(ApiCode::InternalError, message);
        if grace_ms > MAX_GRACE_MS {
            let message = "the old key can be good for thirty days more at most; make a second key instead";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("maxGraceMs", MAX_GRACE_MS));
        }
        let unknown = || Refusal::new(ApiCode::NotFound, "there is no such key; see `interlock key list`");
        let found = self.store().api_key(old).await?.ok_or_else(unknown)?;
        let found: ApiKey = serde_json::from_slice(&found).map_err(|_| unknown())?;
        // Whoever may manage keys of one tenant learns nothing about those of another.
        if found.tenant != by.tenant {
            return Err(unknown());
        }
        let now = self.now().0;
        if found.revoked_at.is_some_and(|at| at <= now) || found.expires_at.is_some_and(|at| at <= now) {
            let message = "the key is good no more, so there is nothing to rotate; make a new one";
            return Err(Refusal::new(ApiCode::Conflict, message));
        }
        let text = new_key(found.test, &*self.inner.options.entropy).map_err(no_entropy)?;
        let key = ApiKey {
            id: self.new_id("key_")?,
            tenant: found.tenant.clone(),
            scopes: found.scopes.clone(),
            test: found.test,
            created_at: now,
            // A key that lives for a while is followed by one that lives as long.
            expires_at: found.expires_at.map(|at| now.saturating_add(at.saturating_sub(found.created_at))),
            revoked_at: None,
            session: found.session.clone(),
        };
        // A second rotation never gives the old key more time than the first did.
        let until = found.revoked_at.unwrap_or(u64::MAX).min(now.saturating_add(grace_ms));
        let old_key = ApiKey { revoked_at: Some(until), ..found };
        let document = |key: &ApiKey| serde_json::to_vec(key).map_err(|_| internal("the key cannot be kept"));
        let changes = vec![
            Change::PutApiKey { hash: hash(&text), document: document(&key)?.into() },
            Change::PutApiKey { hash: old, document: document(&old_key)?.into() },
            self.audited(
                by,
                "key.rotate",
                &json!({"keyId": old_key.id, "newKeyId": key.id, "oldKeyUntil": until}),
            ),
        ];
        self.commit(changes).await?;
        Ok((text, key))
    }
}
