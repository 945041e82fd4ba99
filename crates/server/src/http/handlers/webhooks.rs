//! Webhooks: subscriptions, their secrets and their dead letters.

use flow::id::SubscriptionId;
use runs::StoredReply;
use runs::webhooks::RegisteredWebhook;
use runs::webhooks::dead_letters::MAX_DEAD_LETTERS;
use runs::webhooks::rotate::RotatedSecret;

use super::super::bodies::packs::Nothing;
use super::super::bodies::webhooks::{
    DeadLetters, Requeued, Rotate, Rotated, Subscribe, Subscribed, Webhooks,
};
use super::super::bodies::{check_tenant, written};
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// `GET /v1/webhooks`
pub(in super::super) async fn list(call: CheckedRequest) -> HandlerResult {
    Ok(response::body_of(200, &Webhooks::of(call.state.runs.webhooks().list(&call.caller).await?)))
}

/// `POST /v1/webhooks`
pub(in super::super) async fn register(mut call: CheckedRequest) -> HandlerResult {
    let new = call.read_body::<Subscribe>()?.into_new(&call.caller, call.major)?;
    let respond = call.respond(|webhook: RegisteredWebhook| written(201, &Subscribed::of(&webhook)));
    Ok(call.reply(call.state.runs.webhooks().register(&call.caller, new, respond).await?))
}

/// `DELETE /v1/webhooks/{webhookId}`
pub(in super::super) async fn delete(call: CheckedRequest) -> HandlerResult {
    check_tenant(&call.caller, call.query.text("tenantId"))?;
    let webhook_id = SubscriptionId::new(call.param("webhookId"));
    let nothing = |()| StoredReply { status: 204, body: [].into(), replayed: false };
    Ok(call.reply(call.state.runs.webhooks().delete(&call.caller, &webhook_id, call.respond(nothing)).await?))
}

/// `POST /v1/webhooks/{webhookId}/rotate-secret`
pub(in super::super) async fn rotate_secret(mut call: CheckedRequest) -> HandlerResult {
    check_tenant(&call.caller, call.query.text("tenantId"))?;
    let secret = call.read_body::<Rotate>()?.into_secret();
    let webhook_id = SubscriptionId::new(call.param("webhookId"));
    let respond = call.respond(|rotated: RotatedSecret| written(200, &Rotated::from(rotated)));
    Ok(call
        .reply(call.state.runs.webhooks().rotate_secret(&call.caller, &webhook_id, secret, respond).await?))
}

/// How many dead letters are listed by default.
const DEFAULT_LISTED: u64 = 100;

/// `GET /v1/webhooks/{webhookId}/dead-letters`
pub(in super::super) async fn dead_letters(call: CheckedRequest) -> HandlerResult {
    let webhook_id = SubscriptionId::new(call.param("webhookId"));
    let limit = call.query.number("limit", 1..=u64::MAX)?.unwrap_or(DEFAULT_LISTED);
    let limit = usize::try_from(limit).unwrap_or(MAX_DEAD_LETTERS).min(MAX_DEAD_LETTERS);
    let letters = call.state.runs.webhooks().dead_letters(&call.caller, &webhook_id, limit).await?;
    Ok(response::body_of(200, &DeadLetters::of(&webhook_id, letters)))
}

/// `POST /v1/webhooks/{webhookId}/dead-letters/{deliveryId}:redeliver`
pub(in super::super) async fn redeliver(mut call: CheckedRequest) -> HandlerResult {
    let Nothing {} = call.read_body()?;
    let (webhook_id, delivery_id) = (&SubscriptionId::new(call.param("webhookId")), call.param("deliveryId"));
    let respond = call.respond(|()| written(202, &Requeued { delivery_id, webhook_id }));
    Ok(call
        .reply(call.state.runs.webhooks().redeliver(&call.caller, webhook_id, delivery_id, respond).await?))
}
