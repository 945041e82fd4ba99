//! Connecting to a server.

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::sql::SqlLimits;

/// The timeout for connecting and for a pooled connection.
const WAIT: Duration = Duration::from_secs(10);

/// How to reach a server, and what the host may do there.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The URL with its password, as `postgres://…` or in key-value form: a resolved secret. `sslmode=require` demands
    /// TLS with a certificate that the system trusts; `prefer`, the default, uses TLS if the server offers it.
    pub url: String,
    /// Whether effect ids are stored in the database.
    pub records_effects: bool,
}

impl PostgresOptions {
    /// A datasource that stores effect ids.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), records_effects: true }
    }
}

/// Hides the URL, which is a secret.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresOptions")
            .field("records_effects", &self.records_effects)
            .finish_non_exhaustive()
    }
}

/// Why a datasource cannot be created. The URL is never included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("the database URL is invalid; it must start with postgres://")]
    Address,
    #[error("cannot set up TLS for the database")]
    Encryption,
    #[error("cannot create the connection pool")]
    Pool,
}

/// The connection pool; connects lazily.
pub(super) fn pool(options: &PostgresOptions, limits: &SqlLimits) -> Result<Pool, ConnectError> {
    let mut config = Config::from_str(&options.url).map_err(|_| ConnectError::Address)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(WAIT);
    }
    config.application_name("interlock");
    // Reset between uses: settings, temporary tables and locks of a call do not leak into the next.
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Clean };
    let manager = if is_plain(&config) {
        Manager::from_config(config, NoTls, manager)
    } else {
        Manager::from_config(config, encryption()?, manager)
    };
    Pool::builder(manager)
        .max_size(limits.connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(WAIT))
        .recycle_timeout(Some(WAIT))
        .build()
        .map_err(|_| ConnectError::Pool)
}

/// Whether TLS is not needed: it is disabled, or the server is a local socket.
fn is_plain(config: &Config) -> bool {
    let local =
        !config.get_hosts().is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    config.get_ssl_mode() == SslMode::Disable || local && config.get_ssl_mode() != SslMode::Require
}

fn encryption() -> Result<MakeRustlsConnect, ConnectError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| ConnectError::Encryption)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_hide_the_url() {
        let options = PostgresOptions::new("postgres://me:hunter2@db.example/app");
        assert!(!format!("{options:?}").contains("hunter2"));
        let wrong =
            pool(&PostgresOptions::new("postgres://me:hunter2@db.example:nine/app"), &SqlLimits::default());
        let why = wrong.expect_err("the port is not a number");
        assert_eq!(why, ConnectError::Address);
        assert!(!format!("{why} {why:?}").contains("hunter2"));
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
            assert_eq!(is_plain(&Config::from_str(url).unwrap()), plain, "{url}");
        }
    }
}
