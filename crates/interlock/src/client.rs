//! An HTTP client for the local server, for contexts and for pack registries.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use canon::error::Envelope;
use http::Method;
use http::header::LOCATION;
use outbound::{Call, CallError, Limits, Reach, Reply};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use url::Url;

use crate::commands::serve::{KEY_VARIABLE, LOCAL_KEY};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

const PATIENCE: Duration = Duration::from_secs(30);
/// The largest document, in bytes. Run snapshots are the largest and are smaller than this.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// The longest line of an event stream: no event is larger than a document.
const MAX_LINE_BYTES: usize = MAX_DOCUMENT_BYTES;
/// How many redirects of a registry are followed.
const MAX_REDIRECTS: usize = 5;

const ABOUT_OWN: &str =
    "Check the server's log, or stop the server; without one, this command runs the workflow itself.";
const ABOUT_CONTEXT: &str =
    "Check the URL with `interlock context list`, the network, and that the server is running.";
const ABOUT_REGISTRY: &str =
    "Check the URL and that the server is running, retry later, or use another registry with --registry.";

/// Sends requests to one server, with or without a key.
pub(crate) struct Client {
    http: outbound::Client,
    url: String,
    key: Option<String>,
    advice: &'static str,
}

/// One request, relative to the server's URL.
struct Request<'a> {
    method: Method,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Bytes,
    limits: Limits,
}

impl Request<'_> {
    const fn get(path: &str, most: usize) -> Request<'_> {
        let limits = Limits { head: PATIENCE, whole: Some(PATIENCE), body: most };
        Request { method: Method::GET, path, headers: &[], body: Bytes::new(), limits }
    }
}

impl Client {
    /// A client for the local server at `url`, with the local key. That key has all rights here, so
    /// it must never be sent to another server.
    pub(crate) fn of(url: &str, settings: &Settings) -> Result<Self, Failure> {
        let (http, url) = (direct(), url.to_owned());
        Ok(Self { http, url, key: Some(own_key(settings)?), advice: ABOUT_OWN })
    }

    /// A client for the server of a context, with the key and the certificate authorities (PEM) of that context. The proxy of
    /// the environment is used, except for servers on this machine.
    pub(crate) fn of_context(
        url: &str,
        key: Option<String>,
        authorities: Option<Vec<u8>>,
    ) -> Result<Self, Failure> {
        let here = Url::parse(url).is_ok_and(|url| url.scheme() == "http");
        let http = if here { direct() } else { outbound::Client::through_environment() };
        let http = match authorities {
            None => http,
            Some(pem) => http.trusting(certificates(&pem)?),
        };
        Ok(Self { http, url: url.to_owned(), key, advice: ABOUT_CONTEXT })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and returns the status and the document of the reply; null if it has none.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Failure> {
        let headers = [("content-type", "application/json")];
        let request = Request {
            method,
            headers: if body.is_some() { &headers } else { &[] },
            body: body.map(|body| Bytes::from(body.to_string())).unwrap_or_default(),
            ..Request::get(path, MAX_DOCUMENT_BYTES)
        };
        let mut reply = self.send(request).await?;
        let body = reply.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok((reply.status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// A client for a registry on this machine, without a proxy.
    pub(crate) fn of_registry_here(url: &str, key: Option<String>) -> Self {
        Self { http: direct(), url: url.to_owned(), key, advice: ABOUT_REGISTRY }
    }

    /// A client for a remote registry, with the key given for it or without one. The proxy of the
    /// environment is used.
    pub(crate) fn of_registry_elsewhere(url: &str, key: Option<String>) -> Self {
        let http = outbound::Client::through_environment();
        Self { http, url: url.to_owned(), key, advice: ABOUT_REGISTRY }
    }

    fn unreachable(&self, error: &CallError) -> Failure {
        match error {
            CallError::TooLarge(most) => {
                refused(&format!("the response of {} is larger than {most} bytes", self.url))
            }
            error => unreachable_server(&self.url, error, self.advice),
        }
    }

    /// The key, to show how to sign in.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    pub(crate) const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a document and returns the response document.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let headers = &[("content-type", "application/json")];
        let request = Request::get(path, MAX_DOCUMENT_BYTES);
        let body = body.to_string().into();
        self.read(self.send(Request { method: Method::POST, headers, body, ..request }).await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.read(self.send(Request::get(path, MAX_DOCUMENT_BYTES)).await?).await
    }

    /// Reads a document; `None` if it does not exist.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let reply = self.send(Request::get(path, MAX_DOCUMENT_BYTES)).await?;
        if reply.status == 404 { Ok(None) } else { self.read(reply).await.map(Some) }
    }

    /// Reads at most `most` bytes; `None` if the resource does not exist.
    pub(crate) async fn find_bytes(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        let mut reply = self.send(Request::get(path, most)).await?;
        match reply.status {
            200..=299 => reply.bytes().await.map(Some).map_err(|error| self.unreachable(&error)),
            404 => Ok(None),
            _ => {
                reply.limit_body(MAX_DOCUMENT_BYTES);
                self.read(reply).await.map(|_| None)
            }
        }
    }

    /// Uploads bytes with PUT and returns the response document.
    pub(crate) async fn put(
        &self,
        path: &str,
        bytes: Vec<u8>,
        headers: &[(&'static str, String)],
    ) -> Result<Value, Failure> {
        let mut sent = vec![("content-type", "application/octet-stream")];
        sent.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
        let request = Request::get(path, MAX_DOCUMENT_BYTES);
        let reply =
            self.send(Request { method: Method::PUT, headers: &sent, body: bytes.into(), ..request }).await?;
        self.read(reply).await
    }

    /// Sends a request with the key, if any. Reads follow redirects, but the key is not sent to
    /// another server.
    async fn send(&self, request: Request<'_>) -> Result<Reply, Failure> {
        let given = format!("{}{}", self.url, request.path);
        // As sent over the wire: percent-encoded, and international domain names in ASCII.
        let given =
            Url::parse(&given).map_err(|error| refused(&format!("`{given}` is not a valid URL: {error}")))?;
        let bearer = self.key.as_ref().map(|key| format!("Bearer {key}"));
        let mut url = given.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut headers = request.headers.to_vec();
            let bearer = bearer.as_deref().filter(|_| url.origin() == given.origin());
            headers.extend(bearer.map(|bearer| ("authorization", bearer)));
            let target = self.http.check(url.as_str()).map_err(|error| self.unreachable(&error.into()))?;
            let call = Call {
                method: request.method.clone(),
                target: &target,
                headers: &headers,
                body: request.body.clone(),
                limits: request.limits,
            };
            let reply = self.http.send(call).await.map_err(|error| self.unreachable(&error))?;
            match moved(&request.method, &url, &reply) {
                Some(next) => url = next,
                None => return Ok(reply),
            }
        }
        Err(refused(&format!("the server at {} redirects more than {MAX_REDIRECTS} times", self.url)))
    }

    /// The response document, or the error of the server.
    async fn read(&self, mut reply: Reply) -> Result<Value, Failure> {
        let body = reply.bytes().await.map_err(|error| self.unreachable(&error))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        match reply.status {
            200..=299 => return Ok(body),
            401 if self.key.is_none() => return Err(key_wanted(&self.url)),
            _ => {}
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let message = format!("{}: {}", text("error"), text("message"));
        Err(refusal(&message).detail("status", reply.status).into())
    }

    /// Passes the data of each event to `take`, until the stream ends or `take` returns `Enough`.
    pub(crate) async fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&str) -> Result<Enough, Failure>,
    ) -> Result<(), Failure> {
        let limits = Limits { head: PATIENCE, whole: None, body: usize::MAX };
        let headers = &[("accept", "text/event-stream")];
        let request = Request { headers, limits, ..Request::get(path, usize::MAX) };
        let mut reply = self.send(request).await?;
        let mut rest = Vec::new();
        while let Some(chunk) = reply.next().await.map_err(|error| self.unreachable(&error))? {
            if rest.len() + chunk.len() > MAX_LINE_BYTES {
                return Err(self.unreachable(&CallError::TooLarge(MAX_LINE_BYTES)));
            }
            rest.extend_from_slice(&chunk);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let Some(text) = line.trim_end().strip_prefix("data:").map(str::trim_start) else { continue };
                if take(text)? == Enough::Yes {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Whether the reader of a stream has seen what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// The target of a redirect, for reads only. Never from https to http.
fn moved(method: &Method, from: &Url, reply: &Reply) -> Option<Url> {
    let to = match reply.status {
        301 | 302 | 303 | 307 | 308 if *method == Method::GET => reply.headers.get(LOCATION)?,
        _ => return None,
    };
    let to = from.join(to.to_str().ok()?).ok()?;
    (to.scheme() == "https" || to.scheme() == from.scheme()).then_some(to)
}

/// The certificates of a PEM file.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Envelope::new(
            CommandErrorCode::ConfigInvalid,
            "the `ca` file of the context has no certificates",
        )
        .suggest("Use a PEM file with the certificates of the authorities to trust.")
        .into()),
    }
}

/// For servers on this machine. A proxy must not see the local key, so none is used.
fn direct() -> outbound::Client {
    outbound::Client::new(Reach::Anywhere)
}

/// Waits until the local server responds.
pub(crate) async fn until_ready(url: &str) -> Result<(), Failure> {
    let client = Client { http: direct(), url: url.to_owned(), key: None, advice: ABOUT_OWN };
    client.send(Request::get("/readyz", MAX_DOCUMENT_BYTES)).await.map(drop)
}

/// The local key: from the environment, or the one that `serve` created.
pub(crate) fn own_key(settings: &Settings) -> Result<String, Failure> {
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        return Ok(key);
    }
    let path = settings.data_dir.value.join(LOCAL_KEY);
    std::fs::read_to_string(&path).map(|key| key.trim().to_owned()).map_err(|_| {
        Envelope::new(
            CommandErrorCode::KeyRequired,
            format!("the server requires an API key, and {} does not exist", path.display()),
        )
        .suggest(format!("Set {KEY_VARIABLE} to a key with the scopes `runs:create` and `runs:read`."))
        .into()
    })
}

/// The error for a remote server that requires a key.
pub(crate) fn key_wanted(url: &str) -> Failure {
    Envelope::new(CommandErrorCode::KeyRequired, format!("the server at {url} requires an API key"))
        .suggest(
            "Ask its operator for a key, and pass the file that contains it with --api-key. \
             The local key is sent only to the local server.",
        )
        .into()
}

pub(crate) fn refused(message: &str) -> Failure {
    refusal(message).into()
}

fn refusal(message: &str) -> Envelope {
    Envelope::new(CommandErrorCode::HostRefused, message)
        .suggest("Fix the problem that the server reports, then retry.")
}

fn unreachable_server(url: &str, error: &(dyn Error + 'static), advice: &str) -> Failure {
    // The outer error only says that a request was sent.
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let message = format!("the server at {url} is not reachable: {cause}");
    Envelope::new(CommandErrorCode::ServerUnreachable, message).suggest(advice).into()
}
