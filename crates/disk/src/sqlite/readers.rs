//! Reader connections.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::connection::{Settings, settle};

/// A pool of read-only connections.
#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    settings: Settings,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// An empty pool; connections are opened on demand.
    pub fn new(path: &Path, settings: Settings) -> Self {
        Self { path: path.to_owned(), settings, idle: Mutex::default() }
    }

    /// Reads on the calling thread with an idle or new connection.
    ///
    /// # Errors
    /// Those of `read`, and SQLite errors if no connection can be opened.
    pub fn read<T, E: From<rusqlite::Error>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = read(&connection);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.settings.idle_readers {
            idle.push(connection);
        }
        result
    }

    /// Opens a connection outside the pool, for long work.
    ///
    /// # Errors
    /// SQLite errors.
    pub fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        settle(&connection, &self.settings)?;
        Ok(connection)
    }
}
