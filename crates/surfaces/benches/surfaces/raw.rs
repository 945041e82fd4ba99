//! The same table with the same settings, by prepared statements and nothing around them.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

const SET: &str = "INSERT INTO kv (tenant, key, value, expires) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, expires = excluded.expires";
const GET: &str = "SELECT value, expires FROM kv WHERE tenant = ?1 AND key = ?2";

/// A connection.
pub(crate) struct Raw {
    path: PathBuf,
    connection: Connection,
}

/// Keys and values, ready to be bound.
pub(crate) type Rows = Vec<(String, Vec<u8>)>;

impl Raw {
    pub(crate) fn create(folder: &Path) -> Self {
        let raw = Self::open(folder.join("raw.sqlite3"));
        let table =
            "CREATE TABLE kv (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, expires INTEGER,
            PRIMARY KEY (tenant, key)) STRICT, WITHOUT ROWID";
        raw.connection.execute_batch(table).unwrap();
        raw
    }

    fn open(path: PathBuf) -> Self {
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        Self { path, connection }
    }

    /// Another connection to the same file.
    pub(crate) fn again(&self) -> Self {
        Self::open(self.path.clone())
    }

    /// Each in a transaction of its own.
    pub(crate) fn sets(&self, rows: &[(String, Vec<u8>)]) {
        let mut set = self.connection.prepare_cached(SET).unwrap();
        for (key, value) in rows {
            set.execute(params!["bench", key, value, None::<i64>]).unwrap();
        }
    }

    /// So many in each transaction.
    pub(crate) fn sets_together(&self, rows: &[(String, Vec<u8>)], together: usize) {
        let statement = |sql: &str| self.connection.prepare_cached(sql).unwrap().raw_execute().unwrap();
        for rows in rows.chunks(together) {
            statement("BEGIN IMMEDIATE");
            self.sets(rows);
            statement("COMMIT");
        }
    }

    /// The bytes of all values.
    pub(crate) fn gets(&self, keys: &[String]) -> usize {
        let mut get = self.connection.prepare_cached(GET).unwrap();
        let mut bytes = 0;
        for key in keys {
            let (value, _): (Vec<u8>, Option<i64>) =
                get.query_row(params!["bench", key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            bytes += value.len();
        }
        bytes
    }
}
