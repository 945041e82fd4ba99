//! Subscriptions.

use flow::id::SubscriptionId;
use host::runs::StoredReply;
use host::runs::webhooks::RegisteredWebhook;

use super::super::bodies::webhooks::{Subscribe, Subscribed, Webhooks};
use super::super::bodies::{check_tenant, written};
use super::super::exchange::Call;
use super::super::response;
use super::super::route::Answered;

/// `GET /v1/webhooks`
pub(in super::super) async fn list(call: Call) -> Answered {
    Ok(response::body_of(200, &Webhooks::of(call.state.runs.webhooks(&call.caller).await?)))
}

/// `POST /v1/webhooks`
pub(in super::super) async fn register(mut call: Call) -> Answered {
    let new = call.read_body::<Subscribe>()?.into_new(&call.caller)?;
    let respond = call.respond(|webhook: RegisteredWebhook| written(201, &Subscribed::of(&webhook)));
    Ok(call.reply(call.state.runs.register_webhook(&call.caller, new, respond).await?))
}

/// `DELETE /v1/webhooks/{webhookId}`
pub(in super::super) async fn delete(call: Call) -> Answered {
    check_tenant(&call.caller, call.query.text("tenantId"))?;
    let webhook_id = SubscriptionId::new(call.param("webhookId"));
    let nothing = |()| StoredReply { status: 204, body: [].into(), replayed: false };
    Ok(call.reply(call.state.runs.delete_webhook(&call.caller, &webhook_id, call.respond(nothing)).await?))
}
