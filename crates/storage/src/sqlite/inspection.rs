//! Read-only inspection of a database of runs, even if it is damaged.

use std::path::{Path, PathBuf};

use canon::digest::Digest;
use disk::sqlite::BUSY_TIMEOUT;
use flow::event::wire;
use flow::id::{RunId, Tenant};
use flow::run::Genesis;
use ports::runs::Bytes;
use rusqlite::{Connection, OpenFlags};
use serde::de::IgnoredAny;

use super::reads::{audit, keys};
use super::{OpenError, query, schema};

/// The maximum number of problems that SQLite reports.
const MAX_PROBLEMS: usize = 20;

/// A database that is opened read-only.
#[derive(Debug)]
pub struct Inspection {
    connection: Connection,
}

/// The damage of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// What SQLite reports about the file itself, at most 20 lines.
    pub structure: Vec<String>,
    /// The runs that cannot be read.
    pub runs: Vec<RunId>,
    /// The number of workflow definitions that cannot be read.
    pub definitions: usize,
}

impl Damage {
    /// Whether there is no damage.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Inspection {
    /// Opens an existing database.
    ///
    /// # Errors
    /// The file cannot be opened, is not a database, or has a newer version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = if has_log(path) {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?
        } else {
            // The database is not in use. A normal read-only connection would leave files behind that it cannot remove.
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable(path), flags)?
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        schema::check_version(&connection)?;
        Ok(Self { connection })
    }

    /// The version of the schema, and the newest supported version.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn version(&self) -> Result<(i64, i64), OpenError> {
        Ok((schema::version(&self.connection)?, schema::known_version()))
    }

    /// The number of runs.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn run_count(&self) -> Result<u64, OpenError> {
        let count: i64 = self.connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// All API keys, as they are stored.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn api_keys(&self) -> Result<Vec<(Digest, Bytes)>, OpenError> {
        Ok(keys::api_keys(&self.connection)?)
    }

    /// The last entry and the last checkpoint of a tenant's audit log.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn audit_ends(&self, tenant: &Tenant) -> Result<(Option<u64>, Option<u64>), OpenError> {
        let checkpoint = audit::checkpoint_before(&self.connection, tenant, u64::MAX)?;
        Ok((audit::audit_end(&self.connection, tenant)?, checkpoint.map(|(at, _)| at)))
    }

    /// Reads everything and reports what cannot be read. Calls `step` for each run.
    ///
    /// # Errors
    /// SQLite cannot continue. That is damage too, and the error describes it.
    pub fn damage(&self, mut step: impl FnMut()) -> Result<Damage, OpenError> {
        let structure = self.structure()?;
        let mut damage = Damage { structure, ..Damage::default() };
        let mut statement =
            self.connection.prepare("SELECT place, run_id, genesis, snapshot FROM runs ORDER BY place")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            step();
            let (place, run_id): (i64, RunId) = (row.get(0)?, query::id(row, 1, RunId::new)?);
            let (genesis, snapshot): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
            let is_whole = serde_json::from_slice::<Genesis>(&genesis)
                .is_ok_and(|genesis| genesis.run_id == run_id)
                && is_json(&snapshot)
                && self.has_whole_log(place).unwrap_or(false);
            if !is_whole {
                damage.runs.push(run_id);
            }
        }
        drop(rows);
        let mut statement = self.connection.prepare("SELECT document FROM definitions")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if !is_json(&row.get::<_, Vec<u8>>(0)?) {
                damage.definitions += 1;
            }
        }
        Ok(damage)
    }

    fn structure(&self) -> Result<Vec<String>, OpenError> {
        let mut statement = self.connection.prepare(&format!("PRAGMA quick_check({MAX_PROBLEMS})"))?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Whether all events of a run can be read, without a gap.
    fn has_whole_log(&self, place: i64) -> rusqlite::Result<bool> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT first, last, events FROM appends WHERE run = ?1 ORDER BY last")?;
        let mut rows = statement.query([place])?;
        let mut next = 0_u64;
        while let Some(row) = rows.next()? {
            let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
            let events: Vec<u8> = row.get(2)?;
            if u64::try_from(first) != Ok(next) {
                return Ok(false);
            }
            for line in events.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match wire::decode(line) {
                    Ok(event) if event.sequence == next => next += 1,
                    Ok(_) | Err(_) => return Ok(false),
                }
            }
            if u64::try_from(last).map(|last| last + 1) != Ok(next) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Whether the database is in use, or was not closed properly.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log).exists()
}

/// The SQLite URI of a file that does not change while it is read.
fn immutable(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(char::from(*byte));
            }
            other => {
                let _ = write!(address, "%{other:02X}");
            }
        }
    }
    address.push_str("?immutable=1");
    address
}
