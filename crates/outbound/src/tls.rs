//! TLS with the system's certificate authorities, or with given ones.

use std::io;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use crate::connect::ConnectError;
use crate::stream::Stream;
use crate::target::Host;

/// The trusted certificate authorities.
pub(crate) enum Authorities {
    /// The system's authorities. A system without any trusts no server, which is not an error here.
    System,
    /// Only these.
    Only(Vec<CertificateDer<'static>>),
}

/// TLS, set up at the first connection that needs it: loading the system's authorities reads many files.
pub(crate) struct Tls {
    authorities: Authorities,
    settings: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) const fn new(authorities: Authorities) -> Self {
        Self { authorities, settings: OnceCell::const_new() }
    }

    /// Wraps the connection in TLS and verifies the host.
    pub(crate) async fn secure(&self, host: &Host, stream: Stream) -> Result<Stream, ConnectError> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
            Host::Address(address) => Ok(ServerName::from(*address)),
        };
        let name = name.map_err(ConnectError::Tls)?;
        let settings = self.settings.get_or_try_init(|| self.settings()).await.map_err(ConnectError::Tls)?;
        let connector = TlsConnector::from(Arc::clone(settings));
        connector.connect(name, stream).await.map(Stream::new).map_err(ConnectError::Tls)
    }

    async fn settings(&self) -> io::Result<Arc<ClientConfig>> {
        let authorities = match &self.authorities {
            Authorities::Only(authorities) => authorities.clone(),
            Authorities::System => {
                let load = || rustls_native_certs::load_native_certs().certs;
                tokio::task::spawn_blocking(load).await.map_err(io::Error::other)?
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(settings))
    }
}
