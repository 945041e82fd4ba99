//! A client of a server: one of ours on this machine, or a registry of packs elsewhere.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use canon::error::Envelope;
use http::Method;
use http::header::LOCATION;
use outbound::{Call, CallError, Limits, Reach, Reply};
use serde_json::Value;
use url::Url;

use crate::commands::serve::{KEY_VARIABLE, LOCAL_KEY};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a document that is read; a snapshot of a run is the largest, and is less.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// The longest line of a stream of events: no event of a run is larger than a document.
const MAX_LINE_BYTES: usize = MAX_DOCUMENT_BYTES;
/// How many redirects of a registry are followed.
const MAX_REDIRECTS: usize = 5;

/// What to do about this machine's own server when it does not answer.
const ABOUT_OWN: &str = "Look at its log, or end it; without a server the run is carried out here.";
/// What to do about a registry that does not answer.
const ABOUT_REGISTRY: &str =
    "Check its address and whether it runs, try again later, or name another one with --registry.";

/// Asks a server, with a key or without.
pub(crate) struct Client {
    http: outbound::Client,
    url: String,
    key: Option<String>,
    advice: &'static str,
}

/// One request to the server, below its address.
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
    /// A client of the server at `url`, with the key of this machine. That key may do everything here, so the server is
    /// this machine's own and no other.
    pub(crate) fn of(url: &str, settings: &Settings) -> Result<Self, Failure> {
        let (http, url) = (direct(), url.to_owned());
        Ok(Self { http, url, key: Some(own_key(settings)?), advice: ABOUT_OWN })
    }

    /// A client of a registry on this machine, which is asked directly.
    pub(crate) fn of_registry_here(url: &str, key: Option<String>) -> Self {
        Self { http: direct(), url: url.to_owned(), key, advice: ABOUT_REGISTRY }
    }

    /// A client of a registry elsewhere, with a key that was given for it, or without any. The proxy of the environment may be on
    /// the way there.
    pub(crate) fn of_registry_elsewhere(url: &str, key: Option<String>) -> Self {
        let http = outbound::Client::through_environment();
        Self { http, url: url.to_owned(), key, advice: ABOUT_REGISTRY }
    }

    fn unreachable(&self, error: &CallError) -> Failure {
        match error {
            CallError::TooLarge(most) => {
                refused(&format!("the server at {} sends more than {most} bytes", self.url))
            }
            error => unreachable_server(&self.url, error, self.advice),
        }
    }

    /// The key, for whoever shows a person how to sign in.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    /// Whether the client has a key.
    pub(crate) const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a document, and gives what comes back.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let headers = &[("content-type", "application/json")];
        let request = Request::get(path, MAX_DOCUMENT_BYTES);
        let body = body.to_string().into();
        self.read(self.send(Request { method: Method::POST, headers, body, ..request }).await?).await
    }

    /// Reads a document.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.read(self.send(Request::get(path, MAX_DOCUMENT_BYTES)).await?).await
    }

    /// Reads a document, if it is there.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let reply = self.send(Request::get(path, MAX_DOCUMENT_BYTES)).await?;
        if reply.status == 404 { Ok(None) } else { self.read(reply).await.map(Some) }
    }

    /// Reads bytes, at most so many, if they are there.
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

    /// Sends bytes to a place of their own, and gives what comes back.
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

    /// Sends a request with the key, where there is one. What is only read may have moved; the key does not follow it to
    /// another server.
    async fn send(&self, request: Request<'_>) -> Result<Reply, Failure> {
        let given = format!("{}{}", self.url, request.path);
        // Written as it goes over the wire: percent-encoded, and international names in ASCII.
        let given =
            Url::parse(&given).map_err(|error| refused(&format!("`{given}` is not an address: {error}")))?;
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

    /// The document of an answer, or why there is none.
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

    /// The data of each event of a stream, until it ends or `take` has seen enough.
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

/// Whether a reader of a stream has seen what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// Where a document that is only read has moved to. Never from TLS to a connection without.
fn moved(method: &Method, from: &Url, reply: &Reply) -> Option<Url> {
    let to = match reply.status {
        301 | 302 | 303 | 307 | 308 if *method == Method::GET => reply.headers.get(LOCATION)?,
        _ => return None,
    };
    let to = from.join(to.to_str().ok()?).ok()?;
    (to.scheme() == "https" || to.scheme() == from.scheme()).then_some(to)
}

/// For servers on this machine. No proxy of the environment is asked: it would be told the key, which may do everything here.
fn direct() -> outbound::Client {
    outbound::Client::new(Reach::Anywhere)
}

/// Waits until this machine's own server answers.
pub(crate) async fn until_ready(url: &str) -> Result<(), Failure> {
    let client = Client { http: direct(), url: url.to_owned(), key: None, advice: ABOUT_OWN };
    client.send(Request::get("/readyz", MAX_DOCUMENT_BYTES)).await.map(drop)
}

/// The key of this machine: that of the environment, or the one that `serve` made.
pub(crate) fn own_key(settings: &Settings) -> Result<String, Failure> {
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        return Ok(key);
    }
    let path = settings.data_dir.value.join(LOCAL_KEY);
    std::fs::read_to_string(&path).map(|key| key.trim().to_owned()).map_err(|_| {
        Envelope::new(
            CommandErrorCode::KeyRequired,
            format!("the server wants a key, and there is none in {}", path.display()),
        )
        .suggest(format!("Set {KEY_VARIABLE} to a key that may create and read runs."))
        .into()
    })
}

/// Somebody else's server asks who this is.
pub(crate) fn key_wanted(url: &str) -> Failure {
    Envelope::new(CommandErrorCode::KeyRequired, format!("the server at {url} wants a key"))
        .suggest(
            "Ask whoever runs it for one, and name the file that has it with --api-key. \
             The key of this machine is sent to its own server only.",
        )
        .into()
}

pub(crate) fn refused(message: &str) -> Failure {
    refusal(message).into()
}

fn refusal(message: &str) -> Envelope {
    Envelope::new(CommandErrorCode::HostRefused, message).suggest("See what the server says, and try again.")
}

fn unreachable_server(url: &str, error: &(dyn Error + 'static), advice: &str) -> Failure {
    // What is around it says only that a request was sent.
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let message = format!("the server at {url} does not answer: {cause}");
    Envelope::new(CommandErrorCode::ServerUnreachable, message).suggest(advice).into()
}
