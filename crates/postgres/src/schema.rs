//! The tables, and the steps from one version of them to the next.
//!
//! Steps are numbered and only added. Each may be repeated. `meta` holds the version, and the oldest version that a program must
//! know: an older program refuses the tables, and a program between the two can still use them.

use crate::connection::{Connection, Connector, SCHEMA};
use crate::error::{Failure, OpenError};

/// The steps, from version 0.
const STEPS: &[&str] =
    &[include_str!("schema/0001.sql"), include_str!("schema/0002.sql"), include_str!("schema/0003.sql")];

/// The result of all steps.
const LATEST: &str = include_str!("schema/latest.sql");

/// The oldest schema version that a program must know to use the tables that the last step leaves. A program that does not know the
/// third version would read the first attempt of an effect where the last one counts, and could execute the effect again.
const OLDEST_KNOWN: i64 = 3;

const META: &str = "
    create schema if not exists interlock;
    create table if not exists meta (name text collate \"C\" primary key, value bigint not null);
    insert into meta (name, value) values ('schema', 0), ('oldest_known', 0), ('hosts', 0) on conflict do nothing;
";

/// The version that this program needs.
fn known() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// What is in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// No tables of this program.
    Empty,
    /// The tables of a version.
    Schema(i64),
}

/// Creates the tables in a database that has none, and has no effect otherwise.
///
/// # Errors
/// The database cannot be used.
pub async fn init(url: &str) -> Result<Version, OpenError> {
    let connection = Connector::new(url, "interlock-database")?.connect().await?;
    check_encoding(&connection).await?;
    match version(&connection).await? {
        Version::Empty => {
            lock(&connection).await?;
            // Another process may have created them meanwhile: the statements have no effect then.
            let created = finish(&connection, &[LATEST], known()).await;
            end(&connection, created).await?;
        }
        Version::Schema(found) => {
            check_known(&connection, found).await?;
        }
    }
    Ok(version(&connection).await?)
}

/// Brings the tables to the version of this program.
///
/// # Errors
/// The database has no tables, needs a newer program, or cannot be used.
pub async fn migrate(url: &str) -> Result<(i64, i64), OpenError> {
    let connection = &Connector::new(url, "interlock-database")?.connect().await?;
    if version(connection).await? == Version::Empty {
        return Err(OpenError::Uninitialized);
    }
    lock(connection).await?;
    let migrated = async {
        let Version::Schema(found) = version(connection).await? else { return Err(OpenError::Uninitialized) };
        if found > known() {
            check_known(connection, found).await?;
            return Ok((found, found));
        }
        let taken = usize::try_from(found).unwrap_or(0);
        finish(connection, &STEPS[taken.min(STEPS.len())..], known()).await?;
        Ok((found, known()))
    }
    .await;
    end(connection, migrated).await
}

/// What an operator wants to know about a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The version of PostgreSQL.
    pub server: String,
    /// The version of the tables.
    pub schema: i64,
    /// The host that uses the database: its name and version.
    pub host: Option<(String, String)>,
}

/// Checks that this program can use a database, and describes it. Changes nothing.
///
/// # Errors
/// The database cannot be used.
pub async fn inspect(url: &str) -> Result<Inspection, OpenError> {
    let connection = &Connector::new(url, "interlock-database")?.connect().await?;
    check(connection).await?;
    let text = |row: &tokio_postgres::Row, column| row.try_get::<_, String>(column).map_err(Failure::from);
    let server =
        connection.first("select current_setting('server_version')", &[]).await?.ok_or(Failure::Row)?;
    let sql = "select name, version from hosts
               where is_serving and beat_at >= clock_timestamp() - interval '10 seconds' order by host_id limit 1";
    let host = connection.first(sql, &[]).await?;
    let host = host.map(|row| Ok::<_, Failure>((text(&row, 0)?, text(&row, 1)?))).transpose()?;
    let schema = match version(connection).await? {
        Version::Empty => 0,
        Version::Schema(version) => version,
    };
    Ok(Inspection { server: text(&server, 0)?, schema, host })
}

/// Checks that this program can use the tables.
pub(crate) async fn check(connection: &Connection) -> Result<(), OpenError> {
    check_encoding(connection).await?;
    match version(connection).await? {
        Version::Empty => Err(OpenError::Uninitialized),
        Version::Schema(found) if found < known() => Err(OpenError::Older { found, needed: known() }),
        Version::Schema(found) => check_known(connection, found).await,
    }
}

async fn version(connection: &Connection) -> Result<Version, Failure> {
    let sql = "select 1 from pg_catalog.pg_tables where schemaname = $1 and tablename = 'meta'";
    if connection.first(sql, &[&SCHEMA]).await?.is_none() {
        return Ok(Version::Empty);
    }
    match value(connection, "schema").await? {
        None | Some(0) => Ok(Version::Empty),
        Some(version) => Ok(Version::Schema(version)),
    }
}

async fn value(connection: &Connection, name: &str) -> Result<Option<i64>, Failure> {
    let row = connection.first("select value from meta where name = $1", &[&name]).await?;
    row.map(|row| row.try_get(0)).transpose().map_err(Failure::from)
}

async fn check_known(connection: &Connection, found: i64) -> Result<(), OpenError> {
    let needed = value(connection, "oldest_known").await?.unwrap_or(found);
    if needed > known() { Err(OpenError::Newer { needed, known: known() }) } else { Ok(()) }
}

async fn check_encoding(connection: &Connection) -> Result<(), OpenError> {
    let row = connection.first("select current_setting('server_encoding')", &[]).await?;
    let encoding: String = row.ok_or(Failure::Row)?.try_get(0).map_err(Failure::from)?;
    if encoding == "UTF8" { Ok(()) } else { Err(OpenError::Encoding(encoding)) }
}

/// Begins a transaction that no other migration runs beside.
async fn lock(connection: &Connection) -> Result<(), Failure> {
    connection.run(META).await?;
    connection
        .run("begin; set local lock_timeout = '2s'; select 1 from meta where name = 'schema' for update")
        .await
}

async fn finish(connection: &Connection, steps: &[&str], version: i64) -> Result<(), OpenError> {
    for step in steps {
        connection.run(step).await?;
    }
    let sql = "update meta set value = $2 where name = $1";
    connection.execute(sql, &[&"schema", &version]).await?;
    connection.execute(sql, &[&"oldest_known", &OLDEST_KNOWN]).await?;
    Ok(())
}

async fn end<T>(connection: &Connection, outcome: Result<T, OpenError>) -> Result<T, OpenError> {
    // A rollback that fails leaves the same result, because the connection is closed.
    match &outcome {
        Ok(_) => connection.run("commit").await?,
        Err(_) => connection.run("rollback").await.unwrap_or_default(),
    }
    outcome
}
