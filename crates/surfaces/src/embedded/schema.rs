//! How a file is opened, and the steps from one version of its tables to the next.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::OpenError;

/// How long a statement waits for another process, such as a backup, before it gives up.
const BUSY: Duration = Duration::from_secs(10);

/// What is in a file.
#[derive(Debug)]
pub struct Schema {
    /// What the file holds, for messages and the name of the thread.
    pub name: &'static str,
    /// The steps that make the tables. Steps are only ever added; `PRAGMA user_version` counts those taken, with the one in front of
    /// these, which makes the table of effects.
    pub steps: &'static [&'static str],
    /// Called for every connection, before its first statement.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
    /// Removes some of what has expired at that moment, in one bounded step; says whether more is left. Called by the writer, now and then.
    pub sweep: fn(&Connection, i64) -> rusqlite::Result<bool>,
}

/// Opens the connection that writes, and brings the tables up to date.
pub(super) fn open_writer(path: &Path, schema: &Schema) -> Result<Connection, OpenError> {
    let sqlite = |cause| OpenError::Sqlite { name: schema.name, cause };
    create_private(path).map_err(|cause| {
        let what = format!("{} cannot be made", path.display());
        OpenError::Io { what, cause }
    })?;
    let mut connection = Connection::open(path).map_err(sqlite)?;
    configure(&connection, schema.prepare).map_err(sqlite)?;
    migrate(&mut connection, schema)?;
    Ok(connection)
}

/// What both kinds of connections need.
pub(super) fn settle(
    connection: &Connection,
    prepare: fn(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Statements are planned once, and not again for every bound value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    prepare(connection)
}

fn configure(
    connection: &Connection,
    prepare: fn(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // 16 MiB for the pages of the writer; negative means kibibytes.
    connection.pragma_update(None, "cache_size", -16_384_i64)?;
    // The log is copied into the file by `log`.
    connection.pragma_update(None, "wal_autocheckpoint", 0_i64)?;
    // A log that was long once gives its room back.
    connection.pragma_update(None, "journal_size_limit", 64_i64 << 20)?;
    settle(connection, prepare)
}

/// The file is owner-only before anything is in it; SQLite gives its companions the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

fn migrate(connection: &mut Connection, schema: &Schema) -> Result<(), OpenError> {
    let name = schema.name;
    let sqlite = |cause| OpenError::Sqlite { name, cause };
    let steps = [super::effects::STEP].into_iter().chain(schema.steps.iter().copied());
    let known = 1 + schema.steps.len();
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite)?;
    let Some(taken) = usize::try_from(found).ok().filter(|taken| *taken <= known) else {
        let known = i64::try_from(known).unwrap_or(i64::MAX);
        return Err(OpenError::Newer { name, found, known });
    };
    for (place, step) in steps.enumerate().skip(taken) {
        let transaction = connection.transaction().map_err(sqlite)?;
        transaction.execute_batch(step).map_err(sqlite)?;
        transaction.pragma_update(None, "user_version", place + 1).map_err(sqlite)?;
        transaction.commit().map_err(sqlite)?;
    }
    Ok(())
}
