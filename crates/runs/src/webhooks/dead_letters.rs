//! Dead letters: deliveries without attempts left. They can be listed and delivered again.

use std::sync::PoisonError;

use canon::time::Timestamp;
use flow::id::{RunId, SubscriptionId};
use ports::runs::{Change, Delivery};
use serde_json::{Value, json};

use super::{Webhook, Webhooks, put};
use crate::{ApiCode, Caller, Refusal, Respond};

/// The maximum number of dead letters of a subscription. Older ones are deleted.
pub const MAX_DEAD_LETTERS: usize = 1000;

/// A delivery without attempts left, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub delivery_id: String,
    pub run_id: RunId,
    pub event_id: String,
    pub event_type: String,
    /// The number of attempts.
    pub attempts: u32,
    pub at: Timestamp,
    /// Why the last attempt failed.
    pub reason: String,
}

impl DeadLetter {
    fn of((delivery, reason): (Delivery, String)) -> Self {
        let body: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
        let text =
            |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            run_id: RunId::new(text("/runId")),
            event_id: text("/event/eventId"),
            event_type: text("/event/type"),
            delivery_id: delivery.delivery_id,
            attempts: delivery.attempts,
            at: delivery.due,
            reason,
        }
    }
}

impl Webhooks {
    /// The dead letters of a subscription, newest first.
    ///
    /// # Errors
    /// If the tenant has no such subscription, or the store cannot be read.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Refusal> {
        self.own_webhook(caller, webhook_id).await?;
        let buried =
            self.records.store().abandoned_deliveries(webhook_id, limit.min(MAX_DEAD_LETTERS)).await?;
        Ok(buried.into_iter().map(DeadLetter::of).collect())
    }

    /// Queues a dead letter again, with all its attempts. This also enables a subscription that was disabled after too many failures,
    /// because a caller who requests a redelivery has fixed the receiver.
    ///
    /// # Errors
    /// If the tenant has no such subscription, or the subscription has no such dead letter.
    pub async fn redeliver<R: Respond<()>>(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        delivery_id: &str,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        let webhook = self.own_webhook(caller, webhook_id).await?;
        let buried = self.records.store().abandoned_deliveries(webhook_id, MAX_DEAD_LETTERS).await?;
        if !buried.iter().any(|(delivery, _)| delivery.delivery_id == delivery_id) {
            let message = "the webhook has no dead letter with this id; GET \
                           /v1/webhooks/{webhookId}/dead-letters lists all of them";
            return Err(Refusal::new(ApiCode::NotFound, message));
        }
        let about = json!({"webhookId": webhook_id, "deliveryId": delivery_id});
        let mut changes = vec![
            Change::RequeueDelivery { delivery_id: delivery_id.to_owned(), due: self.records.now() },
            self.records.audited(caller, "webhook.redeliver", &about),
        ];
        if webhook.failed {
            changes.push(put(&caller.tenant, webhook_id, &Webhook { failed: false, ..webhook })?);
        }
        let response = self.records.commit_response(changes, &respond, ()).await;
        self.forget(&caller.tenant);
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner).remove(webhook_id);
        self.queued.notify_one();
        response
    }
}
