//! The checks that every request passes before its handler: rate limit, key, scopes, body.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Instant;

use axum::body::Body as Stream;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{NodeId, Principal, RunId, Tenant};
use futures_util::StreamExt as _;
use guide::record::SessionId;
use host::runs::keys;
use host::runs::rates::Asked;
use host::runs::{ApiCode, Caller, GuidedCaller, Keyed, Refusal, RefusalKind, Scope, StoredReply, Written};
use http::header::{ALLOW, AUTHORIZATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, StatusCode};
use hyper::body::Body as _;
use serde_json::Value;

use super::entry::Arrived;
use super::handlers::{registry, surfaces};
use super::query::Query;
use super::route::{Access, Answered, Body, Method, Route};
use super::state::Service;
use super::status::status;
use super::table::Params;
use super::{bodies, body, encoding, pages, response, routes, unversioned};

/// The header that makes a request idempotent.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The maximum length of an API key. Generated keys have 57 characters; configured ones may be longer.
const MAX_KEY_BYTES: usize = 1024;

/// The maximum length of a run id that is logged.
const MAX_RUN_ID_BYTES: usize = 128;

/// The address of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// What is logged about a reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Answering {
    pub(super) route: &'static str,
    pub(super) principal: Option<Principal>,
    pub(super) tenant: Option<Tenant>,
    pub(super) code: Option<&'static str>,
    /// The run that the path names.
    pub(super) run_id: Option<String>,
    /// Why the host failed, with all causes.
    pub(super) cause: Option<String>,
}

/// A request that has passed every check.
pub(super) struct Call {
    pub(super) state: Service,
    /// The caller. On routes without a key, an anonymous one without scopes.
    pub(super) caller: Caller,
    params: Params,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    /// The raw body, for handlers that read it themselves.
    pub(super) message: Bytes,
    pub(super) keyed: Option<Keyed>,
    /// The guided session that the caller's key is limited to, if any.
    pub(super) session: Option<SessionId>,
    /// The digest of the caller's key, if there is one.
    key: Option<Digest>,
}

impl Call {
    /// The value of a path parameter.
    pub(super) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// The run that the path names.
    pub(super) fn run_id(&self) -> RunId {
        RunId::new(self.param("runId"))
    }

    /// The node that the path names.
    pub(super) fn node_id(&self) -> NodeId {
        NodeId::new(self.param("nodeId"))
    }

    /// Waits until the caller's key is revoked or expires, and returns the reason. For replies that stay open.
    pub(super) async fn key_ended(&self) -> Refusal {
        key_ended(&self.state, self.key, &self.caller).await
    }

    /// Parses the body, and takes it out of the call.
    pub(super) fn read_body<B: bodies::Body>(&mut self) -> Result<B, Refusal> {
        bodies::read(std::mem::take(&mut self.body))
    }

    /// Parses the body, for a handler that only borrows the call.
    pub(super) fn body_as<B: bodies::Body>(&self) -> Result<B, Refusal> {
        bodies::read(self.body.clone())
    }

    /// How a result is written for this caller, and recorded if the request has an idempotency key.
    pub(super) fn respond<W>(&self, write: W) -> Written<'_, W> {
        Written { keyed: self.keyed.as_ref(), write }
    }

    /// The reply over the wire.
    pub(super) fn reply(&self, reply: StoredReply) -> Response {
        response::reply(reply, self.keyed.is_some())
    }
}

/// The caller of routes that need no key.
fn nobody() -> Caller {
    // Created once, because every request starts with it.
    static NOBODY: LazyLock<Caller> = LazyLock::new(|| Caller {
        tenant: Tenant::new(""),
        principal: Principal::new("anonymous"),
        scopes: Vec::new(),
        test: false,
    });
    NOBODY.clone()
}

/// Waits until a key is revoked or expires; forever if there is none.
async fn key_ended(state: &Service, key: Option<Digest>, caller: &Caller) -> Refusal {
    match key {
        Some(hash) => state.runs.key_ended(hash, caller).await,
        None => std::future::pending().await,
    }
}

/// Wraps the reply so that a stream ends when the caller's key is revoked or expires.
fn while_key_is_good(state: &Service, key: Option<Digest>, caller: &Caller, response: Response) -> Response {
    if key.is_none() || response.body().size_hint().exact().is_some() {
        return response;
    }
    let (state, caller) = (state.clone(), caller.clone());
    let ended = Box::pin(async move { key_ended(&state, key, &caller).await });
    response.map(|body| Stream::from_stream(body.into_data_stream().take_until(ended)))
}

/// Answers a request for a route of the table.
pub(super) async fn answer(
    state: &Service,
    came: Arrived,
    route: &'static Route,
    params: Params,
    request: Request,
) -> (Response, Answering) {
    let (mut parts, stream) = request.into_parts();
    let mut caller = nobody();
    let origin = visiting(route.access, &parts);
    let encoding = encoding::accepted(&parts.headers);
    let key = kept_under(route.access, &parts.headers);
    let run_id = params.iter().find(|(name, _)| *name == "runId").map(|(_, run_id)| run_id.clone());
    let answered = checked(state, came, route, params, &mut parts, stream, &mut caller).await;
    let answered = match answered {
        Ok(response) if route.method == Method::Get => Ok(encoding::encoded(response, encoding).await),
        other => other,
    };
    // A key that was not accepted does not count.
    let key = key.filter(|_| !caller.tenant.as_str().is_empty());
    let answered = answered.map(|response| while_key_is_good(state, key, &caller, response));
    let (mut response, answering) = finish(state, came, route.path, &parts.method, caller, answered).await;
    state.visitors.share(origin.as_ref(), response.headers_mut());
    // Part of a path is logged only for a failure, and only if it can be an id.
    let run_id = run_id.filter(|run_id| answering.cause.is_some() && run_id.len() <= MAX_RUN_ID_BYTES);
    let run_id = run_id.map(|run_id| flow::redact::text(&run_id).into_owned());
    (response, Answering { run_id, ..answering })
}

/// The origin of the web page that sent a request for guided sessions. Other routes are not for web pages.
fn visiting(access: Access, parts: &Parts) -> Option<HeaderValue> {
    parts.headers.get(ORIGIN).filter(|_| access == Access::Guided).cloned()
}

/// Answers a method that the path does not support.
pub(super) async fn answer_other_method(
    state: &Service,
    came: Arrived,
    path: &'static str,
    request: Request,
) -> (Response, Answering) {
    let (parts, _) = request.into_parts();
    let mut caller = nobody();
    let access = access_of(path);
    let origin = visiting(access, &parts);
    // A browser sends a preflight request without a key.
    if access == Access::Guided && state.visitors.may_ask(&parts) {
        let (mut response, answering) =
            finish(state, came, path, &parts.method, caller, Ok(no_content())).await;
        state.visitors.permit(origin.as_ref(), response.headers_mut());
        return (response, answering);
    }
    let admitted = admit(state, came, path, &parts.headers, access, &mut caller).await.map(drop);
    let mut allowed: Vec<&str> = routes::of(path).map(|route| route.method.as_str()).collect();
    if allowed.contains(&Method::Get.as_str()) {
        allowed.push("HEAD");
    }
    allowed.push("OPTIONS");
    let answered = admitted.and_then(|()| {
        if parts.method == HttpMethod::OPTIONS {
            return Ok(no_content());
        }
        let message = "Method not allowed. See the `Allow` header.";
        Err(Refusal::new(ApiCode::MethodNotAllowed, message).detail("allowed", allowed.clone()))
    });
    let was_admitted = !matches!(&answered, Err(refusal) if refusal.code != ApiCode::MethodNotAllowed);
    let (mut response, answering) = finish(state, came, path, &parts.method, caller, answered).await;
    if was_admitted && let Ok(allow) = HeaderValue::from_str(&allowed.join(", ")) {
        response.headers_mut().insert(ALLOW, allow);
    }
    state.visitors.share(origin.as_ref(), response.headers_mut());
    (response, answering)
}

fn no_content() -> Response {
    let mut response = Response::new(Stream::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The access of the strictest route of a path.
fn access_of(path: &str) -> Access {
    let mut found = routes::of(path).map(|route| route.access);
    let strict = |access: &Access| match access {
        Access::Key(_) | Access::Either(..) | Access::Guided | Access::Offered => true,
        Access::Public | Access::Token => false,
    };
    found.find(strict).unwrap_or(Access::Public)
}

/// Answers a path without a route.
pub(super) async fn answer_unknown(
    state: &Service,
    came: Arrived,
    request: Request,
) -> (Response, Answering) {
    if request.uri().path().starts_with("/v1/") {
        let refusal =
            Refusal::new(ApiCode::NotFound, "there is no such path; see /v1/openapi.json for all of them");
        return refuse_path(state, came, request, refusal).await;
    }
    let (parts, body) = request.into_parts();
    if let Some(pages) = &state.pages
        && !unversioned::is_of_a_program(&parts)
    {
        return pages::answer(state, came, pages.clone(), Request::from_parts(parts, body)).await;
    }
    let refusal = unversioned::refusal(&state.table, &parts);
    finish(state, came, "", &parts.method, nobody(), Err(refusal)).await
}

/// Refuses a request without authenticating it.
pub(super) async fn refuse(
    state: &Service,
    came: Arrived,
    method: &HttpMethod,
    refusal: Refusal,
) -> (Response, Answering) {
    finish(state, came, "", method, nobody(), Err(refusal)).await
}

/// Answers a malformed path.
pub(super) async fn answer_bad_path(
    state: &Service,
    came: Arrived,
    request: Request,
) -> (Response, Answering) {
    let message =
        "the path has a segment that is no name: dots, a slash, a control character or a stray colon";
    refuse_path(state, came, request, Refusal::new(ApiCode::ValidationError, message)).await
}

/// Refuses a path. Callers without a key do not learn the reason.
pub(super) async fn refuse_path(
    state: &Service,
    came: Arrived,
    request: Request,
    refusal: Refusal,
) -> (Response, Answering) {
    let (parts, _) = request.into_parts();
    let mut caller = nobody();
    let admitted = admit(state, came, "", &parts.headers, Access::Key(&[]), &mut caller).await;
    finish(state, came, "", &parts.method, caller, Err(admitted.err().unwrap_or(refusal))).await
}

/// Checks the rate limit, the origin and the key. Returns the guided session that the key is limited to, if any.
async fn admit(
    state: &Service,
    came: Arrived,
    route: &'static str,
    headers: &HeaderMap,
    access: Access,
    caller: &mut Caller,
) -> Result<Option<SessionId>, Refusal> {
    if is_keyless(state, came, route, headers) {
        state.visitors.check_local(headers)?;
        *caller = keyless();
        return Ok(None);
    }
    let key = bearer(headers).unwrap_or_default();
    let known = match access.settled(state.settings.open_registry, headers.contains_key(AUTHORIZATION)) {
        Access::Public | Access::Token => None,
        Access::Key(_) | Access::Either(..) | Access::Offered => {
            Some(state.runs.authenticate(key).await.map(|caller| GuidedCaller { caller, session: None }))
        }
        Access::Guided => Some(state.runs.authenticate_guided(key).await),
    };
    let named = known.as_ref().and_then(|known| known.as_ref().ok()).map(|known| &known.caller);
    // Before the key is verified: a caller over the limit does not learn whether the key is valid.
    if state.rate_limiter.limits_anything() {
        // Unauthenticated callers are counted by address, so sending a new key with every request does not avoid the limit.
        let who = match (named, came.peer) {
            (Some(named), _) => format!("key:{}", named.principal),
            (_, Some(Peer(address))) => format!("peer:{address}"),
            (_, None) => String::new(),
        };
        let tenant = named.map(|named| &named.tenant);
        let asked = Asked { key: &who, tenant, route };
        state.rate_limiter.admit(&asked, Timestamp(state.clock.now_ms()))?;
    }
    if access == Access::Guided {
        state.visitors.check(headers)?;
    }
    let Some(known) = known else { return Ok(None) };
    let known = known?;
    *caller = known.caller;
    Ok(known.session)
}

/// Whether a request needs no key: an MCP message from this machine, if the operator allows it.
fn is_keyless(state: &Service, came: Arrived, route: &str, headers: &HeaderMap) -> bool {
    state.settings.mcp_without_key
        && matches!(route, "/mcp" | "/v1/mcp")
        && !headers.contains_key(AUTHORIZATION)
        && came.peer.is_some_and(|Peer(address)| address.is_loopback())
}

/// The caller of such a request, with the scopes that agents and MCP clients need. Over MCP they can answer clarifications; approvals
/// need a key.
fn keyless() -> Caller {
    Caller {
        tenant: Tenant::new(host::guided::DEFAULT_TENANT),
        principal: Principal::new("loopback"),
        scopes: vec![
            Scope::SessionsRead,
            Scope::SessionsDrive,
            Scope::ManifestRead,
            Scope::RunsCreate,
            Scope::ApprovalsRespond,
        ],
        test: false,
    }
}

/// The key of a request, if it has exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut presented = headers.get_all(AUTHORIZATION).into_iter();
    let (first, second) = (presented.next()?, presented.next());
    // With two keys it is ambiguous which one applies.
    if second.is_some() {
        return None;
    }
    let (scheme, key) = first.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=MAX_KEY_BYTES).contains(&key.len())).then_some(key)
}

/// The digest of the presented key, on routes whose replies may stay open. MCP replies for guided sessions are single documents, and
/// some of their keys are signed and not stored.
fn kept_under(access: Access, headers: &HeaderMap) -> Option<Digest> {
    bearer(headers)
        .filter(|_| matches!(access, Access::Key(_) | Access::Either(..) | Access::Offered))
        .map(keys::hash)
}

async fn checked(
    state: &Service,
    came: Arrived,
    route: &'static Route,
    params: Params,
    parts: &mut Parts,
    stream: Stream,
    caller: &mut Caller,
) -> Answered {
    let session = admit(state, came, route.path, &parts.headers, route.access, caller).await?;
    let access =
        route.access.settled(state.settings.open_registry, parts.headers.contains_key(AUTHORIZATION));
    match access {
        Access::Key(scopes) => {
            if let Some(missing) = scopes.iter().find(|scope| !caller.may(**scope)) {
                return Err(Refusal::scope(*missing));
            }
        }
        Access::Either(one, other) => {
            if !caller.may(one) && !caller.may(other) {
                return Err(Refusal::scope(one));
            }
        }
        Access::Public | Access::Token | Access::Guided | Access::Offered => {}
    }
    // The permit is held until the handler returns, because the upload stays in memory until then.
    let (body, message, _place) = match route.body {
        Body::Message => (Value::Null, body::message(&parts.headers, stream, &state.settings).await?, None),
        Body::Archive => {
            let place = registry::place_for_archive(state)?;
            let archive = body::archive(&parts.headers, stream, &state.settings).await?;
            (Value::Null, archive, Some(place))
        }
        // An unknown token is 404, regardless of the body.
        Body::TokenAnswer => {
            let token = params.iter().find(|(name, _)| *name == "token").map_or("", |(_, token)| token);
            state.runs.check_token_signature(token)?;
            (body::read(route.body, &parts.headers, stream, &state.settings).await?, Bytes::new(), None)
        }
        // An object is received only at a valid signed URL.
        Body::Object => match surfaces::room_for_object(state, &params)? {
            Ok(most) => {
                let place = surfaces::place_for_object(state)?;
                let object = body::object(&parts.headers, stream, most, &state.settings).await?;
                (Value::Null, object, Some(place))
            }
            Err(refused) => return Ok(*refused),
        },
        kind => (body::read(kind, &parts.headers, stream, &state.settings).await?, Bytes::new(), None),
    };
    let keyed = keyed(route, &params, parts, caller, &body)?;
    let call = Call {
        state: state.clone(),
        caller: caller.clone(),
        params,
        query: Query::read(parts.uri.query()),
        key: kept_under(route.access, &parts.headers).filter(|_| !caller.tenant.as_str().is_empty()),
        headers: std::mem::take(&mut parts.headers),
        body,
        message,
        keyed,
        session,
    };
    let Some(keyed) = call.keyed.clone().filter(|_| !caller.tenant.as_str().is_empty()) else {
        // The holder of a token is not authenticated, so its errors are not recorded.
        return (route.handler)(call).await;
    };
    match (route.handler)(call).await {
        Err(refusal) => {
            let concluded = state.runs.conclude(&keyed, refusal, response::recorded).await;
            concluded.map(|reply| response::reply(reply, true))
        }
        answered => answered,
    }
}

/// The idempotency key of a request, if it has one and is not a read.
fn keyed(
    route: &Route,
    params: &[(&str, String)],
    parts: &Parts,
    caller: &Caller,
    body: &Value,
) -> Result<Option<Keyed>, Refusal> {
    let Some(key) = parts.headers.get(IDEMPOTENCY_KEY).filter(|_| route.method != Method::Get) else {
        return Ok(None);
    };
    let key = key.to_str().map_err(|_| {
        Refusal::new(ApiCode::ValidationError, "an Idempotency-Key is made of visible characters")
    })?;
    let of: Vec<_> = params.iter().map(|(_, value)| value.as_str()).collect();
    // By operation and not by path, so that both spellings of a path are the same request. A token is a secret, so its digest is used.
    let endpoint = match route.access {
        Access::Token => format!("{} {}", route.operation, Digest::of_bytes(of.concat().as_bytes())),
        Access::Public | Access::Key(_) | Access::Either(..) | Access::Guided | Access::Offered => {
            format!("{} {}", route.operation, of.join("/"))
        }
    };
    let body = if route.body == Body::None { &Value::Null } else { body };
    Keyed::new(caller, &endpoint, key, body).map(Some)
}

/// Turns an error into its reply, and records rejected callers in the audit log.
async fn finish(
    state: &Service,
    came: Arrived,
    route: &'static str,
    method: &HttpMethod,
    caller: Caller,
    answered: Answered,
) -> (Response, Answering) {
    let mut answering = Answering { route, ..Answering::default() };
    let response = match answered {
        Ok(response) => response,
        Err(refusal) => {
            answering.code = Some(refusal.code.as_str());
            answering.cause = refusal.is_host_failure().then(|| host::causes(&refusal));
            let kind = refusal.code.kind();
            if matches!(kind, RefusalKind::Unauthenticated | RefusalKind::Forbidden)
                && let Some(left_out) = state.denials.admit(Instant::now())
            {
                let status = status(refusal.code).as_u16();
                let (runs, method) = (&state.runs, method.as_str());
                runs.audit_denied(&caller, &refusal, status, method, route, left_out).await;
            }
            response::refusal(&refusal, &came.trace.id())
        }
    };
    if !caller.tenant.as_str().is_empty() {
        answering.principal = Some(caller.principal);
        answering.tenant = Some(caller.tenant);
    }
    (response, answering)
}
