//! API keys: random, shown once, stored as hashes.

mod cache;
mod revocation;
pub mod rotation;

use std::sync::Arc;

use canon::digest::Digest;
use flow::id::{Principal, Tenant};
use guide::record::SessionId;
use guided_node::SessionKeys;
use guided_node::session_keys::PREFIX as SESSION_PREFIX;
use ports::runs::{Change, CommitError};
use serde::{Deserialize, Serialize};
use system::Entropy;
use tracing::Instrument as _;

use self::cache::KnownKeys;
use super::records::Records;
use super::{ApiCode, Caller, Refusal, Scope};

/// The prefix of live keys.
pub const LIVE_PREFIX: &str = "ilk_live_";
/// The prefix of test keys.
pub const TEST_PREFIX: &str = "ilk_test_";
/// The minimum length of a key from a setting, in characters.
pub const MIN_KEY_CHARACTERS: usize = 16;

/// The record of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// The id of the key, which is not secret.
    pub id: String,
    pub tenant: Tenant,
    pub scopes: Vec<Scope>,
    /// Whether this is a test key.
    #[serde(default)]
    pub test: bool,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// When it was or will be revoked, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<u64>,
    /// If set, the key is only valid for this guided session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

impl ApiKey {
    /// Whether the key is neither revoked nor expired at a time.
    pub fn is_good_at(&self, now: u64) -> bool {
        self.revoked_at.is_none_or(|at| at > now) && self.expires_at.is_none_or(|at| at > now)
    }
}

/// The caller of an operation on guided sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuidedCaller {
    pub caller: Caller,
    /// If set, the caller may only use this session and has no scopes.
    pub session: Option<SessionId>,
}

/// Why a key cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system provides no random numbers.
    #[error("the system's random number generator failed")]
    Entropy(#[from] std::io::Error),
    #[error("a key must have at least {MIN_KEY_CHARACTERS} characters")]
    TooShort,
}

/// Generates a new key.
///
/// # Errors
/// If the system provides no random numbers.
pub fn new_key(test: bool, entropy: &dyn Entropy) -> Result<String, KeyError> {
    let mut random = [0_u8; 24];
    entropy.fill(&mut random)?;
    let digits = canon::encoding::hex(&random);
    Ok(format!("{}{digits}", if test { TEST_PREFIX } else { LIVE_PREFIX }))
}

/// The hash that a key is stored under. A key has 192 random bits, so one round of a fast hash is enough.
pub fn hash(key: &str) -> Digest {
    Digest::of_bytes(key.as_bytes())
}

/// The API keys of the host.
pub struct Keys {
    records: Arc<Records>,
    session_keys: SessionKeys,
    known: Arc<KnownKeys>,
}

impl Keys {
    pub(crate) fn new(records: Arc<Records>, session_keys: SessionKeys) -> Self {
        Self { records, session_keys, known: Arc::default() }
    }

    /// Creates and verifies session keys.
    pub fn session_keys(&self) -> &SessionKeys {
        &self.session_keys
    }

    /// Commits changes of keys, then clears the cached keys. This runs in its own task: the cache must be cleared even if the caller
    /// stops waiting.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        let (records, known) = (Arc::clone(&self.records), Arc::clone(&self.known));
        let work = async move {
            let result = records.commit(changes).await;
            known.forget();
            result
        };
        // The task does not panic; it ends early only when the runtime shuts down.
        tokio::spawn(work.in_current_span()).await.unwrap_or(Err(CommitError::Closed))
    }

    /// Stores the record of a key, new or changed.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn put(&self, hash: Digest, key: &ApiKey) -> Result<(), Refusal> {
        let document = serde_json::to_vec(key)
            .map_err(|_| Refusal::new(ApiCode::InternalError, "the key cannot be stored"))?;
        let caller = Caller {
            tenant: key.tenant.clone(),
            principal: Principal::new("host"),
            scopes: Vec::new(),
            test: false,
        };
        let audit = self.records.audited(
            &caller,
            "key.put",
            &serde_json::json!({"keyId": key.id, "revoked": key.revoked_at.is_some()}),
        );
        Ok(self.commit(vec![Change::PutApiKey { hash, document: document.into() }, audit]).await?)
    }

    /// Revokes a key of the caller's tenant permanently. Revoking a revoked key changes nothing.
    ///
    /// # Errors
    /// If the tenant has no such key, the caller uses this key itself, or the store fails.
    pub async fn revoke(&self, caller: &Caller, id: &str) -> Result<(), Refusal> {
        if caller.principal == id {
            let message = "this is the key that you are using; sign in with another one to revoke it";
            return Err(Refusal::new(ApiCode::Conflict, message));
        }
        let is_meant = |key: &ApiKey| key.tenant == caller.tenant && key.id == id;
        let meant: Vec<_> = self.all().await?.into_iter().filter(|(_, key)| is_meant(key)).collect();
        if meant.is_empty() {
            return Err(Refusal::new(ApiCode::NotFound, "key not found"));
        }
        for (hash, mut key) in meant {
            key.revoked_at.get_or_insert(self.records.now().0);
            self.put(hash, &key).await?;
        }
        Ok(())
    }

    /// All keys, with their hashes.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all(&self) -> Result<Vec<(Digest, ApiKey)>, Refusal> {
        let keys = self.records.store().api_keys().await?;
        Ok(keys
            .into_iter()
            .filter_map(|(hash, key)| Some((hash, serde_json::from_slice(&key).ok()?)))
            .collect())
    }

    /// Whether a principal of a tenant may respond to approvals now. A principal without a key, such as the command line, had all
    /// rights when it acted, and keeps them.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn may_respond(&self, tenant: &Tenant, principal: &Principal) -> Result<bool, Refusal> {
        let now = self.records.now().0;
        let keys = self.all().await?;
        let mut of_principal =
            keys.iter().filter(|(_, key)| key.tenant == *tenant && *principal == key.id.as_str()).peekable();
        if of_principal.peek().is_none() {
            return Ok(true);
        }
        // Several keys may share an id: the key from the environment keeps its id when it is replaced.
        Ok(of_principal.any(|(_, key)| key.is_good_at(now) && key.scopes.contains(&Scope::ApprovalsRespond)))
    }

    /// Authenticates a caller by key. The key is looked up by its hash, so the timing reveals nothing about similar keys.
    ///
    /// # Errors
    /// If the key is unknown, revoked, expired, or only valid for one guided session.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, Refusal> {
        for_everything(self.authenticate_guided(key).await?)
    }

    /// Authenticates a caller by the hash of a key. Use this for callers that already proved possession of the key, to detect when
    /// it is revoked or expires.
    ///
    /// # Errors
    /// Like [`Keys::authenticate`].
    pub async fn authenticate_hash(&self, hash: Digest) -> Result<Caller, Refusal> {
        for_everything(self.kept(hash).await?)
    }

    /// Authenticates a caller for guided sessions. Keys for one session are accepted too.
    ///
    /// # Errors
    /// If the key is unknown, revoked or expired.
    pub async fn authenticate_guided(&self, key: &str) -> Result<GuidedCaller, Refusal> {
        if !key.starts_with(SESSION_PREFIX) {
            return self.kept(hash(key)).await;
        }
        let grant = self.session_keys.verify(key, self.records.now()).ok_or_else(unknown)?;
        let session = SessionId::parse(&grant.session_id).map_err(|_| unknown())?;
        let principal = Principal::new(format!("session:{session}"));
        let caller = Caller { tenant: grant.tenant, principal, scopes: Vec::new(), test: false };
        Ok(GuidedCaller { caller, session: Some(session) })
    }

    /// The caller whose key has this hash.
    async fn kept(&self, hash: Digest) -> Result<GuidedCaller, Refusal> {
        let found = self.known_key(hash).await?.ok_or_else(unknown)?;
        let now = self.records.now().0;
        if found.revoked_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyRevoked, "the key was revoked; use another"));
        }
        if found.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::new(ApiCode::KeyExpired, "the key has expired; use another"));
        }
        // A key for one session has no scopes, whatever its record says.
        let scopes = if found.session.is_some() { Vec::new() } else { found.scopes.clone() };
        let caller = Caller {
            tenant: found.tenant.clone(),
            principal: Principal::new(found.id.as_str()),
            scopes,
            test: found.test,
        };
        Ok(GuidedCaller { caller, session: found.session.clone() })
    }

    /// The record of a key, from the cache if it was read recently.
    async fn known_key(&self, hash: Digest) -> Result<Option<Arc<ApiKey>>, Refusal> {
        let known = &self.known;
        let now = self.records.now();
        if let Some(key) = known.get(&hash, now) {
            return Ok(Some(key));
        }
        let changes = known.changes();
        let Some(document) = self.records.store().api_key(hash).await? else { return Ok(None) };
        // An unreadable record grants nothing.
        let Ok(key) = serde_json::from_slice(&document) else { return Ok(None) };
        let key = Arc::new(key);
        known.keep(hash, &key, now, changes);
        Ok(Some(key))
    }
}

/// The caller, if the key is not limited to one session.
fn for_everything(GuidedCaller { caller, session }: GuidedCaller) -> Result<Caller, Refusal> {
    match session {
        None => Ok(caller),
        Some(_) => {
            let message = "this key is only for one guided session, over MCP at /mcp; use another key";
            Err(Refusal::new(ApiCode::Forbidden, message))
        }
    }
}

fn unknown() -> Refusal {
    let message = "send a key of this host as `Authorization: Bearer <key>`; create one with `interlock key \
         new`";
    Refusal::new(ApiCode::Unauthenticated, message)
}
