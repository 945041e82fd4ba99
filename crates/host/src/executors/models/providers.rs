//! Providers of models, over HTTP.

use std::time::Duration;

use ai::provider::http::{BaseUrl, Credential, Endpoint, HttpRequest};
use ai::provider::{MAX_REPLY_BYTES, ProviderError, ProviderErrorKind, Reply, Request, anthropic, openai};
use http::Method;
use http::header::CONTENT_TYPE;
use outbound::{Call, CallError, Client, Limits, Reply as HttpReply};

use super::live::{Live, Reading};

/// How long a model may take to answer.
const TIME_OUT: Duration = Duration::from_secs(300);
/// How many bytes an answer may have: a reply, and what stands around it.
const MAX_ANSWER_BYTES: usize = 2 * MAX_REPLY_BYTES;
/// The same, where every few letters have an event around them.
const MAX_STREAM_BYTES: usize = 32 * MAX_REPLY_BYTES;

/// What a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Chat completions, as many servers speak them.
    OpenAi,
    /// Messages.
    Anthropic,
}

/// A provider of models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What it speaks.
    pub wire: Wire,
    pub base: BaseUrl,
    /// Its credential, by the name of a secret.
    pub secret: Option<String>,
    /// The model that is asked where nobody names one.
    pub model: Option<String>,
}

impl Provider {
    /// Asks, and reads the answer. With `live` it is asked for piece by piece, and the pieces are told as they come.
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
        let limits = Limits { head: TIME_OUT, whole: Some(TIME_OUT), body: MAX_ANSWER_BYTES };
        let call = Call { method: Method::POST, target: &target, headers: &sent, body: body.into(), limits };
        let answer = client.send(call).await.map_err(|error| failed(&error))?;
        match live {
            Some(live) if is_stream(&answer) => told(answer, Reading::new(self.wire, &request), live).await,
            _ => self.whole(&request, answer).await,
        }
    }

    /// Reads an answer of any status that comes at once, up to a bound.
    async fn whole(&self, request: &Request, mut answer: HttpReply) -> Result<Reply, ProviderError> {
        let body = answer.bytes().await.map_err(|error| failed(&error))?;
        let header = |name: &str| answer.headers.get(name)?.to_str().ok().map(str::to_owned);
        match self.wire {
            Wire::OpenAi => openai::reply(answer.status, &header, &body),
            Wire::Anthropic => anthropic::reply(request, answer.status, &header, &body),
        }
    }
}

/// Whether an answer comes piece by piece. A failure does not, and neither do servers that know no streams.
fn is_stream(answer: &HttpReply) -> bool {
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    (200..300).contains(&answer.status) && media.trim_start().starts_with("text/event-stream")
}

/// Reads an answer that comes piece by piece, and tells the pieces. What is being told is told to its end, however late it is.
async fn told(
    mut answer: HttpReply,
    mut reading: Reading,
    mut live: Live<'_>,
) -> Result<Reply, ProviderError> {
    // What came was paid for and seen: it is not asked for again because the rest of it did not come.
    let early = || ProviderError::invalid("the answer ended early");
    answer.limit_body(MAX_STREAM_BYTES);
    loop {
        let part = match live.due() {
            None => answer.next().await,
            Some(due) => match tokio::time::timeout_at(due, answer.next()).await {
                Ok(part) => part,
                Err(_) => {
                    live.tell().await;
                    continue;
                }
            },
        };
        let Some(part) = part.map_err(|error| failed(&error))? else { break };
        let deltas = reading.feed(&part).map_err(|error| if live.has_begun() { early() } else { error })?;
        live.hear(deltas);
    }
    reading.finish().map_err(|_| early())
}

/// It cannot be sent at all: a credential that is none, an address that may not be called, or one that would be sent it in the clear.
fn rejected() -> ProviderError {
    ProviderError { kind: ProviderErrorKind::Rejected, ..ProviderError::unavailable() }
}

/// No usable answer. It may be tried again only if nothing of the request was sent.
fn failed(error: &CallError) -> ProviderError {
    match error {
        CallError::Target(_) | CallError::Request(_) => rejected(),
        CallError::Connect(_) | CallError::Unsent(_) => ProviderError::unavailable(),
        CallError::HeadTimeout(_) | CallError::BodyTimeout(_) => {
            ProviderError::invalid("there was no whole answer in time")
        }
        CallError::TooLarge(_) => ProviderError::invalid("the answer is too large"),
        CallError::Reply(_) | CallError::Status(_) => ProviderError::invalid("the answer ended early"),
    }
}
