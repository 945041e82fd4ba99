//! Deliveries to subscriptions of version 2 of the protocol.
//!
//! The queue has every event as it was recorded. It is translated when it is sent, so a subscription of either version costs a commit the
//! same.

use flow::id::{RunId, Tenant};
use openwop::event::{Projection, Unprojectable};
use openwop::id;
use serde_json::{Map, Value, json};

use super::Webhooks;
use crate::Refusal;

/// Why a delivery is given up that has no form in version 2.
pub(super) const UNPROJECTABLE: &str = "payload_unprojectable";

impl Webhooks {
    /// The body of a delivery in version 2: the bound id of the run, and the event.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(super) async fn body_of_v2(
        &self,
        tenant: &Tenant,
        body: &[u8],
    ) -> Result<Result<Vec<u8>, Unprojectable>, Refusal> {
        let queued: Value = serde_json::from_slice(body).unwrap_or_default();
        let run_id = queued["runId"].as_str().unwrap_or_default();
        let Some(Value::Object(event)) = queued.get("event") else {
            return Ok(Err(Unprojectable::Envelope("event")));
        };
        let mut projection = Projection::new(tenant.as_str());
        if projection.lacks(event) {
            self.observe_before(tenant, run_id, event, &mut projection).await?;
        }
        let translated = projection.to_v2(event.clone());
        Ok(translated.map(|event| {
            json!({"event": event, "runId": id::bind(tenant.as_str(), run_id)}).to_string().into_bytes()
        }))
    }

    /// Lets a projection see the events before one.
    async fn observe_before(
        &self,
        tenant: &Tenant,
        run_id: &str,
        event: &Map<String, Value>,
        projection: &mut Projection,
    ) -> Result<(), Refusal> {
        let end = event.get("sequence").and_then(Value::as_u64).unwrap_or_default();
        let mut following = match self.states.follow(tenant, &RunId::new(run_id), 0).await {
            Ok(following) => following,
            Err(refusal) if refusal.is_host_failure() => return Err(refusal),
            // The run was deleted. The event is then refused for what it lacks.
            Err(_) => return Ok(()),
        };
        while following.position() < end
            && let Some(batch) = following.stored().await?
        {
            for (_, text) in batch.events {
                if let Ok(Value::Object(earlier)) = serde_json::from_str(&text) {
                    projection.observe(&earlier);
                }
            }
        }
        Ok(())
    }
}
