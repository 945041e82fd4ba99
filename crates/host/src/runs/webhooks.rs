//! Subscriptions: somebody elsewhere is told what happens in the runs of a tenant.
//!
//! What is to be told is written into a queue in the commit of the events themselves, so that nothing is told that did not
//! happen, and nothing that happened is forgotten. [`Runs::keep_delivering`] empties the queue; no run waits for it.

pub mod breaker;
mod deliver;
mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Principal, SubscriptionId, Tenant};
use flow::store::{Change, CommitError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::breaker::Breaker;
use super::{ApiCode, Caller, Keyed, Refusal, Reply, Runs};

/// The most subscriptions of a tenant: each event is matched with all of them.
pub const MAX_WEBHOOKS: usize = 100;
/// The most kinds of events, and the most tags, of a subscription.
const MAX_NAMES: usize = 200;
const MAX_NAME_BYTES: usize = 256;
/// How long a secret of the caller's own may be, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

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
type Subscriptions = Arc<Vec<(SubscriptionId, Webhook)>>;

/// What is known of subscriptions in memory.
#[derive(Default)]
pub(super) struct Webhooks {
    by_tenant: Mutex<HashMap<Tenant, Subscriptions>>,
    breakers: Mutex<HashMap<SubscriptionId, Breaker>>,
}

impl Webhooks {
    /// Forgets what is known of a tenant's subscriptions: they are read again.
    fn forget(&self, tenant: &Tenant) {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }
}

impl Runs {
    /// Subscribes. The secret is in the answer, and never shown again.
    ///
    /// # Errors
    /// When the body is not as it has to be, or the address may not be called.
    pub async fn register_webhook(
        &self,
        caller: &Caller,
        body: &Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        let mut webhook = read(caller, body, self.now().0)?;
        self.inner.options.outbound.check(&webhook.url).map_err(|error| {
            Refusal::new(ApiCode::WebhookUrlRejected, error.to_string()).detail("field", "url")
        })?;
        if self.store().webhooks(&caller.tenant)?.len() >= MAX_WEBHOOKS {
            let message = format!("there are {MAX_WEBHOOKS} subscriptions already; delete one first");
            return Err(Refusal::new(ApiCode::Conflict, message).detail("maxWebhooks", MAX_WEBHOOKS));
        }
        if webhook.secret.is_empty() {
            webhook.secret = self.new_id("")? + &self.new_id("")?;
        }
        let webhook_id = SubscriptionId::new(self.new_id("whk_")?);
        let fingerprint = Digest::of_bytes(webhook.secret.as_bytes()).to_hex();
        let reply = Reply::new(
            201,
            &json!({
                "webhookId": webhook_id,
                "subscriptionId": webhook_id,
                "secret": webhook.secret,
                "secretFingerprint": &fingerprint[..8],
                "signatureAlgorithm": "v1",
                // Not in the text of the protocol, but clients of it read them.
                "url": webhook.url,
                "eventTypes": webhook.events,
                "createdAt": Timestamp(webhook.created_at).to_rfc3339(),
            }),
        );
        let mut changes = vec![
            put(&caller.tenant, &webhook_id, &webhook)?,
            self.audited(caller, "webhook.register", &json!({"webhookId": webhook_id})),
        ];
        changes.extend(self.record(keyed, &reply));
        let committed = self.commit(changes).await;
        self.inner.webhooks.forget(&caller.tenant);
        match committed {
            Ok(()) => Ok(reply),
            Err(CommitError::KeyTaken) => match self.replay(keyed)? {
                Some(reply) => Ok(reply),
                None => Err(CommitError::KeyTaken.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a subscription, with what was still to be delivered. `tenant` is the one that the caller names, where they do.
    ///
    /// # Errors
    /// When there is none, or the caller names another tenant.
    pub async fn delete_webhook(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        tenant: Option<&Tenant>,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        if tenant.is_some_and(|tenant| *tenant != caller.tenant) {
            return Err(other_tenant());
        }
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        let delete =
            Change::DeleteWebhook { tenant: caller.tenant.clone(), webhook_id: webhook_id.to_owned() };
        let audit = self.audited(caller, "webhook.delete", &json!({"webhookId": webhook_id}));
        let reply = Reply::empty(204);
        let mut changes = vec![delete, audit];
        changes.extend(self.record(keyed, &reply));
        let deleted = self.commit(changes).await;
        self.inner.webhooks.forget(&caller.tenant);
        deleted?;
        Ok(reply)
    }

    /// The subscriptions of a tenant, without their secrets.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn webhooks(&self, caller: &Caller) -> Result<Value, Refusal> {
        let found = self.subscriptions(&caller.tenant)?;
        let told: Vec<_> = found
            .iter()
            .map(|(id, webhook)| {
                let fingerprint = Digest::of_bytes(webhook.secret.as_bytes()).to_hex();
                json!({
                    "webhookId": id,
                    "url": webhook.url,
                    "events": webhook.events,
                    "tags": webhook.tags,
                    "secretFingerprint": &fingerprint[..8],
                    "status": if webhook.failed { "failed" } else { "active" },
                })
            })
            .collect();
        Ok(json!({"webhooks": told}))
    }

    /// The subscriptions of a tenant, from memory where they are there.
    fn subscriptions(&self, tenant: &Tenant) -> Result<Subscriptions, Refusal> {
        let mut known = self.inner.webhooks.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(tenant) {
            return Ok(Arc::clone(found));
        }
        // Read under the lock: otherwise what was read before a change could be remembered after it.
        let stored = self.store().webhooks(tenant)?.into_iter();
        let found: Vec<_> =
            stored.filter_map(|(id, document)| Some((id, serde_json::from_slice(&document).ok()?))).collect();
        let found = Arc::new(found);
        known.insert(tenant.to_owned(), Arc::clone(&found));
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

fn other_tenant() -> Refusal {
    Refusal::new(ApiCode::Forbidden, "the key is of another tenant; leave `tenantId` out")
}

fn read(caller: &Caller, body: &Value, now: u64) -> Result<Webhook, Refusal> {
    let wrong = |field: &str, message: &str| {
        Refusal::new(ApiCode::ValidationError, format!("`{field}` {message}")).detail("field", field)
    };
    let text = |field: &str| match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(wrong(field, "has to be a text")),
    };
    let names = |field: &str| match body.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(names)) if names.len() <= MAX_NAMES => names
            .iter()
            .map(|name| {
                let name = name.as_str().filter(|name| (1..=MAX_NAME_BYTES).contains(&name.len()));
                name.map(str::to_owned).ok_or_else(|| wrong(field, "has texts of 1 to 256 bytes"))
            })
            .collect(),
        Some(_) => Err(wrong(field, &format!("is a list of at most {MAX_NAMES} texts"))),
    };
    if !body.is_object() {
        return Err(wrong("body", "has to be an object with `url` and `events`"));
    }
    let url = text("url")?.ok_or_else(|| wrong("url", "is required: where to post to"))?;
    let events = names("events")?;
    if events.is_empty() {
        return Err(wrong("events", "is required: a list of kinds of events, such as run.completed"));
    }
    if text("tenantId")?.is_some_and(|tenant| caller.tenant != tenant.as_str()) {
        return Err(other_tenant());
    }
    let secret = text("secret")?.unwrap_or_default();
    if !secret.is_empty() && !SECRET_BYTES.contains(&secret.len()) {
        return Err(wrong("secret", "has 16 to 256 bytes; leave it out to have one made"));
    }
    Ok(Webhook {
        url,
        events,
        tags: names("tags")?,
        secret,
        created_by: caller.principal.clone(),
        created_at: now,
        failed: false,
    })
}
