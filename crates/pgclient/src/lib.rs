//! PostgreSQL URLs and TLS, for every crate that connects to a server.
//!
//! A URL holds a password. Errors and `Debug` never contain it.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The timeout for connecting, unless the URL has one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a URL cannot be used. The URL is never included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the database URL is invalid; it must start with postgres://")]
    Invalid,
    #[error("cannot set up TLS for the database")]
    Encryption,
}

/// How to reach a server.
#[derive(Clone)]
pub struct Server {
    pub config: Config,
    /// `None` for a connection without TLS.
    pub tls: Option<MakeRustlsConnect>,
}

impl Server {
    /// Reads a URL, as `postgres://…` or in key-value form. `sslmode=require` demands TLS with a certificate that the system
    /// trusts; `prefer`, the default, uses TLS if the server offers it. A local socket is not encrypted.
    ///
    /// # Errors
    /// The URL is invalid, or TLS cannot be set up.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let mut config = Config::from_str(url).map_err(|_| UrlError::Invalid)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let tls = if is_plain(&config) { None } else { Some(encryption()?) };
        Ok(Self { config, tls })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("encrypted", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Whether TLS is not needed: it is disabled, or the server is a local socket.
fn is_plain(config: &Config) -> bool {
    let local =
        !config.get_hosts().is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    config.get_ssl_mode() == SslMode::Disable || local && config.get_ssl_mode() != SslMode::Require
}

fn encryption() -> Result<MakeRustlsConnect, UrlError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| UrlError::Encryption)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_server_nor_an_error_shows_the_password() {
        let server = Server::parse("postgres://me:hunter2@db.example/app").unwrap();
        assert!(!format!("{server:?}").contains("hunter2"));
        let error = Server::parse("postgres://me:hunter2@db.example:nine/app").unwrap_err();
        assert_eq!(error, UrlError::Invalid);
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn only_local_sockets_default_to_plain() {
        for (url, plain) in [
            ("host=/run/postgresql user=a", true),
            ("host=/run/postgresql user=a sslmode=require", false),
            ("postgres://a@db.example/app?sslmode=disable", true),
            ("postgres://a@db.example/app", false),
            ("postgres://a@db.example/app?sslmode=require", false),
        ] {
            assert_eq!(Server::parse(url).unwrap().tls.is_none(), plain, "{url}");
        }
    }
}
