//! One call: look up, check, connect to what was checked, ask.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{is_loopback, is_public};
use super::target::Host;
use super::{CallError, Outbound, Reach, TIME_OUT, Target};

/// What is sent, and as whom.
#[derive(Clone, Copy, Debug)]
struct Sender {
    agent: &'static str,
    media: &'static str,
}

/// Events, to whoever subscribed.
const DISPATCHER: Sender = Sender {
    agent: concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION")),
    media: "application/json",
};
/// Traces, to a collector.
const EXPORTER: Sender =
    Sender { agent: concat!("interlock/", env!("CARGO_PKG_VERSION")), media: "application/x-protobuf" };

impl Outbound {
    /// Posts JSON to an address. Any answer that is no success is an error.
    ///
    /// # Errors
    /// When it did not work within [`TIME_OUT`].
    pub async fn post(
        &self,
        target: &Target,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<(), CallError> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.send(target, DISPATCHER, &headers, body).await
    }

    /// Posts Protobuf to an address. Any answer that is no success is an error.
    ///
    /// # Errors
    /// When it did not work within [`TIME_OUT`].
    pub async fn post_protobuf(
        &self,
        target: &Target,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<(), CallError> {
        self.send(target, EXPORTER, headers, body).await
    }

    async fn send(
        &self,
        target: &Target,
        sender: Sender,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<(), CallError> {
        let call = async {
            let stream = self.connect(target).await?;
            let request = request(target, sender, headers, body)?;
            if !target.tls {
                return ask(TokioIo::new(stream), request).await;
            }
            ask(TokioIo::new(self.encrypted(target, stream).await?), request).await
        };
        let status = tokio::time::timeout(TIME_OUT, call).await.map_err(|_| CallError::TimeOut)??;
        match status {
            200..=299 => Ok(()),
            status => Err(CallError::Status(status)),
        }
    }

    /// The same connection, with the other side known to be the target.
    pub(super) async fn encrypted(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, CallError> {
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| CallError::Tls)?,
            Host::Address(address) => ServerName::from(*address),
        };
        let connector = TlsConnector::from(self.tls_settings()?);
        connector.connect(name, stream).await.map_err(|_| CallError::Tls)
    }

    /// A connection to one of the addresses of the target, each of which was checked. Only numbers are connected to.
    pub(super) async fn connect(&self, target: &Target) -> Result<TcpStream, CallError> {
        for address in self.addresses(target).await? {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
        }
        Err(CallError::Connect)
    }

    /// All addresses of the target. One that may not be called is enough to call none: a name with such an address is either
    /// set up wrongly or meant to lead astray.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, CallError> {
        let found = match &target.host {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => self.names.look_up(name, target.port).await.map_err(|_| CallError::Name)?,
        };
        if found.is_empty() {
            return Err(CallError::Name);
        }
        let may = |address: &SocketAddr| {
            address.port() == target.port
                && match self.reach {
                    Reach::Public => is_public(address.ip()),
                    Reach::Loopback => is_public(address.ip()) || is_loopback(address.ip()),
                    Reach::Anywhere => true,
                }
        };
        if found.iter().all(may) { Ok(found) } else { Err(CallError::Forbidden) }
    }

    fn tls_settings(&self) -> Result<Arc<rustls::ClientConfig>, CallError> {
        if let Some(settings) = self.tls.get() {
            return Ok(Arc::clone(settings));
        }
        let mut roots = rustls::RootCertStore::empty();
        let authorities = self.authorities.clone();
        let authorities = authorities.unwrap_or_else(|| rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(authorities);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let settings = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| CallError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(settings))))
    }
}

fn request(
    target: &Target,
    sender: Sender,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, CallError> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(&target.path)
        .header(HOST, &target.authority)
        .header(USER_AGENT, sender.agent)
        .header(CONTENT_TYPE, sender.media)
        .header(CONNECTION, "close");
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| CallError::Answer)?;
        let value = HeaderValue::from_str(value).map_err(|_| CallError::Answer)?;
        request = request.header(name, value);
    }
    request.body(Full::new(Bytes::from(body))).map_err(|_| CallError::Answer)
}

/// Sends the request, and reads no more of the answer than its head.
async fn ask<S>(stream: S, request: Request<Full<Bytes>>) -> Result<u16, CallError>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await.map_err(|_| CallError::Answer)?;
    let asked = sender.send_request(request);
    tokio::pin!(asked, connection);
    // The connection is worked on here, so that it ends with the call. One that ends first may have brought the answer.
    let answer = tokio::select! {
        biased;
        answer = &mut asked => answer,
        _ = &mut connection => asked.await,
    };
    Ok(answer.map_err(|_| CallError::Answer)?.status().as_u16())
}
