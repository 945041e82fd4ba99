//! How a server is reached.

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

/// How long connecting may take, and waiting for a connection that others use.
const WAIT: Duration = Duration::from_secs(10);

/// Where a server is, and what the host may do there.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The address with its password, as `postgres://…` or in key-value form: a secret, already resolved. `sslmode=require` wants an
    /// encrypted connection to a server whose certificate the system trusts; `prefer`, which counts where none is given, takes one where the
    /// server offers it.
    pub url: String,
    /// Whether the identities of effects are kept in the database.
    pub records_effects: bool,
}

impl PostgresOptions {
    /// The database at that address, with the identities of effects.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), records_effects: true }
    }
}

/// The address is a secret, so it is not shown.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PostgresOptions")
            .field("records_effects", &self.records_effects)
            .finish_non_exhaustive()
    }
}

/// Why a server cannot be reached, ever. The address is in none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The address.
    #[error("the address of the database cannot be read; it begins with postgres://")]
    Address,
    /// What encryption needs.
    #[error("encryption to the database cannot be set up")]
    Encryption,
    /// What keeps the connections.
    #[error("the connections to the database cannot be kept")]
    Pool,
}

/// The connections to the server, none of which is made yet.
pub(super) fn pool(options: &PostgresOptions, limits: &SqlLimits) -> Result<Pool, ConnectError> {
    let mut config = Config::from_str(&options.url).map_err(|_| ConnectError::Address)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(WAIT);
    }
    config.application_name("interlock");
    // Cleaned between two uses: no setting, temporary table or lock of one call is there in the next.
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

/// Whether there is nothing to encrypt: it was said so, or the server is a socket of this machine.
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
    fn no_address_is_ever_shown() {
        let options = PostgresOptions::new("postgres://me:hunter2@db.example/app");
        assert!(!format!("{options:?}").contains("hunter2"));
        let wrong =
            pool(&PostgresOptions::new("postgres://me:hunter2@db.example:nine/app"), &SqlLimits::default());
        let why = wrong.expect_err("the port is no number");
        assert_eq!(why, ConnectError::Address);
        assert!(!format!("{why} {why:?}").contains("hunter2"));
    }

    #[test]
    fn only_what_stays_on_the_machine_goes_unencrypted_by_itself() {
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
