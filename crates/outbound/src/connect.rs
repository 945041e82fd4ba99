//! One connection: resolve, check, connect to a checked address, verify the certificate.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use crate::names::Names;
use crate::proxy::Proxy;
use crate::stream::Stream;
use crate::target::{Host, Origin, Reach, TargetError};
use crate::tls::Tls;

/// The time limit for resolving, connecting and the TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not within the reach of this client.
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot resolve the host name")]
    Name(#[source] io::Error),
    #[error("the host name resolves to an address that may not be called, or not without TLS")]
    Forbidden,
    #[error("cannot connect")]
    Unreachable(#[source] io::Error),
    #[error("cannot connect through the proxy")]
    Proxy(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the server's certificate is not trusted")]
    Tls(#[source] io::Error),
}

/// Opens connections for the pool. Clones share everything.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) reach: Reach,
    pub(crate) names: Arc<dyn Names>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) proxy: Option<Arc<Proxy>>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    // Shared, because the pool only returns errors by reference.
    type Error = Arc<ConnectError>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let opened = timeout(CONNECT_TIMEOUT, connector.open(&uri)).await;
            let opened = opened.unwrap_or_else(|_| Err(ConnectError::Unreachable(late(CONNECT_TIMEOUT))));
            opened.map(TokioIo::new).map_err(Arc::new)
        })
    }
}

impl Connector {
    async fn open(&self, uri: &Uri) -> Result<Stream, ConnectError> {
        let origin = Origin::of(uri, &self.reach)?;
        let intercept = self.proxy.as_ref().and_then(|proxy| proxy.intercept(uri));
        let stream = match intercept {
            Some(intercept) => intercept.open(self, uri, &origin).await?,
            None => Stream::new(self.dial(&origin).await?),
        };
        if origin.tls { self.tls.secure(&origin.host, stream).await } else { Ok(stream) }
    }

    /// Connects to one of the checked addresses of the origin. Only IP addresses are connected to.
    pub(crate) async fn dial(&self, origin: &Origin) -> Result<TcpStream, ConnectError> {
        let addresses = self.addresses(origin).await?;
        let until = Instant::now() + CONNECT_TIMEOUT;
        let mut failure = late(CONNECT_TIMEOUT);
        for (index, address) in addresses.iter().enumerate() {
            // An unresponsive address leaves time for the next ones.
            let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let share = until.saturating_duration_since(Instant::now()) / left;
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are written at once; Nagle's algorithm would only delay them.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => failure = error,
                Err(_) => failure = late(share),
            }
        }
        Err(ConnectError::Unreachable(failure))
    }

    /// All addresses of the origin. One disallowed address rejects all: such a name is misconfigured or hostile.
    async fn addresses(&self, origin: &Origin) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = match &origin.host {
            Host::Address(address) => vec![SocketAddr::new(*address, origin.port)],
            Host::Name(name) => self.names.look_up(name, origin.port).await.map_err(ConnectError::Name)?,
        };
        if found.is_empty() {
            let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            return Err(ConnectError::Name(nothing));
        }
        let allowed =
            |found: &SocketAddr| found.port() == origin.port && self.reach.allows(found.ip(), origin.tls);
        if found.iter().all(allowed) { Ok(found) } else { Err(ConnectError::Forbidden) }
    }
}

fn late(limit: Duration) -> io::Error {
    let message = format!("no connection within {limit:?}");
    io::Error::new(io::ErrorKind::TimedOut, message)
}
