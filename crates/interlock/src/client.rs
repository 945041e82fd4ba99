//! A client of a server: one of ours on this machine, or a registry of packs elsewhere.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use canon::error::Envelope;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use crate::commands::serve::{KEY_VARIABLE, LOCAL_KEY};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of a document that is read; a snapshot of a run is the largest, and is less.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// What to do about this machine's own server when it does not answer.
const ABOUT_OWN: &str = "Look at its log, or end it; without a server the run is carried out here.";
/// What to do about a registry that does not answer.
const ABOUT_REGISTRY: &str =
    "Check its address and whether it runs, try again later, or name another one with --registry.";

/// Asks a server, with a key or without.
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
    advice: &'static str,
}

impl Client {
    /// A client of the server at `url`, with the key of this machine. That key may do everything here, so the server is
    /// this machine's own and no other.
    pub(crate) fn of(url: &str, settings: &Settings) -> Result<Self, Failure> {
        let http = direct().map_err(|error| unreachable_server(url, &*error, ABOUT_OWN))?;
        Ok(Self { http, url: url.to_owned(), key: Some(own_key(settings)?), advice: ABOUT_OWN })
    }

    /// A client of a registry on this machine, which is asked directly.
    pub(crate) fn of_registry_here(url: &str, key: Option<String>) -> Result<Self, Failure> {
        Self::of_registry(url, key, direct())
    }

    /// A client of a registry elsewhere, with a key that was given for it, or without any. The proxy of the environment may be on
    /// the way there.
    pub(crate) fn of_registry_elsewhere(url: &str, key: Option<String>) -> Result<Self, Failure> {
        Self::of_registry(url, key, elsewhere())
    }

    fn of_registry(url: &str, key: Option<String>, http: Made) -> Result<Self, Failure> {
        let http = http.map_err(|error| unreachable_server(url, &*error, ABOUT_REGISTRY))?;
        Ok(Self { http, url: url.to_owned(), key, advice: ABOUT_REGISTRY })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        unreachable_server(&self.url, error, self.advice)
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
        self.answer(self.http.post(format!("{}{path}", self.url)).body(body.to_string())).await
    }

    /// Reads a document.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.http.get(format!("{}{path}", self.url))).await
    }

    /// Reads a document, if it is there.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let request = self.signed_in(self.http.get(format!("{}{path}", self.url))).timeout(PATIENCE);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().as_u16() == 404 {
            return Ok(None);
        }
        self.read(response).await.map(Some)
    }

    /// Reads bytes, at most so many, if they are there.
    pub(crate) async fn find_bytes(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        let request = self.signed_in(self.http.get(format!("{}{path}", self.url))).timeout(PATIENCE);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        match response.status() {
            status if status.is_success() => self.bytes(response, most).await.map(Some),
            status if status.as_u16() == 404 => Ok(None),
            _ => self.read(response).await.map(|_| None),
        }
    }

    /// The bytes of an answer, at most so many: a server that never stops sending is left.
    async fn bytes(&self, mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if bytes.len() + chunk.len() > most {
                return Err(refused(&format!("the server at {} sends more than {most} bytes", self.url)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Sends bytes to a place of their own, and gives what comes back.
    pub(crate) async fn put(
        &self,
        path: &str,
        bytes: Vec<u8>,
        headers: &[(&'static str, String)],
    ) -> Result<Value, Failure> {
        let mut request = self.signed_in(self.http.put(format!("{}{path}", self.url))).timeout(PATIENCE);
        request = request.header("Content-Type", "application/octet-stream").body(bytes);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.read(response).await
    }

    /// The request with the key, where there is one.
    fn signed_in(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let request = self.signed_in(request).header("Content-Type", "application/json").timeout(PATIENCE);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.read(response).await
    }

    /// The document of an answer, or why there is none.
    async fn read(&self, response: reqwest::Response) -> Result<Value, Failure> {
        let status = response.status();
        let body = self.bytes(response, MAX_DOCUMENT_BYTES).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(body);
        }
        if status.as_u16() == 401 && self.key.is_none() {
            return Err(key_wanted(&self.url));
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Err(refusal(&format!("{}: {}", text("error"), text("message")))
            .detail("status", status.as_u16())
            .into())
    }

    /// The data of each event of a stream, until it ends or `take` has seen enough.
    pub(crate) async fn stream(
        &self,
        path: &str,
        mut take: impl FnMut(&str) -> Result<Enough, Failure>,
    ) -> Result<(), Failure> {
        let request = self.signed_in(self.http.get(format!("{}{path}", self.url)));
        let request = request.header("Accept", "text/event-stream");
        let mut response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let mut rest = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
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

/// A client of HTTP, or why there is none.
type Made = Result<reqwest::Client, Box<dyn Error + Send + Sync>>;

/// For servers on this machine. No proxy of the environment is asked: it would be told the key, which may do everything here.
pub(crate) fn direct() -> Made {
    Ok(reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls(Vec::new())?).build()?)
}

/// For servers elsewhere, with the authorities of the system.
fn elsewhere() -> Made {
    let authorities = rustls_native_certs::load_native_certs().certs;
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls(authorities)?).build()?)
}

/// A system without authorities is no reason to ask nobody: only who has to prove something to them is not believed.
fn tls(authorities: Vec<CertificateDer<'static>>) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let settings =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(settings.with_root_certificates(roots).with_no_client_auth())
}

/// Waits until this machine's own server answers.
pub(crate) async fn until_ready(url: &str) -> Result<(), Failure> {
    let http = direct().map_err(|error| unreachable_server(url, &*error, ABOUT_OWN))?;
    let answered = http.get(format!("{url}/readyz")).send().await;
    answered.map(drop).map_err(|error| unreachable_server(url, &error, ABOUT_OWN))
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
