//! Connecting to a server.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use pgclient::{Server, UrlError};
use tokio_postgres::NoTls;

use crate::sql::SqlLimits;

/// The timeout for a pooled connection.
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
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("cannot create the connection pool")]
    Pool,
}

/// The connection pool; connects lazily.
pub(super) fn pool(options: &PostgresOptions, limits: &SqlLimits) -> Result<Pool, ConnectError> {
    let Server { mut config, tls } = Server::parse(&options.url)?;
    config.application_name("interlock");
    // Reset between uses: settings, temporary tables and locks of a call do not leak into the next.
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Clean };
    let manager = match tls {
        None => Manager::from_config(config, NoTls, manager),
        Some(tls) => Manager::from_config(config, tls, manager),
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
        assert_eq!(why, ConnectError::Url(UrlError::Invalid));
        assert!(!format!("{why} {why:?}").contains("hunter2"));
    }
}
