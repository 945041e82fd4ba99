//! Keys of callers: random, shown once, kept as their hash.

mod cache;
mod revocation;

use std::sync::Arc;

use canon::digest::Digest;
use flow::id::{Principal, Tenant};
use guide::record::SessionId;
use ports::runs::Change;
use serde::{Deserialize, Serialize};

pub(super) use self::cache::KnownKeys;
use super::session_keys::PREFIX as SESSION_PREFIX;
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
    pub tenant: Tenant,
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
    /// The one guided session that it opens, and then nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

impl ApiKey {
    /// Whether it is neither revoked nor expired at a moment.
    pub fn is_good_at(&self, now: u64) -> bool {
        self.revoked_at.is_none_or(|at| at > now) && self.expires_at.is_none_or(|at| at > now)
    }
}

/// Who asks about guided sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidedCaller {
    /// Who they are.
    pub caller: Caller,
    /// The one session that they may work with, where it is only one. Then they have no scopes.
    pub session: Option<SessionId>,
}

/// Why a key cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no entropy.
    #[error("the system has no entropy to give")]
    Entropy(#[from] std::io::Error),
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
    let digits = canon::encoding::hex(&random);
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
        let caller = Caller {
            tenant: key.tenant.clone(),
            principal: Principal::new("host"),
            scopes: Vec::new(),
            test: false,
        };
        let audit = self.audited(
            &caller,
            "key.put",
            &serde_json::json!({"keyId": key.id, "revoked": key.revoked_at.is_some()}),
        );
        Ok(self.commit(vec![Change::PutApiKey { hash, document: document.into() }, audit]).await?)
    }

    /// Revokes a key of the caller's tenant, for good. One that was revoked before stays so.
    ///
    /// # Errors
    /// When the tenant has no such key, when it is the one that asks, and when the store fails.
    pub async fn revoke_key(&self, caller: &Caller, id: &str) -> Result<(), Refusal> {
        if caller.principal == id {
            let message = "this is the key that you are using; sign in with another one to revoke it";
            return Err(Refusal::new(ApiCode::Conflict, message));
        }
        let is_meant = |key: &ApiKey| key.tenant == caller.tenant && key.id == id;
        let meant: Vec<_> = self.keys().await?.into_iter().filter(|(_, key)| is_meant(key)).collect();
        if meant.is_empty() {
            return Err(Refusal::new(ApiCode::NotFound, "there is no such key"));
        }
        for (hash, mut key) in meant {
            key.revoked_at.get_or_insert(self.now().0);
            self.put_key(hash, &key).await?;
        }
        Ok(())
    }

    /// Every key, with what it is kept under.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn keys(&self) -> Result<Vec<(Digest, ApiKey)>, Refusal> {
        let keys = self.store().api_keys().await?;
        Ok(keys
            .into_iter()
            .filter_map(|(hash, key)| Some((hash, serde_json::from_slice(&key).ok()?)))
            .collect())
    }

    /// Whether a principal of a tenant may respond to approvals at this moment. One that has no key here, such as the command line,
    /// had every right when it acted and loses none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn may_respond(&self, tenant: &Tenant, principal: &Principal) -> Result<bool, Refusal> {
        let now = self.now().0;
        let keys = self.keys().await?;
        let mut of_principal =
            keys.iter().filter(|(_, key)| key.tenant == *tenant && *principal == key.id.as_str()).peekable();
        if of_principal.peek().is_none() {
            return Ok(true);
        }
        // Several keys may share an id: the one of the environment keeps it when it is exchanged.
        Ok(of_principal.any(|(_, key)| key.is_good_at(now) && key.scopes.contains(&Scope::ApprovalsRespond)))
    }

    /// Who asks. The key is looked up by its hash, so how long that takes says nothing about keys that are close to it.
    ///
    /// # Errors
    /// When the key is unknown, good no more, or good for one guided session alone.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, Refusal> {
        for_everything(self.authenticate_guided(key).await?)
    }

    /// Who asks with the key that is kept under this hash: for whoever proved before that they have the key, and has to be
    /// turned away as soon as it is good no more.
    ///
    /// # Errors
    /// As for [`Runs::authenticate`].
    pub async fn authenticate_hash(&self, hash: Digest) -> Result<Caller, Refusal> {
        for_everything(self.kept(hash).await?)
    }

    /// Who asks about guided sessions: also those whose key is for one of them.
    ///
    /// # Errors
    /// When the key is unknown, or good no more.
    pub async fn authenticate_guided(&self, key: &str) -> Result<GuidedCaller, Refusal> {
        if !key.starts_with(SESSION_PREFIX) {
            return self.kept(hash(key)).await;
        }
        let grant = self.session_keys().verify(key, self.now()).ok_or_else(unknown)?;
        let session = SessionId::parse(&grant.session_id).map_err(|_| unknown())?;
        let principal = Principal::new(format!("session:{session}"));
        let caller = Caller { tenant: grant.tenant, principal, scopes: Vec::new(), test: false };
        Ok(GuidedCaller { caller, session: Some(session) })
    }

    /// Who has the key that is kept under a hash.
    async fn kept(&self, hash: Digest) -> Result<GuidedCaller, Refusal> {
        let found = self.known_key(hash).await?.ok_or_else(unknown)?;
        let now = self.now().0;
        if found.revoked_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyRevoked, "the key was revoked; use another"));
        }
        if found.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyExpired, "the key has expired; use another"));
        }
        // A key for one session has no scopes, whatever was recorded with it.
        let scopes = if found.session.is_some() { Vec::new() } else { found.scopes.clone() };
        let caller = Caller {
            tenant: found.tenant.clone(),
            principal: Principal::new(found.id.as_str()),
            scopes,
            test: found.test,
        };
        Ok(GuidedCaller { caller, session: found.session.clone() })
    }

    /// What is known of a key, from memory where it was read a moment ago.
    async fn known_key(&self, hash: Digest) -> Result<Option<Arc<ApiKey>>, Refusal> {
        let known = &self.inner.known_keys;
        let now = self.now();
        if let Some(key) = known.get(&hash, now) {
            return Ok(Some(key));
        }
        let changes = known.changes();
        let Some(document) = self.store().api_key(hash).await? else { return Ok(None) };
        // A record that cannot be read opens nothing.
        let Ok(key) = serde_json::from_slice(&document) else { return Ok(None) };
        let key = Arc::new(key);
        known.keep(hash, &key, now, changes);
        Ok(Some(key))
    }
}

/// The caller, where the key is not for one session alone.
fn for_everything(GuidedCaller { caller, session }: GuidedCaller) -> Result<Caller, Refusal> {
    match session {
        None => Ok(caller),
        Some(_) => {
            let message =
                "the key opens one guided session, over MCP at /mcp, and nothing else; use another key here";
            Err(Refusal::new(ApiCode::Forbidden, message))
        }
    }
}

fn unknown() -> Refusal {
    let message =
        "send a key of this host as `Authorization: Bearer <key>`; make one with `interlock key new-api-key`";
    Refusal::new(ApiCode::Unauthenticated, message)
}
