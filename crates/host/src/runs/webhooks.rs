//! Subscriptions: somebody elsewhere is told what happens in the runs of a tenant.
//!
//! What is to be told is written into a queue in the commit of the events themselves, so that nothing is told that did not
//! happen, and nothing that happened is forgotten. [`Runs::keep_delivering`] empties the queue; no run waits for it.

pub mod breaker;
mod deliver;
mod queue;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Principal, SubscriptionId, Tenant};
use ports::runs::Change;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::breaker::Breaker;
use super::{ApiCode, Caller, Refusal, Respond, Runs};

/// The most subscriptions of a tenant: each event is matched with all of them.
pub const MAX_WEBHOOKS: usize = 100;

/// A subscription that a caller asks for.
pub struct NewWebhook {
    pub url: String,
    /// The kinds of events that are delivered.
    pub events: Vec<String>,
    /// Only events of runs with one of these tags; of all runs where there are none.
    pub tags: Vec<String>,
    /// What deliveries are signed with. Without one the host makes it.
    pub secret: Option<String>,
}

/// A new subscription, with its secret.
pub struct RegisteredWebhook {
    pub id: SubscriptionId,
    pub url: String,
    pub events: Vec<String>,
    pub secret: String,
    pub fingerprint: String,
    pub created_at: Timestamp,
}

// Without the secret, which is never logged.
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
    /// Whether deliveries failed so often that it was given up.
    pub failed: bool,
}

/// A subscription, as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    url: String,
    events: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    /// What deliveries are signed with. It is in the database, which only the owner of the data directory can read.
    secret: String,
    created_by: Principal,
    created_at: u64,
    /// Whether it was given up.
    #[serde(default)]
    failed: bool,
}

/// The subscriptions of a tenant, with their ids.
pub(super) type Subscriptions = Arc<Vec<(SubscriptionId, Webhook)>>;

/// What is known of subscriptions in memory.
#[derive(Default)]
pub(super) struct Webhooks {
    known: Mutex<Known>,
    breakers: Mutex<HashMap<SubscriptionId, Breaker>>,
}

/// The subscriptions that were read before.
#[derive(Default)]
struct Known {
    by_tenant: HashMap<Tenant, Subscriptions>,
    /// Changes with every change of a subscription: what was read before a change is not cached after it.
    version: u64,
}

impl Webhooks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the cached subscriptions of a tenant, so that they are read again.
    fn forget(&self, tenant: &Tenant) {
        let mut known = self.known();
        known.version += 1;
        known.by_tenant.remove(tenant);
    }
}

impl Runs {
    /// Subscribes. The secret is in the result, and never shown again.
    ///
    /// # Errors
    /// When the address may not be called, or the tenant has [`MAX_WEBHOOKS`] already.
    pub async fn register_webhook<R: Respond<RegisteredWebhook>>(
        &self,
        caller: &Caller,
        new: NewWebhook,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.admit()?;
        if let Some(response) = respond.replayed(self).await? {
            return Ok(response);
        }
        self.inner.options.outbound.check(&new.url).map_err(|error| {
            Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "url")
        })?;
        if self.store().webhooks(&caller.tenant).await?.len() >= MAX_WEBHOOKS {
            let message = format!("there are {MAX_WEBHOOKS} subscriptions already; delete one first");
            return Err(Refusal::new(ApiCode::Conflict, message).detail("maxWebhooks", MAX_WEBHOOKS));
        }
        let secret = match new.secret {
            Some(secret) => secret,
            None => self.new_id("")? + &self.new_id("")?,
        };
        let webhook = Webhook {
            url: new.url,
            events: new.events,
            tags: new.tags,
            secret,
            created_by: caller.principal.clone(),
            created_at: self.now().0,
            failed: false,
        };
        let webhook_id = SubscriptionId::new(self.new_id("whk_")?);
        let changes = vec![
            put(&caller.tenant, &webhook_id, &webhook)?,
            self.audited(caller, "webhook.register", &json!({"webhookId": webhook_id})),
        ];
        let registered = RegisteredWebhook {
            id: webhook_id,
            fingerprint: fingerprint(&webhook),
            created_at: Timestamp(webhook.created_at),
            url: webhook.url,
            events: webhook.events,
            secret: webhook.secret,
        };
        let response = self.commit_response(changes, &respond, registered).await;
        self.inner.webhooks.forget(&caller.tenant);
        response
    }

    /// Ends a subscription, with what was still to be delivered.
    ///
    /// # Errors
    /// When there is none.
    pub async fn delete_webhook<R: Respond<()>>(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.admit()?;
        if let Some(response) = respond.replayed(self).await? {
            return Ok(response);
        }
        let delete =
            Change::DeleteWebhook { tenant: caller.tenant.clone(), webhook_id: webhook_id.to_owned() };
        let audit = self.audited(caller, "webhook.delete", &json!({"webhookId": webhook_id}));
        let response = self.commit_response(vec![delete, audit], &respond, ()).await;
        self.inner.webhooks.forget(&caller.tenant);
        response
    }

    /// The subscriptions of a tenant, without their secrets.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn webhooks(&self, caller: &Caller) -> Result<Vec<WebhookView>, Refusal> {
        let found = self.subscriptions(&caller.tenant).await?;
        let view = |(id, webhook): &(SubscriptionId, Webhook)| WebhookView {
            id: id.clone(),
            url: webhook.url.clone(),
            events: webhook.events.clone(),
            tags: webhook.tags.clone(),
            fingerprint: fingerprint(webhook),
            failed: webhook.failed,
        };
        Ok(found.iter().map(view).collect())
    }

    /// The subscriptions of a tenant, from the cache if possible.
    async fn subscriptions(&self, tenant: &Tenant) -> Result<Subscriptions, Refusal> {
        let version = {
            let known = self.inner.webhooks.known();
            if let Some(found) = known.by_tenant.get(tenant) {
                return Ok(Arc::clone(found));
            }
            known.version
        };
        let stored = self.store().webhooks(tenant).await?.into_iter();
        let found: Vec<_> =
            stored.filter_map(|(id, document)| Some((id, serde_json::from_slice(&document).ok()?))).collect();
        let found = Arc::new(found);
        let mut known = self.inner.webhooks.known();
        if known.version == version {
            known.by_tenant.insert(tenant.to_owned(), Arc::clone(&found));
        }
        Ok(found)
    }
}

/// The change that keeps a subscription.
fn put(tenant: &Tenant, webhook_id: &SubscriptionId, webhook: &Webhook) -> Result<Change, Refusal> {
    let document = serde_json::to_vec(webhook)
        .map_err(|_| Refusal::new(ApiCode::InternalError, "the subscription cannot be kept"))?;
    Ok(Change::PutWebhook {
        tenant: tenant.to_owned(),
        webhook_id: webhook_id.to_owned(),
        document: document.into(),
    })
}

/// The beginning of the digest of a secret: enough to tell secrets apart, and nothing to guess them from.
fn fingerprint(webhook: &Webhook) -> String {
    let mut digest = Digest::of_bytes(webhook.secret.as_bytes()).to_hex();
    digest.truncate(8);
    digest
}
