//! Connections and their prepared statements.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pgclient::{Server, UrlError};
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::error::Failure;

/// The schema that holds all tables.
pub(crate) const SCHEMA: &str = "interlock";

/// Longer than the time after which the server itself ends a statement.
const REPLY: Duration = Duration::from_secs(40);
const CONNECT: Duration = Duration::from_secs(10);

/// Settings of each session. Plans are generic: the arrays of batches differ in length and nothing else. A transaction that
/// waits for its client is ended, so that a stopped host does not keep locks.
const SETTINGS: &str = "-c search_path=interlock -c plan_cache_mode=force_generic_plan -c statement_timeout=30s \
    -c lock_timeout=10s -c idle_in_transaction_session_timeout=5s -c default_transaction_isolation=read\\ committed";

#[derive(Clone)]
pub(crate) struct Connector {
    server: Server,
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(formatter)
    }
}

impl Connector {
    pub(crate) fn new(url: &str, application: &str) -> Result<Self, UrlError> {
        let mut server = Server::parse(url)?;
        let config = &mut server.config;
        let settings = match config.get_options() {
            Some(own) => format!("{own} {SETTINGS}"),
            None => SETTINGS.to_owned(),
        };
        config.options(settings).application_name(application);
        // After a failover, the former primary may still accept connections.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_secs(20));
        Ok(Self { server })
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let connecting = async {
            let config = &self.server.config;
            let client = match &self.server.tls {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    client
                }
                Some(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    tokio::spawn(connection);
                    client
                }
            };
            // An acknowledged commit survives a power failure, whatever the default of the server is.
            client
                .execute(
                    "select set_config('synchronous_commit', 'on', false)
                     where current_setting('synchronous_commit') = 'off'",
                    &[],
                )
                .await?;
            Ok::<_, tokio_postgres::Error>(client)
        };
        match timeout(CONNECT, connecting).await {
            Ok(Ok(client)) => Ok(Connection { client, statements: Mutex::default() }),
            Ok(Err(error)) => Err(Failure::connecting(&error)),
            Err(_) => Err(Failure::Connect(format!("no reply within {} s", CONNECT.as_secs()))),
        }
    }
}

/// A connection, with the statements that were prepared on it. Dropping it closes it.
pub(crate) struct Connection {
    client: Client,
    statements: Mutex<HashMap<Box<str>, Statement>>,
}

/// A value of a statement.
pub(crate) type Value<'a> = &'a (dyn ToSql + Sync);

impl Connection {
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn statement(&self, sql: &str) -> Result<Statement, Failure> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(statements.entry(sql.into()).or_insert(statement).clone())
    }

    pub(crate) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Failure> {
        in_time(async { Ok(self.client.query(&self.statement(sql).await?, values).await?) }).await
    }

    pub(crate) async fn first(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// Executes a statement and returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Failure> {
        in_time(async { Ok(self.client.execute(&self.statement(sql).await?, values).await?) }).await
    }

    /// Executes statements that have no values.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Failure> {
        in_time(async { Ok(self.client.batch_execute(sql).await?) }).await
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(REPLY, work).await.unwrap_or(Err(Failure::Timeout(REPLY)))
}
