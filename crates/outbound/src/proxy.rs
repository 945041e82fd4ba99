//! The proxy from the environment, for clients that opt in: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.
//!
//! A proxy resolves names itself, so only a client that may call every address can use one.

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tower_service::Service as _;

use crate::connect::{ConnectError, Connector};
use crate::stream::Stream;
use crate::target::{Origin, Reach};

pub(crate) struct Proxy(Matcher);

/// The proxy for one origin.
pub(crate) struct Intercepted(Intercept);

impl Proxy {
    pub(crate) fn of_environment() -> Self {
        Self(Matcher::from_env())
    }

    pub(crate) fn intercept(&self, uri: &Uri) -> Option<Intercepted> {
        self.0.intercept(uri).map(Intercepted)
    }
}

impl Intercepted {
    /// The proxy credential, which requests without TLS carry.
    pub(crate) fn credential(&self) -> Option<HeaderValue> {
        self.0.basic_auth().cloned()
    }

    /// A connection through the proxy: a tunnel for TLS origins, otherwise to the proxy itself.
    pub(crate) async fn open(
        &self,
        connector: &Connector,
        uri: &Uri,
        origin: &Origin,
    ) -> Result<Stream, ConnectError> {
        let mut to_proxy = ToProxy(connector.clone());
        if !origin.tls {
            let stream = to_proxy.call(self.0.uri().clone()).await?;
            return Ok(stream.into_inner().through_proxy());
        }
        let mut tunnel = Tunnel::new(self.0.uri().clone(), to_proxy);
        if let Some(credential) = self.credential() {
            tunnel = tunnel.with_auth(credential);
        }
        let opened = tunnel.call(uri.clone()).await;
        opened.map(TokioIo::into_inner).map_err(|error| ConnectError::Proxy(error.into()))
    }
}

/// Connects to the proxy itself.
struct ToProxy(Connector);

impl tower_service::Service<Uri> for ToProxy {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move {
            let origin = Origin::of(&uri, &Reach::Anywhere)?;
            let stream = Stream::new(connector.dial(&origin).await?);
            let stream = if origin.tls { connector.tls.secure(&origin.host, stream).await? } else { stream };
            Ok(TokioIo::new(stream))
        })
    }
}
