//! `core.http.request`: requests of nodes to hosts that the operator allows.
//!
//! One node makes one effect, with one idempotency key for all its attempts and redirects.
//!
//! ```text
//!  fill the URL ─► egress decision ─► credential ─► attempt ─┬─ accepted status ─► outputs, marked as untrusted
//!                        ▲                             ▲     ├─ can be repeated ─► wait ┐
//!                        │                             └─────│──────────────────────────┘
//!                        └─ redirect, if followed ◄──────────┴─ otherwise ─► failed
//! ```
//!
//! # Invariants
//! * Data of a run chooses neither the host of a request nor its credential: both are fixed in the definition.
//! * A request goes only to a host of the operator's list, and a credential only to a host of its audience. Redirects are checked
//!   like the first request.
//! * A request that may have been executed is sent again only if it is idempotent, or if the author says that the server honours
//!   the idempotency key.
//! * No error quotes a body, a query or a header.

mod body;
mod egress;
mod response;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::definition::config::{HttpMethod, HttpRequestConfig, UrlTemplate};
use flow::engine::{NodeCall, Reported};
use flow::failure::FailureCode;
use flow::state::RunError;
use http::Method;
use http::header::{LOCATION, RETRY_AFTER};
use outbound::{Call, CallError, Client, ConnectError, Limits, Reply};
use serde_json::json;
use system::secrets::Secrets;

use self::egress::Decision;
pub use self::egress::{Credential, HostPattern, HostPatternError};
use super::reach::Reach;
use super::{NodeRequest, Performed};
use crate::failure::ExecutorErrorCode;

/// The longest pause that a server can request with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What nodes may request: the hosts that the operator allows, and the credentials for them.
#[derive(Clone)]
pub struct HttpAccess {
    client: Client,
    hosts: Vec<HostPattern>,
    credentials: BTreeMap<String, Credential>,
    secrets: Arc<dyn Secrets>,
}

impl fmt::Debug for HttpAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpAccess").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl HttpAccess {
    /// Access to these hosts. The client decides which addresses they may have.
    pub fn new(client: Client, hosts: Vec<HostPattern>, secrets: Arc<dyn Secrets>) -> Self {
        Self { client, hosts, credentials: BTreeMap::new(), secrets }
    }

    /// Adds a credential.
    #[must_use]
    pub fn with(mut self, name: &str, credential: Credential) -> Self {
        self.credentials.insert(name.to_owned(), credential);
        self
    }

    /// Whether any host is allowed.
    pub const fn is_served(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether a credential with this name exists, for any tenant.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.credentials.contains_key(name)
    }

    /// Whether the host of a URL is on the operator's list.
    pub(super) fn allows(&self, url: &UrlTemplate<'_>) -> bool {
        let target = self.client.check(url.origin());
        target.is_ok_and(|target| self.hosts.iter().any(|pattern| pattern.matches(target.host())))
    }
}

/// Executes a node.
pub(super) async fn perform(access: &HttpAccess, asked: NodeRequest<'_>) -> Performed {
    let mut reports = Vec::new();
    let outcome = match serde_json::from_value(asked.call.config.clone().into()) {
        Ok(config) => request(access, asked, &config, &mut reports).await,
        Err(error) => {
            let message = format!("the configuration of the node is invalid: {error}");
            Err(RunError::of(ExecutorErrorCode::ConfigInvalid, message))
        }
    };
    Performed { reports, outcome }
}

/// What a request reaches: nothing that it could change if its method is safe.
pub(super) fn reach<'a>(call: &NodeCall, id: &'a str) -> Reach<'a> {
    match serde_json::from_value::<HttpRequestConfig>(call.config.clone().into()) {
        Ok(config) if !config.method.is_safe() => {
            Reach::Outside { provider_key: config.sends_key().then_some(id) }
        }
        // An invalid request fails before it is sent.
        Ok(_) | Err(_) => Reach::Nothing,
    }
}

/// A request that is ready to be sent.
struct Outgoing {
    method: Method,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

async fn request(
    access: &HttpAccess,
    asked: NodeRequest<'_>,
    config: &HttpRequestConfig,
    reports: &mut Vec<Reported>,
) -> Result<serde_json::Value, RunError> {
    if asked.again && !config.is_repeatable() {
        let message = format!(
            "the host stopped while it sent this {} request, so it is unknown whether the server executed it; set \
             `idempotency.honoured` if the server honours `Idempotency-Key`",
            config.method
        );
        return Err(RunError::of(FailureCode::EffectOutcomeUnknown, message));
    }
    let (inputs, variables) = (&asked.call.inputs, &asked.call.variables);
    let invalid_url = |message: String| RunError::of(ExecutorErrorCode::InvalidUrl, message);
    let template = UrlTemplate::parse(&config.url).map_err(|error| invalid_url(error.to_string()))?;
    let filled = template.fill(|name| inputs.get(name).or_else(|| variables.get(name)));
    let mut url = filled.map_err(|name| {
        invalid_url(format!(
            "the URL needs a string, number or boolean for `{{{{{name}}}}}`; add an input `{name}`"
        ))
    })?;
    let mut outgoing = Outgoing {
        method: method(config.method),
        headers: config.headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect(),
        body: Vec::new(),
    };
    body::add(config, inputs.get("body"), &mut outgoing)?;
    let key = config.sends_key().then(|| asked.invocation.as_str().to_owned());
    outgoing.headers.extend(key.clone().map(|key| ("idempotency-key".to_owned(), key)));

    let begun = Instant::now();
    let (mut attempts, mut redirects) = (0, 0);
    let reply = loop {
        let decision = access.decide(asked.tenant, &url, asked.call.credential.as_deref());
        reports.extend(decision.report());
        let (target, credential) = match decision {
            Decision::Allowed { target, credential, .. } => (target, credential),
            Decision::Denied { error, .. } => return Err(error),
        };
        let mut reply =
            attempt(access, &asked, config, &outgoing, (&target, credential), &mut attempts).await?;
        let next = redirect(&reply, &url).filter(|_| redirects < config.follow_redirects());
        let Some(next) = next else {
            break response::read(config, &mut reply).await?;
        };
        follow(reply.status, &mut outgoing);
        reply.discard();
        (url, redirects) = (next, redirects + 1);
    };
    let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut outputs = json!({
        "status": reply.status, "headers": reply.headers, "body": reply.body, "durationMs": duration, "attempts": attempts,
        "contentTrust": "untrusted",
    });
    if let Some(key) = key {
        outputs["idempotencyKey"] = key.into();
    }
    if !config.accepts(reply.status) {
        let message =
            format!("the server replied with the status {}, which the node does not accept", reply.status);
        let details = json!({"status": reply.status, "attempts": attempts});
        return Err(RunError::of(ExecutorErrorCode::HttpStatus, message).with(details));
    }
    Ok(outputs)
}

/// Sends the request until a reply arrives that is not worth another attempt.
async fn attempt(
    access: &HttpAccess,
    asked: &NodeRequest<'_>,
    config: &HttpRequestConfig,
    outgoing: &Outgoing,
    (target, credential): (&outbound::Target, Option<(String, String)>),
    attempts: &mut u32,
) -> Result<Reply, RunError> {
    let mut headers: Vec<(&str, &str)> =
        outgoing.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    headers.extend(credential.as_ref().map(|(name, value)| (name.as_str(), value.as_str())));
    loop {
        *attempts += 1;
        let call = Call {
            method: outgoing.method.clone(),
            target,
            headers: &headers,
            body: outgoing.body.clone().into(),
            limits: Limits {
                head: config.timeout(),
                whole: Some(config.timeout()),
                body: config.response.max_bytes(),
            },
        };
        let sent = access.client.send(call).await;
        let is_last = *attempts >= config.retry.max_attempts();
        let pause = match &sent {
            Ok(reply) => retry_after(reply, config),
            Err(error) => can_retry(error, config).then_some(None),
        };
        match pause {
            Some(requested) if !is_last => {
                let pause = requested.unwrap_or_else(|| config.retry.delay(*attempts));
                if let Ok(reply) = sent {
                    reply.discard();
                }
                tokio::time::sleep(pause).await;
                if !asked.ledger.is_wanted().await {
                    let message =
                        "the run does not need the response any more, so the request was not repeated";
                    return Err(RunError::of(ExecutorErrorCode::HttpCancelled, message));
                }
            }
            Some(_) | None => return sent.map_err(|error| failed(&error, *attempts)),
        }
    }
}

/// Whether a failed attempt may be repeated: nothing was sent, or a repetition does no harm.
fn can_retry(error: &CallError, config: &HttpRequestConfig) -> bool {
    match error {
        CallError::Unsent(_) => true,
        CallError::Connect(cause) => match &**cause {
            ConnectError::Name(_)
            | ConnectError::Unreachable(_)
            | ConnectError::Proxy(_)
            | ConnectError::Tls(_) => true,
            // The next attempt would be refused for the same reason.
            ConnectError::Target(_) | ConnectError::Forbidden => false,
        },
        CallError::Reply(_) | CallError::HeadTimeout(_) | CallError::BodyTimeout(_) => config.is_repeatable(),
        CallError::Target(_) | CallError::Request(_) | CallError::TooLarge(_) | CallError::Status(_) => false,
    }
}

/// Whether a reply asks for another attempt, and after which pause.
fn retry_after(reply: &Reply, config: &HttpRequestConfig) -> Option<Option<Duration>> {
    let is_temporary = matches!(reply.status, 408 | 425 | 429 | 502 | 503 | 504);
    if !is_temporary || !config.is_repeatable() || config.accepts(reply.status) {
        return None;
    }
    let requested = reply.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = requested.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    Some(seconds.map(|pause| pause.min(MAX_RETRY_AFTER)))
}

/// The URL that a reply redirects to.
fn redirect(reply: &Reply, from: &str) -> Option<String> {
    let is_redirect = matches!(reply.status, 301 | 302 | 303 | 307 | 308);
    let location = reply.headers.get(LOCATION).filter(|_| is_redirect)?.to_str().ok()?;
    let next = url::Url::parse(from).ok()?.join(location).ok()?;
    Some(next.into())
}

/// Changes a request as its redirect requires: other statuses than 307 and 308 turn it into a `GET`, as browsers do.
fn follow(status: u16, outgoing: &mut Outgoing) {
    let keeps =
        matches!(status, 307 | 308) || outgoing.method == Method::GET || outgoing.method == Method::HEAD;
    if !keeps {
        outgoing.method = Method::GET;
        outgoing.body.clear();
        outgoing.headers.retain(|(name, _)| name != "content-type" && name != "idempotency-key");
    }
}

fn failed(error: &CallError, attempts: u32) -> RunError {
    let code = match error {
        CallError::HeadTimeout(_) | CallError::BodyTimeout(_) => ExecutorErrorCode::HttpTimeout,
        CallError::TooLarge(_) => ExecutorErrorCode::HttpResponseTooLarge,
        CallError::Target(_) => ExecutorErrorCode::EgressDenied,
        CallError::Request(_) => ExecutorErrorCode::ConfigInvalid,
        CallError::Connect(cause) => match &**cause {
            ConnectError::Target(_) | ConnectError::Forbidden => ExecutorErrorCode::EgressDenied,
            ConnectError::Tls(_) => ExecutorErrorCode::HttpTls,
            ConnectError::Name(_) | ConnectError::Unreachable(_) | ConnectError::Proxy(_) => {
                ExecutorErrorCode::HttpConnect
            }
        },
        CallError::Unsent(_) | CallError::Reply(_) | CallError::Status(_) => ExecutorErrorCode::HttpConnect,
    };
    RunError::of(code, format!("the request failed: {error}")).with(json!({"attempts": attempts}))
}

const fn method(method: HttpMethod) -> Method {
    match method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Options => Method::OPTIONS,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
    }
}
