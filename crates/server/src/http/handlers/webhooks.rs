//! Subscriptions.

use flow::id::{SubscriptionId, Tenant};

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

/// `GET /v1/webhooks`
pub(in super::super) async fn list(call: Call) -> Answered {
    Ok(answer::json(200, &call.state.runs.webhooks(&call.caller)?))
}

/// `POST /v1/webhooks`
pub(in super::super) async fn register(call: Call) -> Answered {
    let reply = call.state.runs.register_webhook(&call.caller, &call.body, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `DELETE /v1/webhooks/{webhookId}`
pub(in super::super) async fn delete(call: Call) -> Answered {
    let webhook_id = SubscriptionId::new(call.param("webhookId"));
    let tenant = call.query.text("tenantId").map(Tenant::new);
    let keyed = call.keyed.as_ref();
    let reply = call.state.runs.delete_webhook(&call.caller, &webhook_id, tenant.as_ref(), keyed).await?;
    Ok(answer::reply(reply, keyed.is_some()))
}
