//! Processes the delivery queue: signs, posts, retries and buries deliveries.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use canon::time::Timestamp;
use flow::id::{RunId, SubscriptionId, Tenant};
use flow::run::Genesis;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use openwop::id;
use outbound::{CallError, Reply};
use ports::runs::{Change, Delivery};
use serde_json::{Value, json};
use sha2::Sha256;
use system::causes;

use super::breaker::{Breaker, next_attempt};
use super::queue::CALLBACK;
use super::versioned::UNPROJECTABLE;
use super::{Webhook, Webhooks, put, standard};
use crate::Refusal;
use crate::interrupt_tokens::Recipient;
use crate::states::Loaded;

/// How many deliveries are read from the queue at once.
const BATCH: usize = 256;
/// How long one subscriber may delay the rest of a batch. Its remaining deliveries are in the next batch.
const TURN: Duration = Duration::from_secs(5);
/// The longest sleep. It is bounded because the clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// The maximum number of nested forks that are followed to find the creator that named an address.
const MAX_FORKS: usize = 16;
/// The pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The `User-Agent` of deliveries.
pub(super) const AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));
/// The limits of a delivery request. Only the status of the response counts, so its body is discarded.
const LIMITS: outbound::Limits =
    outbound::Limits { head: Duration::from_secs(5), whole: Some(Duration::from_secs(5)), body: 0 };

/// A request that is ready to be sent.
struct DeliveryRequest {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Webhooks {
    /// Delivers due deliveries until the host is drained.
    pub async fn keep_delivering(self: &Arc<Self>) {
        while !self.records.is_stopping() {
            // Registered before the store is read, so that a delivery that is queued meanwhile is not missed.
            let queued = self.queued.notified();
            tokio::pin!(queued);
            queued.as_mut().enable();
            let now = self.records.now();
            let wait = match self.records.store().due_deliveries(now, BATCH).await {
                Ok(due) if due.is_empty() => match self.records.store().next_delivery().await {
                    Ok(next) => {
                        next.map_or(LONGEST_SLEEP, |due| Duration::from_millis(due.since(now).max(1)))
                    }
                    Err(error) => {
                        tracing::warn!(cause = causes(&error), "deliveries could not be read; retrying");
                        AFTER_FAILURE
                    }
                },
                Ok(due) => {
                    if self.deliver(due).await {
                        continue;
                    }
                    AFTER_FAILURE
                }
                Err(error) => {
                    tracing::warn!(cause = causes(&error), "deliveries could not be read; retrying");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait.min(LONGEST_SLEEP)) => {}
                () = &mut queued => {}
                () = self.records.stopped() => {}
            }
        }
    }

    /// Delivers a batch: sequentially for each subscriber, concurrently across subscribers. Returns whether the store recorded the results.
    async fn deliver(self: &Arc<Self>, due: Vec<Delivery>) -> bool {
        let mut groups: BTreeMap<String, Vec<Delivery>> = BTreeMap::new();
        for delivery in due {
            // Each callback has its own address, so callbacks are not grouped.
            let key = match delivery.webhook_id.as_str() {
                CALLBACK => delivery.delivery_id.as_str(),
                subscription => subscription,
            };
            groups.entry(key.to_owned()).or_default().push(delivery);
        }
        let tasks: Vec<_> = groups
            .into_values()
            .map(|group| {
                let webhooks = Arc::clone(self);
                tokio::spawn(async move {
                    let began = Instant::now();
                    for delivery in group {
                        if began.elapsed() > TURN || webhooks.records.is_stopping() {
                            break;
                        }
                        let id = delivery.delivery_id.clone();
                        let attempted = match webhooks.attempt(delivery).await {
                            Ok(changes) => webhooks.records.commit(changes).await.map_err(Refusal::from),
                            Err(refusal) => Err(refusal),
                        };
                        if let Err(refusal) = attempted {
                            tracing::warn!(
                                delivery.id = id,
                                cause = causes(&refusal),
                                "the result of a delivery could not be recorded; retrying",
                            );
                            return false;
                        }
                    }
                    true
                })
            })
            .collect();
        let mut all = true;
        for task in tasks {
            all &= task.await.unwrap_or(false);
        }
        all
    }

    /// Makes one attempt, and returns the changes that record it.
    ///
    /// # Errors
    /// If the store cannot be read. The delivery stays in the queue, and the attempt does not count.
    async fn attempt(&self, delivery: Delivery) -> Result<Vec<Change>, Refusal> {
        let done = vec![Change::DeleteDelivery { delivery_id: delivery.delivery_id.clone() }];
        let now = self.records.now();
        if delivery.webhook_id == CALLBACK {
            let Some(call) = self.callback(&delivery).await? else { return Ok(done) };
            return Ok(match self.call(call).await {
                Ok(()) => done,
                Err(error) => self.again_or_never(&delivery, &error.to_string(), &causes(&error)),
            });
        }
        let found = self.records.store().webhook(&delivery.webhook_id).await?;
        let Some((tenant, webhook)) = found.and_then(|(tenant, document)| {
            Some((tenant, serde_json::from_slice::<Webhook>(&document).ok()?))
        }) else {
            return Ok(done);
        };
        if webhook.failed {
            let reason = "the subscription was disabled after too many failures";
            return Ok(vec![self.bury(&delivery, reason)]);
        }
        if let Some(until) = self.with_breaker(&delivery.webhook_id, |breaker| breaker.closed_until(now)) {
            // This counts as an attempt; otherwise the queue of an unreachable subscriber would fill the disk.
            let reason = "the subscriber failed too often, so it is not called";
            let mut changes = self.again_or_never(&delivery, reason, reason);
            for change in &mut changes {
                if let Change::PutDelivery { due, .. } = change {
                    *due = until.max(*due);
                }
            }
            return Ok(changes);
        }
        let call = if webhook.v2 {
            let Ok(body) = self.body_of_v2(&tenant, &delivery.body).await? else {
                return Ok(vec![self.bury(&delivery, UNPROJECTABLE)]);
            };
            signed_v2(&webhook, &tenant, &Delivery { body: body.into(), ..delivery.clone() }, now)
        } else {
            signed(&webhook, &delivery, now)
        };
        let changes = match self.call(call).await {
            Ok(()) => {
                self.with_breaker(&delivery.webhook_id, Breaker::succeeded);
                done
            }
            Err(error) => {
                let mut changes = self.again_or_never(&delivery, &error.to_string(), &causes(&error));
                if self.with_breaker(&delivery.webhook_id, |breaker| breaker.failed(now)) {
                    // Read again, because its secret may have been rotated during the call.
                    let found = self.records.store().webhook(&delivery.webhook_id).await?;
                    let webhook = found.and_then(|(_, document)| serde_json::from_slice(&document).ok());
                    let failed = webhook.map(|webhook| Webhook { failed: true, ..webhook });
                    changes.extend(
                        failed.map(|failed| put(&tenant, &delivery.webhook_id, &failed)).transpose()?,
                    );
                    self.forget(&tenant);
                }
                changes
            }
        };
        Ok(changes)
    }

    fn with_breaker<T>(&self, webhook_id: &SubscriptionId, ask: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        ask(breakers.entry(webhook_id.to_owned()).or_default())
    }

    async fn call(&self, call: DeliveryRequest) -> Result<(), CallError> {
        let outbound = &self.outbound;
        let target = outbound.check(&call.url)?;
        let mut headers = vec![("user-agent", AGENT), ("content-type", "application/json")];
        headers.extend(call.headers.iter().map(|(name, value)| (*name, value.as_str())));
        let (target, body) = (&target, call.body.into());
        let call = outbound::Call { method: Method::POST, target, headers: &headers, body, limits: LIMITS };
        outbound.send(call).await?.success().map(Reply::discard)
    }

    /// Schedules a retry, or buries the delivery if no attempts are left. The dead letter has the reason; the cause is only logged.
    fn again_or_never(&self, delivery: &Delivery, reason: &str, cause: &str) -> Vec<Change> {
        let attempts = delivery.attempts.saturating_add(1);
        let next = next_attempt(attempts, self.records.now());
        // Do not log the address: it may contain a secret.
        tracing::warn!(
            delivery.id = delivery.delivery_id,
            webhook.id = delivery.webhook_id.as_str(),
            attempt = attempts,
            retry_in_ms = next.map(|due| due.since(self.records.now())),
            cause,
            "a delivery failed",
        );
        let put = Change::PutDelivery {
            delivery_id: delivery.delivery_id.clone(),
            webhook_id: delivery.webhook_id.clone(),
            due: next.unwrap_or(self.records.now()),
            attempts,
            body: delivery.body.clone(),
        };
        match next {
            Some(_) => vec![put],
            // Put first, so that the dead letter counts this attempt.
            None => vec![put, self.bury(delivery, reason)],
        }
    }

    fn bury(&self, delivery: &Delivery, reason: &str) -> Change {
        Change::AbandonDelivery {
            delivery_id: delivery.delivery_id.clone(),
            reason: reason.to_owned(),
            at: self.records.now(),
        }
    }

    /// The request to a run's callback address. `None` if the run no longer waits for the interrupt.
    ///
    /// # Errors
    /// If the store cannot be read, so that it is unknown whether the run waits.
    async fn callback(&self, delivery: &Delivery) -> Result<Option<DeliveryRequest>, Refusal> {
        let queued: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
        let text = |name: &str| queued.get(name).and_then(Value::as_str).unwrap_or_default();
        match self.states.load(&RunId::new(text("runId"))).await {
            Ok(loaded) => Ok(self.callback_of(delivery, &loaded, text("nodeId"), text("interruptId")).await),
            Err(refusal) if refusal.is_host_failure() => Err(refusal),
            // The run was deleted.
            Err(_) => Ok(None),
        }
    }

    async fn callback_of(
        &self,
        delivery: &Delivery,
        loaded: &Loaded,
        node_id: &str,
        interrupt_id: &str,
    ) -> Option<DeliveryRequest> {
        let genesis = &loaded.state.genesis;
        let run_id = &genesis.run_id;
        let interrupt = loaded.state.interrupts.get(node_id).filter(|open| open.id == interrupt_id)?;
        let may_respond = self.callback_may_respond(genesis).await;
        let recipient = Recipient { principal: &genesis.principal, may_respond };
        let token = self.tokens.sign(loaded, interrupt, &recipient)?;
        let body = json!({
            "runId": run_id,
            "nodeId": interrupt.node_id,
            "status": loaded.state.status,
            "interrupt": {
                "kind": interrupt.kind,
                "key": interrupt.key,
                "data": interrupt.data,
                "callbackUrl": format!("{}/v1/interrupts/{token}", self.public_url),
                "interruptToken": token,
            },
        });
        let headers = vec![
            ("x-openwop-event-type", "interrupt.requested".to_owned()),
            ("x-openwop-delivery-id", delivery.delivery_id.clone()),
        ];
        let url = genesis.callback_url.clone()?;
        Some(DeliveryRequest { url, headers, body: body.to_string().into_bytes() })
    }

    /// Whether the callback address of a run gets a token to reply with. The creator of the run named the address, and must be
    /// allowed to respond, because the reply counts as theirs.
    async fn callback_may_respond(&self, genesis: &Genesis) -> bool {
        // The address of a branch was named by the creator of its source, possibly across several forks.
        let mut fork = genesis.fork.clone();
        for _ in 0..MAX_FORKS {
            let Some(source) = fork.take() else {
                return self.keys.may_respond(&genesis.tenant, &genesis.principal).await.unwrap_or(false);
            };
            match self.states.genesis_of(&source.source_run_id).await {
                Ok(source) if source.principal == genesis.principal => fork = source.fork,
                Ok(_) | Err(_) => return false,
            }
        }
        false
    }
}

/// The request to a subscriber, signed for this moment.
fn signed(webhook: &Webhook, delivery: &Delivery, now: Timestamp) -> DeliveryRequest {
    let (seconds, secrets) = (now.0 / 1000, webhook.secrets_at(now));
    // During a rotation this stays the previous secret, which receivers of this signature know.
    let secret = secrets.last().copied().unwrap_or(&webhook.secret);
    let body: Value = serde_json::from_slice(&delivery.body).unwrap_or(Value::Null);
    let kind = body.pointer("/event/type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let signature = signature(secret, seconds, &delivery.body);
    let mut headers = vec![
        ("x-openwop-webhook-id", delivery.webhook_id.to_string()),
        ("x-openwop-delivery-id", delivery.delivery_id.clone()),
        ("x-openwop-event-type", kind),
        ("x-openwop-timestamp", seconds.to_string()),
        ("x-openwop-signature", signature),
        ("x-openwop-signature-algorithm", "v1".to_owned()),
    ];
    if webhook.standard {
        let id = standard::message_id(&delivery.delivery_id);
        headers.extend(standard::headers(id, seconds, &delivery.body, &secrets));
    }
    DeliveryRequest { url: webhook.url.clone(), headers, body: delivery.body.to_vec() }
}

/// The request to a subscriber of version 2: every header of version 1 also has its name of version 2, with the same value.
fn signed_v2(webhook: &Webhook, tenant: &Tenant, delivery: &Delivery, now: Timestamp) -> DeliveryRequest {
    const NAMES: [(&str, &str); 5] = [
        ("x-openwop-webhook-id", "openwop-webhook-id"),
        ("x-openwop-event-type", "openwop-event-type"),
        ("x-openwop-timestamp", "openwop-timestamp"),
        ("x-openwop-signature", "openwop-signature"),
        ("x-openwop-signature-algorithm", "openwop-signature-algorithm"),
    ];
    let mut call = signed(webhook, delivery, now);
    for (name, value) in &mut call.headers {
        match *name {
            "x-openwop-webhook-id" => *value = id::bind(tenant.as_str(), value),
            "x-openwop-delivery-id" => *value = id::delivery(tenant.as_str(), value),
            _ => {}
        }
    }
    let renamed = |(name, value): &(&'static str, String)| {
        let (_, other) = NAMES.iter().find(|(known, _)| known == name)?;
        Some((*other, value.clone()))
    };
    let more: Vec<_> = call.headers.iter().filter_map(renamed).collect();
    call.headers.extend(more);
    call
}

/// `sha256=` and the HMAC-SHA-256 of `{seconds}.{body}` in hexadecimal.
fn signature(secret: &str, seconds: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("sha256={}", canon::encoding::hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_computed_elsewhere() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret-of-sixteen
        let expected = EXPECTED;
        assert_eq!(signature("secret-of-sixteen", 1_700_000_000, br#"{"a":1}"#), expected);
    }

    const EXPECTED: &str = "sha256=021c30d810963293d31f137660d219c4456edc51ce58968c7707b00f827b9216";
}
