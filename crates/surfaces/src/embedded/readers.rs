//! Connections that read.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::schema;

/// How many idle connections are kept. More are made when more read at once, and closed afterwards.
const IDLE: usize = 8;

pub(super) struct Readers {
    path: PathBuf,
    prepare: fn(&Connection) -> rusqlite::Result<()>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path, prepare: fn(&Connection) -> rusqlite::Result<()>) -> Self {
        Self { path: path.to_owned(), prepare, idle: Mutex::default() }
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = read(&connection);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        result
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        schema::settle(&connection, self.prepare)?;
        Ok(connection)
    }
}
