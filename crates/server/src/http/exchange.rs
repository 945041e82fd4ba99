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
use http::header::{ALLOW, AUTHORIZATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, StatusCode};
use hyper::body::Body as _;
use openwop::Major;
use runs::keys;
use runs::rates::LimitedRequest;
use runs::{ApiCode, Caller, GuidedCaller, Keyed, Refusal, RefusalKind, Scope, StoredReply, Written};
use serde_json::{Value, json};

use super::entry::RequestContext;
use super::handlers::{registry, surfaces};
use super::query::Query;
use super::route::{Access, Body, HandlerResult, Method, Route};
use super::state::Service;
use super::status::status;
use super::table::Params;
use super::{bodies, body, encoding, pages, response, routes, unversioned, v2};

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
pub(super) struct AccessLogEntry {
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
pub(super) struct CheckedRequest {
    pub(super) state: Service,
    /// The caller. On routes without a key, an anonymous one without scopes.
    pub(super) caller: Caller,
    /// The version of the protocol that the reply follows.
    pub(super) major: Major,
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

impl CheckedRequest {
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
fn anonymous() -> Caller {
    // Created once, because every request starts with it.
    static ANONYMOUS: LazyLock<Caller> = LazyLock::new(|| Caller {
        tenant: Tenant::new(""),
        principal: Principal::new("anonymous"),
        scopes: Vec::new(),
        test: false,
    });
    ANONYMOUS.clone()
}

/// Waits until a key is revoked or expires; forever if there is none.
async fn key_ended(state: &Service, key: Option<Digest>, caller: &Caller) -> Refusal {
    match key {
        Some(hash) => state.runs.keys().ended(hash, caller).await,
        None => std::future::pending().await,
    }
}

/// Wraps the reply so that a stream ends when the caller's key is revoked or expires.
fn until_key_ends(state: &Service, key: Option<Digest>, caller: &Caller, response: Response) -> Response {
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
    context: RequestContext,
    route: &'static Route,
    params: Params,
    request: Request,
) -> (Response, AccessLogEntry) {
    let (mut parts, stream) = request.into_parts();
    let mut caller = anonymous();
    let origin = page_origin(route.access, &parts);
    let encoding = encoding::accepted(&parts.headers);
    let key = stream_key(route.access, &parts.headers);
    let run_id = params.iter().find(|(name, _)| *name == "runId").map(|(_, run_id)| run_id.clone());
    let answered = checked(state, context, route, params, &mut parts, stream, &mut caller).await;
    let answered = match answered {
        Ok(response) if route.method == Method::Get => Ok(encoding::encoded(response, encoding).await),
        other => other,
    };
    // A key that was not accepted does not count.
    let key = key.filter(|_| !caller.tenant.as_str().is_empty());
    let answered = answered.map(|response| until_key_ends(state, key, &caller, response));
    let (mut response, log_entry) = finish(state, context, route.path, &parts.method, caller, answered).await;
    state.origin_policy.share(origin.as_ref(), response.headers_mut());
    // Part of a path is logged only for a failure, and only if it can be an id.
    let run_id = run_id.filter(|run_id| log_entry.cause.is_some() && run_id.len() <= MAX_RUN_ID_BYTES);
    let run_id = run_id.map(|run_id| flow::redact::text(&run_id).into_owned());
    (response, AccessLogEntry { run_id, ..log_entry })
}

/// The origin of the web page that sent a request for guided sessions. Other routes are not for web pages.
fn page_origin(access: Access, parts: &Parts) -> Option<HeaderValue> {
    parts.headers.get(ORIGIN).filter(|_| access == Access::Guided).cloned()
}

/// Answers a method that the path does not support.
pub(super) async fn answer_other_method(
    state: &Service,
    context: RequestContext,
    path: &'static str,
    request: Request,
) -> (Response, AccessLogEntry) {
    let (parts, _) = request.into_parts();
    let mut caller = anonymous();
    let access = access_of(path);
    let origin = page_origin(access, &parts);
    // A browser sends a preflight request without a key.
    if access == Access::Guided && state.origin_policy.may_ask(&parts) {
        let (mut response, log_entry) =
            finish(state, context, path, &parts.method, caller, Ok(no_content())).await;
        state.origin_policy.permit(origin.as_ref(), response.headers_mut());
        return (response, log_entry);
    }
    let admitted = admit(state, context, path, &parts.headers, access, &mut caller).await.map(drop);
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
    let (mut response, log_entry) = finish(state, context, path, &parts.method, caller, answered).await;
    if was_admitted && let Ok(allow) = HeaderValue::from_str(&allowed.join(", ")) {
        response.headers_mut().insert(ALLOW, allow);
    }
    state.origin_policy.share(origin.as_ref(), response.headers_mut());
    (response, log_entry)
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
    context: RequestContext,
    request: Request,
) -> (Response, AccessLogEntry) {
    if request.uri().path().starts_with("/v1/") {
        let refusal = Refusal::new(ApiCode::NotFound, "path not found; /v1/openapi.json lists all paths");
        return refuse_path(state, context, request, refusal).await;
    }
    let (parts, body) = request.into_parts();
    if let Some(pages) = &state.pages
        && (unversioned::is_of_console(parts.uri.path()) || !unversioned::is_of_a_program(&parts))
    {
        return pages::answer(state, context, pages.clone(), Request::from_parts(parts, body)).await;
    }
    let refusal = unversioned::refusal(&state.table, &parts);
    finish(state, context, "", &parts.method, anonymous(), Err(refusal)).await
}

/// Refuses a request without authenticating it.
pub(super) async fn refuse(
    state: &Service,
    context: RequestContext,
    method: &HttpMethod,
    refusal: Refusal,
) -> (Response, AccessLogEntry) {
    finish(state, context, "", method, anonymous(), Err(refusal)).await
}

/// Answers a malformed path.
pub(super) async fn answer_bad_path(
    state: &Service,
    context: RequestContext,
    request: Request,
) -> (Response, AccessLogEntry) {
    let message = "the path has an invalid segment: `.` or `..`, an encoded slash, a control character or an \
         unexpected colon";
    refuse_path(state, context, request, Refusal::new(ApiCode::ValidationError, message)).await
}

/// Refuses a path. Callers without a key do not learn the reason.
pub(super) async fn refuse_path(
    state: &Service,
    context: RequestContext,
    request: Request,
    refusal: Refusal,
) -> (Response, AccessLogEntry) {
    let (parts, _) = request.into_parts();
    let mut caller = anonymous();
    let admitted = admit(state, context, "", &parts.headers, Access::Key(&[]), &mut caller).await;
    finish(state, context, "", &parts.method, caller, Err(admitted.err().unwrap_or(refusal))).await
}

/// Checks the rate limit, the origin and the key. Returns the guided session that the key is limited to, if any.
async fn admit(
    state: &Service,
    context: RequestContext,
    route: &'static str,
    headers: &HeaderMap,
    access: Access,
    caller: &mut Caller,
) -> Result<Option<SessionId>, Refusal> {
    if is_keyless(state, context, route, headers) {
        state.origin_policy.check_local(headers)?;
        *caller = keyless();
        return Ok(None);
    }
    let key = bearer(headers).unwrap_or_default();
    let known = match access.settled(state.settings.open_registry, headers.contains_key(AUTHORIZATION)) {
        Access::Public | Access::Token => None,
        Access::Key(_) | Access::Either(..) | Access::Offered => Some(
            state.runs.keys().authenticate(key).await.map(|caller| GuidedCaller { caller, session: None }),
        ),
        Access::Guided => Some(state.runs.keys().authenticate_guided(key).await),
    };
    let named = known.as_ref().and_then(|known| known.as_ref().ok()).map(|known| &known.caller);
    // Before the key is verified: a caller over the limit does not learn whether the key is valid.
    if state.rate_limiter.limits_anything() {
        // Unauthenticated callers are counted by address, so sending a new key with every request does not avoid the limit.
        let who = match (named, context.peer) {
            (Some(named), _) => format!("key:{}", named.principal),
            (_, Some(Peer(address))) => format!("peer:{address}"),
            (_, None) => String::new(),
        };
        let tenant = named.map(|named| &named.tenant);
        let asked = LimitedRequest { key: &who, tenant, route };
        state.rate_limiter.admit(&asked, Timestamp(state.clock.now_ms()))?;
    }
    if access == Access::Guided {
        state.origin_policy.check(headers)?;
    }
    let Some(known) = known else { return Ok(None) };
    let known = known?;
    *caller = known.caller;
    Ok(known.session)
}

/// Whether a request needs no key: an MCP message from this machine, if the operator allows it.
fn is_keyless(state: &Service, context: RequestContext, route: &str, headers: &HeaderMap) -> bool {
    state.settings.mcp_without_key
        && matches!(route, "/mcp" | "/v1/mcp")
        && !headers.contains_key(AUTHORIZATION)
        && context.peer.is_some_and(|Peer(address)| address.is_loopback())
}

/// The caller of such a request, with the scopes that agents and MCP clients need. Over MCP they can answer clarifications; approvals
/// need a key.
fn keyless() -> Caller {
    Caller {
        tenant: Tenant::new(guided::DEFAULT_TENANT),
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
fn stream_key(access: Access, headers: &HeaderMap) -> Option<Digest> {
    bearer(headers)
        .filter(|_| matches!(access, Access::Key(_) | Access::Either(..) | Access::Offered))
        .map(keys::hash)
}

async fn checked(
    state: &Service,
    context: RequestContext,
    route: &'static Route,
    mut params: Params,
    parts: &mut Parts,
    stream: Stream,
    caller: &mut Caller,
) -> HandlerResult {
    let session = admit(state, context, route.path, &parts.headers, route.access, caller).await?;
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
    if route.major == Major::V2
        && let Err(refused) = v2::prepare(route, caller, &mut params, parts)
    {
        return Ok(*refused);
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
            state.runs.interrupt_tokens().check_signature(token)?;
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
    let call = CheckedRequest {
        state: state.clone(),
        caller: caller.clone(),
        major: route.major,
        params,
        query: Query::read(parts.uri.query()),
        key: stream_key(route.access, &parts.headers).filter(|_| !caller.tenant.as_str().is_empty()),
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
            let concluded = state.runs.records().conclude(&keyed, refusal, response::recorded).await;
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
        Refusal::new(ApiCode::ValidationError, "an Idempotency-Key may contain only visible ASCII characters")
    })?;
    // The operation has one name for keys, whichever version calls it.
    let twin = || routes::of_v2(route.path).find(|twin| twin.method == route.method);
    let operation = match route.major {
        Major::V1 => route.operation,
        Major::V2 => twin().map_or(route.operation, |twin| twin.operation),
    };
    let of: Vec<_> = params.iter().map(|(_, value)| value.as_str()).collect();
    // By operation and not by path, so that both spellings of a path are the same request. A token is a secret, so its digest is used.
    let endpoint = match route.access {
        Access::Token => format!("{operation} {}", Digest::of_bytes(of.concat().as_bytes())),
        Access::Public | Access::Key(_) | Access::Either(..) | Access::Guided | Access::Offered => {
            format!("{operation} {}", of.join("/"))
        }
    };
    let body = if route.body == Body::None { &Value::Null } else { body };
    match route.major {
        Major::V1 => Keyed::new(caller, &endpoint, key, body).map(Some),
        // A key of one version is not good for the other, whose recorded reply has another form.
        Major::V2 => Keyed::new(caller, &endpoint, key, &json!({"major": 2, "body": body})).map(Some),
    }
}

/// Turns an error into its reply, and records rejected callers in the audit log.
async fn finish(
    state: &Service,
    context: RequestContext,
    route: &'static str,
    method: &HttpMethod,
    caller: Caller,
    answered: HandlerResult,
) -> (Response, AccessLogEntry) {
    let mut log_entry = AccessLogEntry { route, ..AccessLogEntry::default() };
    let response = match answered {
        Ok(response) => response,
        Err(refusal) => {
            log_entry.code = Some(refusal.code.as_str());
            log_entry.cause = refusal.is_host_failure().then(|| system::causes(&refusal));
            let kind = refusal.code.kind();
            if matches!(kind, RefusalKind::Unauthenticated | RefusalKind::Forbidden)
                && let Some(left_out) = state.denials.admit(Instant::now())
            {
                let status = status(refusal.code).as_u16();
                let (runs, method) = (&state.runs, method.as_str());
                runs.audit().denied(&caller, &refusal, status, method, route, left_out).await;
            }
            response::refusal(&refusal, &context.trace.id())
        }
    };
    if !caller.tenant.as_str().is_empty() {
        log_entry.principal = Some(caller.principal);
        log_entry.tenant = Some(caller.tenant);
    }
    (response, log_entry)
}
