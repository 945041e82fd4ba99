//! Model providers over HTTP.

use std::time::Duration;

use ai::provider::http::{BaseUrl, Credential, Endpoint, HttpRequest};
use ai::provider::{MAX_REPLY_BYTES, ProviderError, ProviderErrorKind, Reply, Request, anthropic, openai};
use http::Method;
use http::header::CONTENT_TYPE;
use outbound::{Call, CallError, Client, Limits, Reply as HttpReply};

use super::live::{Live, Reading};

const TIMEOUT: Duration = Duration::from_secs(300);
/// The maximum size of a response, in bytes: a reply with its JSON.
const MAX_ANSWER_BYTES: usize = 2 * MAX_REPLY_BYTES;
/// The maximum size of a streamed response, in which every few letters are an event.
const MAX_STREAM_BYTES: usize = 32 * MAX_REPLY_BYTES;

/// The protocol of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Chat completions, which many servers support.
    OpenAi,
    /// Messages.
    Anthropic,
}

#[derive(Clone, Debug)]
pub struct Provider {
    /// The protocol.
    pub wire: Wire,
    pub base: BaseUrl,
    /// The name of the secret with its credential.
    pub secret: Option<String>,
    /// The default model.
    pub model: Option<String>,
}

impl Provider {
    /// Sends a request and reads the reply. With `live`, the reply is streamed and reported while it arrives.
    pub(super) async fn send(
        &self,
        client: &Client,
        request: &Request,
        credential: Option<&str>,
        idempotency_key: &str,
        live: Option<Live<'_>>,
    ) -> Result<Reply, ProviderError> {
        let credential = credential.map(Credential::new).transpose();
        let credential = credential.map_err(|_| rejected())?;
        let endpoint = Endpoint {
            base: self.base.clone(),
            credential,
            idempotency_key: Some(idempotency_key.to_owned()),
        };
        let request = Request { stream: live.is_some(), ..request.clone() };
        let asked = match self.wire {
            Wire::OpenAi => openai::request(&request, &endpoint),
            Wire::Anthropic => anthropic::request(&request, &endpoint),
        };
        let HttpRequest { url, headers, secret, body, .. } = asked.map_err(|_| rejected())?;
        let target = client.check(&url).map_err(|_| rejected())?;
        let mut sent: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let secret = secret.map(|secret| (secret.name, secret.expose()));
        sent.extend(secret.as_ref().map(|(name, value)| (*name, value.as_str())));
        let limits = Limits { head: TIMEOUT, whole: Some(TIMEOUT), body: MAX_ANSWER_BYTES };
        let call = Call { method: Method::POST, target: &target, headers: &sent, body: body.into(), limits };
        let answer = client.send(call).await.map_err(|error| failed(&error))?;
        match live {
            Some(live) if is_stream(&answer) => stream(answer, Reading::new(self.wire, &request), live).await,
            _ => self.whole(&request, answer).await,
        }
    }

    /// Reads a response that is not streamed, of any status.
    async fn whole(&self, request: &Request, mut answer: HttpReply) -> Result<Reply, ProviderError> {
        let body = answer.bytes().await.map_err(|error| failed(&error))?;
        let header = |name: &str| answer.headers.get(name)?.to_str().ok().map(str::to_owned);
        match self.wire {
            Wire::OpenAi => openai::reply(answer.status, &header, &body),
            Wire::Anthropic => anthropic::reply(request, answer.status, &header, &body),
        }
    }
}

/// Whether a response is streamed. Errors are not, and some servers do not support streaming.
fn is_stream(answer: &HttpReply) -> bool {
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    (200..300).contains(&answer.status) && media.trim_start().starts_with("text/event-stream")
}

/// Reads a streamed response and reports its text. A report in progress is always completed.
async fn stream(
    mut answer: HttpReply,
    mut reading: Reading,
    mut live: Live<'_>,
) -> Result<Reply, ProviderError> {
    // The received part was charged and reported, so the request is not repeated if the rest is missing.
    let early = || ProviderError::invalid("the reply ended early");
    answer.limit_body(MAX_STREAM_BYTES);
    loop {
        let part = match live.due() {
            None => answer.next().await,
            Some(due) => match tokio::time::timeout_at(due, answer.next()).await {
                Ok(part) => part,
                Err(_) => {
                    live.report().await;
                    continue;
                }
            },
        };
        let Some(part) = part.map_err(|error| failed(&error))? else { break };
        let deltas = reading.feed(&part).map_err(|error| if live.has_begun() { early() } else { error })?;
        live.add(deltas);
    }
    reading.finish().map_err(|_| early())
}

/// The request cannot be sent: the credential is invalid, the address is not allowed, or the credential would be sent unencrypted.
fn rejected() -> ProviderError {
    ProviderError { kind: ProviderErrorKind::Rejected, ..ProviderError::unavailable() }
}

/// There is no valid response. The request may be repeated only if no part of it was sent.
fn failed(error: &CallError) -> ProviderError {
    match error {
        CallError::Target(_) | CallError::Request(_) => rejected(),
        CallError::Connect(_) | CallError::Unsent(_) => ProviderError::unavailable(),
        CallError::HeadTimeout(_) | CallError::BodyTimeout(_) => {
            ProviderError::invalid("no complete response arrived in time")
        }
        CallError::TooLarge(_) => ProviderError::invalid("the reply is too large"),
        CallError::Reply(_) | CallError::Status(_) => ProviderError::invalid("the reply ended early"),
    }
}
