//! Providers of models, over HTTP.

use std::time::Duration;

use ai::provider::http::{BaseUrl, Credential, Endpoint, HttpRequest};
use ai::provider::{MAX_REPLY_BYTES, ProviderError, ProviderErrorKind, Reply, Request, anthropic, openai};

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use tokio::time::Instant;

use super::live::{Live, Reading};
use crate::runs::outbound::{Answer, CallError, Outbound};

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
    /// Where it is.
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
        outbound: &Outbound,
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
        let target = outbound.check(&url).map_err(|_| rejected())?;
        let mut sent: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let secret = secret.map(|secret| (secret.name, secret.expose()));
        sent.extend(secret.as_ref().map(|(name, value)| (*name, value.as_str())));
        let deadline = Instant::now() + TIME_OUT;
        let late = |_| ProviderError::invalid("there was no whole answer in time");
        let exchange = outbound.exchange(Method::POST, &target, &sent, body);
        let answer = tokio::time::timeout_at(deadline, exchange).await.map_err(late)?;
        let answer = answer.map_err(|error| unreachable(&error))?;
        match live {
            Some(live) if is_stream(&answer) => {
                told(answer, Reading::new(self.wire, &request), live, deadline).await
            }
            _ => tokio::time::timeout_at(deadline, self.whole(&request, answer)).await.map_err(late)?,
        }
    }

    /// Reads an answer of any status that comes at once, up to a bound.
    async fn whole(&self, request: &Request, mut answer: Answer) -> Result<Reply, ProviderError> {
        let mut body = Vec::new();
        while let Some(part) = answer.next().await.map_err(|error| unreachable(&error))? {
            if body.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(ProviderError::invalid("the answer is too large"));
            }
            body.extend_from_slice(&part);
        }
        let header = |name: &str| answer.headers.get(name)?.to_str().ok().map(str::to_owned);
        match self.wire {
            Wire::OpenAi => openai::reply(answer.status, &header, &body),
            Wire::Anthropic => anthropic::reply(request, answer.status, &header, &body),
        }
    }
}

/// Whether an answer comes piece by piece. A failure does not, and neither do servers that know no streams.
fn is_stream(answer: &Answer) -> bool {
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    (200..300).contains(&answer.status) && media.trim_start().starts_with("text/event-stream")
}

/// Reads an answer that comes piece by piece, and tells the pieces. What is being told is told to its end, however late it is.
async fn told(
    mut answer: Answer,
    mut reading: Reading,
    mut live: Live<'_>,
    deadline: Instant,
) -> Result<Reply, ProviderError> {
    // What came was paid for and seen: it is not asked for again because the rest of it did not come.
    let early = || ProviderError::invalid("the answer ended early");
    let mut length = 0;
    loop {
        let until = live.due().map_or(deadline, |due| due.min(deadline));
        let part = match tokio::time::timeout_at(until, answer.next()).await {
            Ok(part) => part.map_err(|error| unreachable(&error))?,
            Err(_) if live.due().is_some_and(|due| due < deadline) => {
                live.tell().await;
                continue;
            }
            Err(_) => return Err(ProviderError::invalid("there was no whole answer in time")),
        };
        let Some(part) = part else { break };
        length += part.len();
        if length > MAX_STREAM_BYTES {
            return Err(ProviderError::invalid("the answer is too large"));
        }
        let deltas = reading.feed(&part).map_err(|error| if live.has_begun() { early() } else { error })?;
        live.hear(deltas);
    }
    reading.finish().map_err(|_| early())
}

/// It cannot be sent at all: a credential that is none, an address that may not be called, or one that would be sent it in the clear.
fn rejected() -> ProviderError {
    ProviderError { kind: ProviderErrorKind::Rejected, ..ProviderError::unavailable() }
}

/// No answer. Only where nothing can have been sent may it be tried again.
const fn unreachable(error: &CallError) -> ProviderError {
    match error {
        CallError::Name | CallError::Connect | CallError::Tls => ProviderError::unavailable(),
        _ => ProviderError::invalid("the answer ended early"),
    }
}
