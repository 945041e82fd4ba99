//! How a file is opened, and the steps from one version of its tables to the next.

use std::path::Path;

use disk::sqlite::{self, Settings};
use rusqlite::Connection;

use super::OpenError;

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
    let named = |error| OpenError::named(schema.name, error);
    let mut connection = sqlite::open_writer(path, &settings(schema)).map_err(named)?;
    let steps = [super::effects::STEP].into_iter().chain(schema.steps.iter().copied());
    sqlite::migrate(&mut connection, steps).map_err(named)?;
    Ok(connection)
}

pub(super) fn settings(schema: &Schema) -> Settings {
    Settings { cache_kib: 16 << 10, statements: 128, idle_readers: 8, prepare: schema.prepare }
}
