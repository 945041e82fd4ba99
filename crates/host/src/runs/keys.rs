//! Keys of callers: random, shown once, kept as their hash.

use canon::digest::Digest;
use flow::store::Change;
use serde::{Deserialize, Serialize};

use super::{ApiCode, Caller, Refusal, Runs, Scope};
use crate::system::Entropy;

/// The beginning of every key.
pub const LIVE_PREFIX: &str = "ilk_live_";
/// The beginning of keys for tests.
pub const TEST_PREFIX: &str = "ilk_test_";
/// The shortest key that is taken from a setting.
pub const MIN_KEY_CHARACTERS: usize = 16;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its name, which is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// Whether it is for tests.
    #[serde(default)]
    pub test: bool,
    /// When it was made, in milliseconds.
    pub created_at: u64,
    /// Until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// From when on it is not good any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<u64>,
}

/// Why a key cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no entropy.
    #[error("the system has no entropy to give")]
    Entropy(#[from] std::io::Error),
    /// It is too short.
    #[error("a key has at least {MIN_KEY_CHARACTERS} characters")]
    TooShort,
}

/// A new key, as text.
///
/// # Errors
/// When the system has no entropy to give.
pub fn new_key(test: bool, entropy: &dyn Entropy) -> Result<String, KeyError> {
    let mut random = [0_u8; 24];
    entropy.fill(&mut random)?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}{digits}", if test { TEST_PREFIX } else { LIVE_PREFIX }))
}

/// What a key is kept under. It has 192 bits that nobody can guess, so one round of a fast hash is enough.
pub fn hash(key: &str) -> Digest {
    Digest::of_bytes(key.as_bytes())
}

impl Runs {
    /// Records a key, or what became of it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn put_key(&self, hash: Digest, key: &ApiKey) -> Result<(), Refusal> {
        let document = serde_json::to_vec(key)
            .map_err(|_| Refusal::new(ApiCode::InternalError, "the key cannot be kept"))?;
        let caller =
            Caller { tenant: key.tenant.clone(), principal: "host".into(), scopes: Vec::new(), test: false };
        let audit = self.audited(
            &caller,
            "key.put",
            &serde_json::json!({"keyId": key.id, "revoked": key.revoked_at.is_some()}),
        );
        Ok(self.commit(vec![Change::PutApiKey { hash, document: document.into() }, audit]).await?)
    }

    /// Every key, with what it is kept under.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn keys(&self) -> Result<Vec<(Digest, ApiKey)>, Refusal> {
        let keys = self.store().api_keys()?;
        Ok(keys
            .into_iter()
            .filter_map(|(hash, key)| Some((hash, serde_json::from_slice(&key).ok()?)))
            .collect())
    }

    /// Who asks. The key is looked up by its hash, so how long that takes says nothing about keys that are close to it.
    ///
    /// # Errors
    /// When the key is unknown, or good no more.
    pub fn authenticate(&self, key: &str) -> Result<Caller, Refusal> {
        let unknown = || {
            let message = "send a key of this host as `Authorization: Bearer <key>`; make one with `interlock key new-api-key`";
            Refusal::new(ApiCode::Unauthenticated, message)
        };
        let found = self.store().api_key(hash(key))?.ok_or_else(unknown)?;
        let found: ApiKey = serde_json::from_slice(&found).map_err(|_| unknown())?;
        let now = self.now().0;
        if found.revoked_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyRevoked, "the key was taken back; use another"));
        }
        if found.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyExpired, "the key has expired; use another"));
        }
        Ok(Caller { tenant: found.tenant, principal: found.id, scopes: found.scopes, test: found.test })
    }
}
