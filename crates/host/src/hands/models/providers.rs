//! Providers of models, over HTTP.

use std::time::Duration;

use ai::provider::http::{BaseUrl, Credential, Endpoint, HttpRequest};
use ai::provider::{MAX_REPLY_BYTES, ProviderError, ProviderErrorKind, Reply, Request, anthropic, openai};

use hyper::Method;
use hyper::header::HeaderMap;

use crate::runs::outbound::{CallError, Outbound, Target};

/// How long a model may take to answer.
const TIME_OUT: Duration = Duration::from_secs(300);
/// How many bytes an answer may have: a reply, and what stands around it.
const MAX_ANSWER_BYTES: usize = 2 * MAX_REPLY_BYTES;

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
    /// Asks, and reads the answer whole: it is recorded whole, and nobody sees a part of what may be refused in the end.
    pub(super) async fn send(
        &self,
        outbound: &Outbound,
        request: &Request,
        credential: Option<&str>,
        idempotency_key: &str,
    ) -> Result<Reply, ProviderError> {
        let credential = credential.map(Credential::new).transpose();
        let credential = credential.map_err(|_| rejected())?;
        let endpoint = Endpoint {
            base: self.base.clone(),
            credential,
            idempotency_key: Some(idempotency_key.to_owned()),
        };
        let request = Request { stream: false, ..request.clone() };
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
        let exchange = exchange(outbound, &target, &sent, body);
        let (status, headers, body) = match tokio::time::timeout(TIME_OUT, exchange).await {
            Ok(answered) => answered?,
            Err(_) => return Err(ProviderError::invalid("there was no whole answer in time")),
        };
        let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        match self.wire {
            Wire::OpenAi => openai::reply(status, &header, &body),
            Wire::Anthropic => anthropic::reply(&request, status, &header, &body),
        }
    }
}

/// Sends, and reads an answer of any status, up to a bound.
async fn exchange(
    outbound: &Outbound,
    target: &Target,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Result<(u16, HeaderMap, Vec<u8>), ProviderError> {
    let asked = outbound.exchange(Method::POST, target, headers, body).await;
    let mut answer = asked.map_err(|error| unreachable(&error))?;
    let mut whole = Vec::new();
    while let Some(part) = answer.next().await.map_err(|error| unreachable(&error))? {
        if whole.len() + part.len() > MAX_ANSWER_BYTES {
            return Err(ProviderError::invalid("the answer is too large"));
        }
        whole.extend_from_slice(&part);
    }
    Ok((answer.status, std::mem::take(&mut answer.headers), whole))
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
