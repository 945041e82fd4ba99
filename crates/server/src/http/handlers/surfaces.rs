//! The surfaces of the host, one operation per request, for conformance suites.
//!
//! The request names the tenant, so that one key can show that tenants are isolated from each other. Therefore this exists for tests only.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use canon::time::Timestamp;
use flow::id::SubscriptionId;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use openwop::Major;
use runs::{ApiCode, Caller, Direct, Refusal, RefusalKind};
use serde_json::{Map, Value, json};
use surfaces::blob::Object;
use surfaces::{Code, Surface, SurfaceCall, SurfaceError, Tenant};
use tokio::sync::OwnedSemaphorePermit;

use super::super::bodies::webhooks::{Subscribe, Webhooks};
use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::state::Service;
use super::super::{bodies, response};
use super::errors::{flat, nested};

/// Suites address it like a surface, but the host itself implements it.
const WEBHOOKS: &str = "webhooks";
/// The maximum number of concurrent uploads of objects.
pub(in super::super) const MAX_UPLOADS: usize = 8;

/// `POST /v1/host/sample/test/surface`
pub(in super::super) async fn call(call: CheckedRequest) -> HandlerResult {
    let text = |name: &str| call.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let surface = match text("surface") {
        WEBHOOKS => None,
        name => match Surface::parse(name) {
            Some(surface) => Some(surface),
            None => {
                let known = "fs, kv, table, cache, blob, queueBus, sql, vector, search, webhooks";
                return Ok(invalid(&format!("`surface` must be one of {known}")));
            }
        },
    };
    if text("op").trim().is_empty() {
        return Ok(invalid("`op` must be an operation of the surface"));
    }
    let args = match call.body.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Ok(invalid("`args` must be an object")),
    };
    let tenant = match Tenant::new(text("tenantId").trim()) {
        Ok(tenant) => tenant,
        Err(error) => return Ok(invalid(&error.message)),
    };
    match surface {
        Some(surface) => carry_out(&call, surface, text("op"), tenant, args).await,
        None => webhooks(&call, text("op"), &tenant, &args).await,
    }
}

/// The webhook subscriptions of the tenant, through the same service as the public routes.
async fn webhooks(
    call: &CheckedRequest,
    op: &str,
    tenant: &Tenant,
    args: &Map<String, Value>,
) -> HandlerResult {
    let runs = &call.state.runs;
    let caller = Caller { tenant: flow::id::Tenant::new(tenant.as_str()), ..call.caller.clone() };
    let done = match op {
        "register" => {
            let new = bodies::read::<Subscribe>(Value::Object(args.clone()));
            match new.and_then(|new| new.into_new(&caller, Major::V1)) {
                Ok(new) => {
                    let registered = runs.webhooks().register(&caller, new, Direct).await;
                    registered.map(|webhook| json!({"webhookId": webhook.id}))
                }
                Err(refusal) => Err(refusal),
            }
        }
        "list" => runs.webhooks().list(&caller).await.map(|webhooks| json!(Webhooks::of(webhooks))),
        "unregister" => {
            let id = args.get("webhookId").and_then(Value::as_str).unwrap_or_default();
            let deleted = runs.webhooks().delete(&caller, &SubscriptionId::new(id), Direct).await;
            deleted.map(|()| json!({"ok": true}))
        }
        _ => return Ok(invalid("`op` must be register, list or unregister")),
    };
    Ok(match done {
        Ok(result) => response::json(200, &result),
        Err(refusal) if refusal.code.kind() == RefusalKind::NotFound => {
            nested(404, refusal.code.as_str(), &refusal.message)
        }
        Err(refusal) => nested(400, refusal.code.as_str(), &refusal.message),
    })
}

/// `POST /v1/host/sample/fs/read`
pub(in super::super) async fn read_file(call: CheckedRequest) -> HandlerResult {
    let tenant = call.body.get("tenantId").and_then(Value::as_str).unwrap_or(call.caller.tenant.as_str());
    let tenant = match Tenant::new(tenant) {
        Ok(tenant) => tenant,
        Err(error) => return Ok(invalid(&error.message)),
    };
    let args = Map::from_iter([("path".to_owned(), call.body.get("path").cloned().unwrap_or_default())]);
    carry_out(&call, Surface::Fs, "read", tenant, args).await
}

async fn carry_out(
    call: &CheckedRequest,
    surface: Surface,
    op: &str,
    tenant: Tenant,
    args: Map<String, Value>,
) -> HandlerResult {
    let Some(surfaces) = call.state.runs.features().executors().and_then(executors::Executors::surfaces)
    else {
        return Ok(response::json(
            503,
            &json!({"error": "host_capability_missing", "message": "this host has no surfaces"}),
        ));
    };
    let now = Timestamp(call.state.runs.records().now().0);
    let asked = SurfaceCall { tenant, surface, op: op.to_owned(), args, effect: None, now };
    Ok(match surfaces.call(asked).await {
        Ok(value) => response::json(200, &value),
        Err(error) => refused(&error),
    })
}

/// The error reply for an invalid request, in the flat form.
fn invalid(message: &str) -> Response {
    response::json(400, &json!({"error": Code::InvalidArgument.as_str(), "message": message}))
}

/// The error reply for a refusal of the surface, in the nested form that its callers read.
fn refused(error: &SurfaceError) -> Response {
    match error.code {
        Code::InvalidArgument => invalid(&error.message),
        Code::HostCapabilityMissing => {
            let details = Map::from_iter([("capability".to_owned(), json!(error.capability))]);
            flat(503, error.code.as_str(), &error.message, details)
        }
        code => nested(400, code.as_str(), &error.message),
    }
}

/// `GET /v1/blobs/{token}`: downloads an object with a signed URL.
pub(in super::super) async fn blob(call: CheckedRequest) -> HandlerResult {
    let Some(surfaces) = call.state.runs.features().executors().and_then(executors::Executors::surfaces)
    else {
        return Err(Refusal::new(ApiCode::NotFound, "this host has no blob store"));
    };
    let now = Timestamp(call.state.runs.records().now().0);
    match surfaces.blobs().redeem(call.param("token"), now).await {
        Ok(object) => {
            let mut response = Response::new(Body::from(object.content));
            *response.status_mut() = StatusCode::OK;
            let kind = HeaderValue::from_str(&object.content_type);
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, kind);
            // Objects are untrusted content: a browser must not render them under our origin.
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers
                .insert("content-security-policy", HeaderValue::from_static("sandbox; default-src 'none'"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
            Ok(response)
        }
        Err(error) => Ok(not_redeemed(&error)),
    }
}

/// The maximum size of an object that is uploaded to a signed URL, in bytes, or the error reply if the URL accepts no upload.
pub(in super::super) fn room_for_object(
    state: &Service,
    params: &[(&'static str, String)],
) -> Result<Result<usize, Box<Response>>, Refusal> {
    let token = params.iter().find(|(name, _)| *name == "token").map_or("", |(_, token)| token.as_str());
    let Some(surfaces) = state.runs.features().executors().and_then(executors::Executors::surfaces) else {
        return Err(Refusal::new(ApiCode::NotFound, "this host has no blob store"));
    };
    let blobs = surfaces.blobs();
    let admitted = blobs.admit_put(token, Timestamp(state.runs.records().now().0));
    Ok(admitted.map(|()| blobs.most_bytes()).map_err(|error| Box::new(not_redeemed(&error))))
}

/// Takes a permit to receive an object. Each is in memory as a whole, and the holder of a URL may send many.
pub(in super::super) fn place_for_object(state: &Service) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&state.uploads).try_acquire_owned().map_err(|_| {
        let message = format!("{MAX_UPLOADS} objects are being received, which is the limit; retry later");
        Refusal::new(ApiCode::RateLimited, message).detail("scope", "global").retry_after(5)
    })
}

/// `PUT /v1/blobs/{token}`: uploads an object with a signed URL.
pub(in super::super) async fn put_blob(mut call: CheckedRequest) -> HandlerResult {
    let Some(surfaces) = call.state.runs.features().executors().and_then(executors::Executors::surfaces)
    else {
        return Err(Refusal::new(ApiCode::NotFound, "this host has no blob store"));
    };
    let kind = call.headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    let content_type = kind.unwrap_or(surfaces::blob::CONTENT_TYPE).to_owned();
    // The bytes have no other owner, so they become the content without a copy.
    let object = Object { content: std::mem::take(&mut call.message).into(), content_type };
    let now = Timestamp(call.state.runs.records().now().0);
    Ok(match surfaces.blobs().redeem_put(call.param("token"), now, object).await {
        Ok(()) => response::json(200, &json!({"ok": true})),
        Err(error) => not_redeemed(&error),
    })
}

/// The error reply for a signed URL that was refused.
fn not_redeemed(error: &SurfaceError) -> Response {
    let status = match error.code {
        Code::BlobPresignExpired => 403,
        Code::BlobPresignNotFound | Code::BlobObjectNotFound | Code::BlobBucketNotFound => 404,
        Code::BlobObjectTooLarge => 413,
        Code::InvalidArgument => 400,
        _ => 503,
    };
    response::json(status, &json!({"error": error.code.as_str(), "message": error.message}))
}
