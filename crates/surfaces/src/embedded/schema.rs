//! Opening and migrating a database file.

use std::path::Path;

use disk::sqlite::{self, Settings};
use rusqlite::Connection;

use super::OpenError;

/// The schema of a file.
#[derive(Debug)]
pub struct Schema {
    /// Used in messages and as the thread name.
    pub name: &'static str,
    /// The migrations. They are append-only; `PRAGMA user_version` counts the applied ones, including a first one that
    /// creates the effects table.
    pub steps: &'static [&'static str],
    /// Called for every connection, before its first statement.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
    /// Removes some expired rows in one bounded step; returns whether more are left. Called periodically by the writer.
    pub sweep: fn(&Connection, i64) -> rusqlite::Result<bool>,
}

/// Opens the writer connection and runs the migrations.
pub(super) fn open_writer(path: &Path, schema: &Schema) -> Result<Connection, OpenError> {
    let named = |error| OpenError::named(schema.name, error);
    let mut connection = sqlite::open_writer(path, &settings(schema)).map_err(named)?;
    let steps = [super::effects::STEP].into_iter().chain(schema.steps.iter().copied());
    sqlite::migrate(&mut connection, steps).map_err(named)?;
    Ok(connection)
}

pub(super) fn settings(schema: &Schema) -> Settings {
    Settings { cache_kib: 16 << 10, statements: 128, idle_readers: 8, prepare: schema.prepare }
}
