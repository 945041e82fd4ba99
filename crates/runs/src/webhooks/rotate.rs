//! Rotates the secret of a subscription. For a transition period, deliveries have a signature for each secret.

use canon::time::Timestamp;
use flow::id::SubscriptionId;
use serde_json::json;

use super::{PreviousSecret, Webhook, Webhooks, put, standard};
use crate::{ApiCode, Caller, Refusal, Respond};

/// For how long the previous secret still signs, in seconds. Discovery advertises it.
pub const OVERLAP_SECONDS: u64 = 24 * 60 * 60;

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotatedSecret {
    pub rotated_at: Timestamp,
    /// When the previous secret stops signing.
    pub previous_expires_at: Timestamp,
}

impl Webhooks {
    /// Replaces the secret of a subscription with Standard Webhooks signatures. The previous secret also signs for
    /// [`OVERLAP_SECONDS`]; an older one stops immediately.
    ///
    /// # Errors
    /// If the tenant has no such subscription, the subscription does not use Standard Webhooks, or the secret is malformed.
    pub async fn rotate_secret<R: Respond<RotatedSecret>>(
        &self,
        caller: &Caller,
        webhook_id: &SubscriptionId,
        secret: String,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        let webhook = self.own_webhook(caller, webhook_id).await?;
        if !webhook.standard {
            let message = "the deliveries of this webhook have one signature, so two secrets cannot overlap; register it with \
                           `signatureAlgorithms` [\"v1\", \"standard-webhooks-1\"], or delete it and register it again";
            return Err(Refusal::new(ApiCode::ValidationError, message));
        }
        standard::check_secret(Some(&secret))?;
        let rotated_at = self.records.now();
        let previous_expires_at = rotated_at.plus(OVERLAP_SECONDS * 1000);
        let previous = PreviousSecret { secret: webhook.secret.clone(), expires_at: previous_expires_at.0 };
        let rotated = Webhook { secret, previous: Some(previous), ..webhook };
        let changes = vec![
            put(&caller.tenant, webhook_id, &rotated)?,
            self.records.audited(caller, "webhook.rotate", &json!({"webhookId": webhook_id})),
        ];
        let result = RotatedSecret { rotated_at, previous_expires_at };
        let response = self.records.commit_response(changes, &respond, result).await;
        self.forget(&caller.tenant);
        response
    }
}
