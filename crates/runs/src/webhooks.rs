//! Webhooks: deliver the events of a tenant's runs to subscribers.
//!
//! Deliveries are queued in the commit of the events themselves. So no event is delivered that did not happen, and no event is
//! lost. [`Webhooks::keep_delivering`] processes the queue; runs do not wait for it.

pub mod breaker;
pub mod dead_letters;
mod deliver;
mod queue;
pub mod rotate;
pub mod standard;
mod versioned;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Principal, SubscriptionId, Tenant};
use openwop::Major;
use ports::runs::{Change, CommitError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;

use self::breaker::Breaker;
pub use self::breaker::MAX_ATTEMPTS;
pub use self::standard::SignatureAlgorithm;
use super::interrupt_tokens::InterruptTokens;
use super::keys::Keys;
use super::records::Records;
use super::states::States;
use super::{ApiCode, Caller, Refusal, Respond};

/// The maximum number of subscriptions of a tenant. Each event is matched against all of them.
pub const MAX_WEBHOOKS: usize = 100;

/// A subscription that a caller requests.
pub struct NewWebhook {
    pub url: String,
    /// The event types to deliver.
    pub events: Vec<String>,
    /// Deliver only events of runs with one of these tags. If empty, of all runs.
    pub tags: Vec<String>,
    /// Signs the deliveries. The host generates a secret if this is `None`.
    pub secret: Option<String>,
    /// The signature algorithms, if the caller specified them. They always include `v1`.
    pub algorithms: Option<Vec<SignatureAlgorithm>>,
    /// The version of the protocol in which events are delivered. The event types above have the names of version 1 in either case.
    pub major: Major,
}

/// A new subscription, with its secret.
pub struct RegisteredWebhook {
    pub id: SubscriptionId,
    pub url: String,
    pub events: Vec<String>,
    /// `None` for a Standard Webhooks secret: the caller has it, and the protocol never returns it.
    pub secret: Option<String>,
    pub fingerprint: String,
    pub created_at: Timestamp,
    /// The signature algorithms, if the caller specified them.
    pub algorithms: Option<Vec<SignatureAlgorithm>>,
}

// Without the secret, which must not be logged.
impl fmt::Debug for RegisteredWebhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegisteredWebhook").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A subscription, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookView {
    pub id: SubscriptionId,
    pub url: String,
    pub events: Vec<String>,
    pub tags: Vec<String>,
    pub fingerprint: String,
    /// Whether the subscription was disabled after too many failed deliveries.
    pub failed: bool,
    pub algorithms: &'static [SignatureAlgorithm],
}

/// A subscription, as it is stored.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    url: String,
    events: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    /// Signs the deliveries. It is stored in the database, which only the owner of the data directory can read.
    secret: String,
    created_by: Principal,
    created_at: u64,
    /// Whether the subscription was disabled after too many failures.
    #[serde(default)]
    failed: bool,
    /// Whether deliveries also have a Standard Webhooks signature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    standard: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousSecret>,
    /// Whether events are delivered in version 2 of the protocol.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    v2: bool,
}

/// The secret before the last rotation.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreviousSecret {
    secret: String,
    /// When this secret stops signing, in milliseconds since the Unix epoch.
    expires_at: u64,
}

impl Webhook {
    /// The secrets that sign at this moment, newest first. The `v1` signature uses the last one until it expires.
    fn secrets_at(&self, now: Timestamp) -> Vec<&str> {
        let previous = self.previous.as_ref().filter(|previous| now.0 < previous.expires_at);
        std::iter::once(&self.secret)
            .chain(previous.map(|previous| &previous.secret))
            .map(String::as_str)
            .collect()
    }
}

/// The subscriptions of a tenant, with their ids.
pub(crate) type Subscriptions = Arc<Vec<(SubscriptionId, Webhook)>>;

/// The cached subscriptions.
#[derive(Default)]
struct Known {
    by_tenant: HashMap<Tenant, Subscriptions>,
    /// Changes with every change of a subscription, so that what was read before a change is not cached after it.
    version: u64,
}

/// The webhook subscriptions of all tenants, and the queue of deliveries to them.
pub struct Webhooks {
    records: Arc<Records>,
    states: Arc<States>,
    keys: Arc<Keys>,
    tokens: Arc<InterruptTokens>,
    outbound: outbound::Client,
    public_url: Arc<str>,
    known: Mutex<Known>,
    breakers: Mutex<HashMap<SubscriptionId, Breaker>>,
    /// Notified when a delivery is queued.
    queued: Notify,
}

impl Webhooks {
    pub(crate) fn new(
        records: Arc<Records>,
        states: Arc<States>,
        keys: Arc<Keys>,
        tokens: Arc<InterruptTokens>,
        outbound: outbound::Client,
        public_url: Arc<str>,
    ) -> Self {
        Self {
            records,
            states,
            keys,
            tokens,
            outbound,
            public_url,
            known: Mutex::default(),
            breakers: Mutex::default(),
            queued: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the cached subscriptions of a tenant.
    fn forget(&self, tenant: &Tenant) {
        let mut known = self.known();
        known.version += 1;
        known.by_tenant.remove(tenant);
    }

    /// Creates a subscription. The result has the secret, which is not shown again.
    ///
    /// # Errors
    /// If the address is not allowed, or the tenant already has [`MAX_WEBHOOKS`] subscriptions.
    pub async fn register<R: Respond<RegisteredWebhook>>(
        &self,
        caller: &Caller,
        new: NewWebhook,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        self.outbound.check(&new.url).map_err(|error| {
            Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "url")
        })?;
        if self.records.store().webhooks(&caller.tenant).await?.len() >= MAX_WEBHOOKS {
            let message = format!(
                "there are already {MAX_WEBHOOKS} subscriptions, which is the limit; \
                                   delete one first"
            );
            return Err(Refusal::new(ApiCode::Conflict, message).detail("maxWebhooks", MAX_WEBHOOKS));
        }
        let standard =
            new.algorithms.as_ref().is_some_and(|all| all.contains(&SignatureAlgorithm::StandardWebhooks1));
        if standard {
            standard::check_secret(new.secret.as_deref())?;
        }
        let secret = match new.secret {
            Some(secret) => secret,
            None => self.records.new_id("")? + &self.records.new_id("")?,
        };
        if standard {
            self.verify_endpoint(&new.url, &secret).await?;
        }
        let webhook = Webhook {
            url: new.url,
            events: new.events,
            tags: new.tags,
            secret,
            created_by: caller.principal.clone(),
            created_at: self.records.now().0,
            failed: false,
            standard,
            previous: None,
            v2: new.major == Major::V2,
        };
        let webhook_id = SubscriptionId::new(self.records.new_id("whk_")?);
        let changes = vec![
            put(&caller.tenant, &webhook_id, &webhook)?,
            self.records.audited(caller, "webhook.register", &json!({"webhookId": webhook_id})),
        ];
        let registered = RegisteredWebhook {
            id: webhook_id,
            fingerprint: fingerprint(&webhook),
            created_at: Timestamp(webhook.created_at),
            url: webhook.url,
            events: webhook.events,
            secret: Some(webhook.secret).filter(|_| !standard),
            algorithms: new.algorithms,
        };
        let response = self.records.commit_response(changes, &respond, registered).await;
        self.forget(&caller.tenant);
        response
    }

    /// Deletes a subscription and its queued deliveries.
    ///
    /// # Errors
    /// If subscription not found.
    pub async fn delete<R: Respond<()>>(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        let delete =
            Change::DeleteWebhook { tenant: caller.tenant.clone(), webhook_id: webhook_id.to_owned() };
        let audit = self.records.audited(caller, "webhook.delete", &json!({"webhookId": webhook_id}));
        let response = self.records.commit_response(vec![delete, audit], &respond, ()).await;
        self.forget(&caller.tenant);
        response
    }

    /// The subscriptions of a tenant, without their secrets.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<WebhookView>, Refusal> {
        let found = self.subscriptions(&caller.tenant).await?;
        let view = |(id, webhook): &(SubscriptionId, Webhook)| WebhookView {
            id: id.clone(),
            url: webhook.url.clone(),
            events: webhook.events.clone(),
            tags: webhook.tags.clone(),
            fingerprint: fingerprint(webhook),
            failed: webhook.failed,
            algorithms: SignatureAlgorithm::of(webhook.standard),
        };
        Ok(found.iter().map(view).collect())
    }

    /// A subscription of the caller's tenant.
    async fn own_webhook(&self, caller: &Caller, webhook_id: &SubscriptionId) -> Result<Webhook, Refusal> {
        let found = self.records.store().webhooks(&caller.tenant).await?;
        let found = found.into_iter().find(|(id, _)| id == webhook_id);
        let webhook = found.and_then(|(_, document)| serde_json::from_slice(&document).ok());
        webhook.ok_or_else(|| Refusal::from(CommitError::NoSuchWebhook))
    }

    /// The subscriptions of a tenant, from the cache if possible.
    async fn subscriptions(&self, tenant: &Tenant) -> Result<Subscriptions, Refusal> {
        let version = {
            let known = self.known();
            if let Some(found) = known.by_tenant.get(tenant) {
                return Ok(Arc::clone(found));
            }
            known.version
        };
        let stored = self.records.store().webhooks(tenant).await?.into_iter();
        let found: Vec<_> =
            stored.filter_map(|(id, document)| Some((id, serde_json::from_slice(&document).ok()?))).collect();
        let found = Arc::new(found);
        let mut known = self.known();
        if known.version == version {
            known.by_tenant.insert(tenant.to_owned(), Arc::clone(&found));
        }
        Ok(found)
    }
}

/// The change that stores a subscription.
fn put(tenant: &Tenant, webhook_id: &SubscriptionId, webhook: &Webhook) -> Result<Change, Refusal> {
    let document = serde_json::to_vec(webhook)
        .map_err(|_| Refusal::new(ApiCode::InternalError, "the subscription cannot be stored"))?;
    Ok(Change::PutWebhook {
        tenant: tenant.to_owned(),
        webhook_id: webhook_id.to_owned(),
        document: document.into(),
    })
}

/// A prefix of the digest of a secret. It distinguishes secrets and does not reveal them.
fn fingerprint(webhook: &Webhook) -> String {
    let mut digest = Digest::of_bytes(webhook.secret.as_bytes()).to_hex();
    digest.truncate(8);
    digest
}
