//! The client: a connection pool and the connector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};

use crate::connect::Connector;
use crate::proxy::Proxy;
use crate::tls::{Authorities, Tls};
use crate::{Call, CallError, Names, Reach, Reply, SystemNames, Target, TargetError};

/// How long an idle connection is kept. Common servers close theirs after five seconds or more; closing first makes it
/// rare to send a request on a connection that the server is closing.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections per origin.
pub const MAX_IDLE_PER_ORIGIN: usize = 8;
/// The maximum size of a reply head, in bytes. It is checked between reads, so the last read may exceed it.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// Makes calls. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    connector: Connector,
    pool: legacy::Client<Connector, Full<Bytes>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("reach", &self.connector.reach).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for addresses within this reach, with the system's resolver and certificate authorities.
    pub fn new(reach: Reach) -> Self {
        let tls = Arc::new(Tls::new(Authorities::System));
        Self::of(Connector { reach, names: Arc::new(SystemNames), tls, proxy: None })
    }

    #[must_use]
    pub fn resolving(self, names: Arc<dyn Names>) -> Self {
        Self::of(Connector { names, ..self.connector })
    }

    /// Sets the trusted certificate authorities instead of the system's.
    #[must_use]
    pub fn trusting(self, authorities: Vec<CertificateDer<'static>>) -> Self {
        let tls = Arc::new(Tls::new(Authorities::Only(authorities)));
        Self::of(Connector { tls, ..self.connector })
    }

    /// A client for every address that uses the proxy from the environment, if set. The proxy resolves the names.
    pub fn through_environment() -> Self {
        let Self { connector, .. } = Self::new(Reach::Anywhere);
        Self::of(Connector { proxy: Some(Arc::new(Proxy::of_environment())), ..connector })
    }

    fn of(connector: Connector) -> Self {
        let pool = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_PER_ORIGIN)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            // Moves a request off a closed pooled connection, only if none of it was written.
            .retry_canceled_requests(true)
            .build(connector.clone());
        Self { connector, pool }
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// It must not be called.
    pub fn check(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, &self.connector.reach)
    }

    /// Sends a request and returns the reply as soon as its head has arrived, whatever its status.
    ///
    /// # Errors
    /// No connection, no reply, or a timeout.
    pub async fn send(&self, call: Call<'_>) -> Result<Reply, CallError> {
        let begun = Instant::now();
        let limits = call.limits;
        let mut request = call.request().map_err(CallError::Request)?;
        if let Some(proxy) = &self.connector.proxy
            && request.uri().scheme_str() == Some("http")
            && let Some(credential) = proxy.intercept(request.uri()).and_then(|proxy| proxy.credential())
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credential);
        }
        let head = limits.whole.map_or(limits.head, |whole| whole.min(limits.head));
        let reply = match begun.checked_add(head) {
            Some(until) => timeout_at(until, self.pool.request(request)).await,
            None => Ok(self.pool.request(request).await),
        };
        let reply = reply.map_err(|_| CallError::HeadTimeout(head))??;
        Ok(Reply::new(reply, begun, limits))
    }
}
