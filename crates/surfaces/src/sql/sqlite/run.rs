//! An open file and its statements.

use std::ffi::c_int;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

use super::authorizer::{Mode, judge};
use super::values;
use crate::args::refuse;
use crate::call::Scope;
use crate::embedded::{MAX_EFFECT_BYTES, RETENTION_MS};
use crate::error::{Code, SurfaceError};
use crate::retry_advice::{AGAIN, CLOSED, retry_advice};
use crate::sql::answer::{self, RowCollector};
use crate::sql::guard::{MAX_PARAMETERS, MAX_SQL_BYTES};
use crate::sql::{Class, SqlLimits, Statement, StatementResult, Work, in_transaction};

/// How often, in steps, the budget is checked.
const TICK: c_int = 100;
/// The page size, in bytes.
const PAGE: u64 = 4096;
/// The maximum size of a value or row, for statements with few columns and calls.
const MAX_VALUE_BYTES: usize = 8 << 20;
/// The same for statements with very many.
const MIN_VALUE_BYTES: usize = 1 << 20;
/// The approximate total size of a statement's values. SQLite holds all columns of a row and all arguments of a call in
/// memory before the row is visible.
const MAX_VALUES_BYTES: usize = 256 << 20;
/// The maximum stored result of an effect. The JSON form may be several times larger than the counted bytes.
const MAX_STORED_BYTES: usize = 64 << 20;
/// The maximum size of a host row: a result with its id and operation.
const MAX_HOST_BYTES: usize = MAX_STORED_BYTES + (1 << 20);

const EFFECTS: &str = "
    CREATE TABLE IF NOT EXISTS interlock_effects (
        id TEXT PRIMARY KEY,
        op TEXT NOT NULL,
        at INTEGER NOT NULL,
        answer BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS interlock_effects_by_moment ON interlock_effects (at);
";

pub(super) struct Connected {
    connection: Connection,
    mode: Arc<AtomicU8>,
    /// Remaining ticks.
    budget: Arc<AtomicU64>,
    /// The deadline of the statement, in milliseconds since the file was opened.
    until: Arc<AtomicU64>,
    opened: Instant,
}

impl Connected {
    /// Opens the file and creates it if it does not exist.
    pub(super) fn open(path: &Path, limits: &SqlLimits) -> Result<Self, SurfaceError> {
        create_private(path).map_err(|cause| unopened(&cause))?;
        Self::prepare(path, limits).map_err(|cause| unavailable(&cause))
    }

    fn prepare(path: &Path, limits: &SqlLimits) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "max_page_count", limits.file_bytes.div_ceil(PAGE))?;
        connection.pragma_update(None, "journal_size_limit", 16_i64 << 20)?;
        connection.execute_batch(EFFECTS)?;
        for (setting, value) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            // A double-quoted string is a name, never a value that the guard missed.
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        ] {
            connection.set_db_config(setting, value)?;
        }
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, as_limit(MAX_HOST_BYTES)),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, as_limit(MAX_SQL_BYTES)),
            (Limit::SQLITE_LIMIT_COLUMN, 512),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 600),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
            (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
            (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, as_limit(MAX_PARAMETERS)),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        let mode = Arc::new(AtomicU8::new(Mode::Host as u8));
        let judged = Arc::clone(&mode);
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            judge(Mode::of(judged.load(Ordering::Relaxed)), &context)
        }))?;
        let budget = Arc::new(AtomicU64::new(u64::MAX));
        let (until, opened) = (Arc::new(AtomicU64::new(u64::MAX)), Instant::now());
        let (left, end) = (Arc::clone(&budget), Arc::clone(&until));
        connection.progress_handler(
            TICK,
            Some(move || {
                let ticks = left.load(Ordering::Relaxed);
                left.store(ticks.saturating_sub(1), Ordering::Relaxed);
                ticks == 0 || millis_since(opened) >= end.load(Ordering::Relaxed)
            }),
        )?;
        Ok(Self { connection, mode, budget, until, opened })
    }

    /// Whether no transaction is open.
    pub(super) fn is_settled(&self) -> bool {
        self.connection.is_autocommit()
    }

    pub(super) fn run(
        &mut self,
        scope: &Scope,
        work: &Work,
        limits: &SqlLimits,
    ) -> Result<Vec<StatementResult>, SurfaceError> {
        match work {
            Work::Query(statement) => Ok(vec![self.one(statement, limits)?]),
            Work::Execute(statement) => self.change(scope, work, std::slice::from_ref(statement), limits),
            Work::Transaction(statements) => self.change(scope, work, statements, limits),
        }
    }

    /// Runs all statements in one transaction with the effect id.
    fn change(
        &mut self,
        scope: &Scope,
        work: &Work,
        statements: &[Statement],
        limits: &SqlLimits,
    ) -> Result<Vec<StatementResult>, SurfaceError> {
        if let Some(effect) = &scope.effect {
            check_effect(effect)?;
        }
        self.host("BEGIN IMMEDIATE")?;
        let done = self.inside(scope, work, statements, limits);
        let ended = match &done {
            // Deferred constraints are checked here.
            Ok(_) => self.connection.execute_batch("COMMIT").map_err(|cause| unfinished(&cause, limits)),
            Err(_) => Ok(()),
        };
        if !self.is_settled() {
            // Rolls back whatever failed. If this fails, the connection is dropped.
            let _ = self.host("ROLLBACK");
        }
        ended.and(done)
    }

    fn inside(
        &mut self,
        scope: &Scope,
        work: &Work,
        statements: &[Statement],
        limits: &SqlLimits,
    ) -> Result<Vec<StatementResult>, SurfaceError> {
        if let Some(stored) = self.stored(scope, work.op())? {
            return Ok(stored);
        }
        let (mut outcomes, mut bytes) = (Vec::with_capacity(statements.len()), 0);
        for (place, statement) in statements.iter().enumerate() {
            let outcome = self.one(statement, limits).map_err(|why| in_transaction(work, place, why))?;
            bytes = answer::together(bytes, &outcome, limits)?;
            outcomes.push(outcome);
        }
        self.store(scope, work.op(), &outcomes, limits)?;
        Ok(outcomes)
    }

    /// Runs one workflow statement.
    fn one(&mut self, statement: &Statement, limits: &SqlLimits) -> Result<StatementResult, SurfaceError> {
        let mode = match statement.class {
            Class::Read => Mode::Read,
            Class::Insert | Class::Write => Mode::Write,
            Class::Define => Mode::Define,
        };
        self.mode.store(mode as u8, Ordering::Relaxed);
        self.budget.store(limits.steps / u64::from(TICK.unsigned_abs()), Ordering::Relaxed);
        let until = millis_since(self.opened).saturating_add(limits.statement_ms);
        self.until.store(until, Ordering::Relaxed);
        let done = self.step_through(statement, limits);
        self.until.store(u64::MAX, Ordering::Relaxed);
        self.budget.store(u64::MAX, Ordering::Relaxed);
        self.mode.store(Mode::Host as u8, Ordering::Relaxed);
        // The value limits of workflows do not apply to stored results.
        let released = self.bound_values(MAX_HOST_BYTES);
        done.and_then(|outcome| released.map(|()| outcome))
    }

    fn bound_values(&self, most: usize) -> Result<(), SurfaceError> {
        let set = self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, as_limit(most));
        set.map(drop).map_err(|cause| unavailable(&cause))
    }

    fn step_through(&self, given: &Statement, limits: &SqlLimits) -> Result<StatementResult, SurfaceError> {
        let prepared = self.connection.prepare(&given.sql);
        let mut statement = prepared.map_err(|cause| explain(&cause, limits, MAX_VALUE_BYTES))?;
        if given.class == Class::Read && !statement.readonly() {
            return Err(SurfaceError::new(
                Code::DatasourceAccessDenied,
                "the statement looks read-only, but it would change data",
            ));
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let columns = names.len();
        let value_bytes = value_bytes(&given.sql, columns);
        let failed = |cause: rusqlite::Error| explain(&cause, limits, value_bytes);
        self.bound_values(value_bytes)?;
        values::bind(&mut statement, &given.params, value_bytes)?;
        let mut gathered = RowCollector::new(limits, names)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            let values: rusqlite::Result<Vec<_>> = (0..columns).map(|column| row.get_ref(column)).collect();
            let values = values.map_err(failed)?;
            gathered.admit(values.iter().map(values::size_of).sum())?;
            gathered.push(values.into_iter().map(values::to_json))?;
        }
        drop(rows);
        let changes = match given.class {
            Class::Insert | Class::Write => self.connection.changes(),
            Class::Read | Class::Define => 0,
        };
        let added = given.class == Class::Insert && changes > 0;
        Ok(StatementResult {
            rows: (columns > 0).then(|| gathered.into_rows()),
            changes,
            last_insert_rowid: added.then(|| self.connection.last_insert_rowid()),
        })
    }

    /// The stored result of the effect id.
    fn stored(&self, scope: &Scope, op: &str) -> Result<Option<Vec<StatementResult>>, SurfaceError> {
        let Some(effect) = &scope.effect else { return Ok(None) };
        let found: Option<(String, Vec<u8>)> = self
            .connection
            .prepare_cached("SELECT op, answer FROM interlock_effects WHERE id = ?1")
            .and_then(|mut statement| {
                statement.query_row([effect], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(|cause| unavailable(&cause))?;
        let Some((by, answer)) = found else { return Ok(None) };
        if by != op {
            return Err(refuse(format!(
                "effect id `{effect}` was already used by {by}; use a different id for {op}"
            )));
        }
        serde_json::from_slice(&answer).map(Some).map_err(|cause| unreadable(&cause))
    }

    fn store(
        &self,
        scope: &Scope,
        op: &str,
        outcomes: &[StatementResult],
        limits: &SqlLimits,
    ) -> Result<(), SurfaceError> {
        let Some(effect) = &scope.effect else { return Ok(()) };
        let answer = serde_json::to_vec(outcomes).map_err(|cause| unreadable(&cause))?;
        if answer.len() > MAX_STORED_BYTES {
            return Err(refuse(format!(
                "the result is larger than {MAX_STORED_BYTES} bytes as JSON; nothing was changed; select \
                    fewer rows or columns"
            )));
        }
        let old = scope.at().saturating_sub(i64::try_from(RETENTION_MS).unwrap_or(i64::MAX));
        let stored = self
            .connection
            .prepare_cached("INSERT INTO interlock_effects (id, op, at, answer) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| statement.execute(params![effect, op, scope.at(), answer]))
            .and_then(|_| {
                self.connection.prepare_cached("DELETE FROM interlock_effects WHERE at < ?1")?.execute([old])
            });
        stored.map(|_| ()).map_err(|cause| unfinished(&cause, limits))
    }

    fn host(&self, sql: &str) -> Result<(), SurfaceError> {
        self.connection.execute_batch(sql).map_err(|cause| unavailable(&cause))
    }
}

pub(crate) fn check_effect(effect: &str) -> Result<(), SurfaceError> {
    if effect.is_empty() || effect.len() > MAX_EFFECT_BYTES || effect.contains('\0') {
        return Err(refuse(format!("an effect id must be 1 to {MAX_EFFECT_BYTES} bytes without NUL")));
    }
    Ok(())
}

/// Converts an SQLite error of a workflow statement. Messages name tables and columns, but no values.
fn explain(cause: &rusqlite::Error, limits: &SqlLimits, value_bytes: usize) -> SurfaceError {
    let said = match cause {
        rusqlite::Error::SqliteFailure(_, Some(said)) => said.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    let (code, message) = match cause.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            (Code::DatasourceAccessDenied, format!("the database rejected the statement: {said}"))
        }
        Some(ErrorCode::OperationInterrupted) => (
            Code::InvalidArgument,
            format!(
                "the statement exceeded {} steps or {} ms; make it read less data",
                limits.steps, limits.statement_ms
            ),
        ),
        Some(ErrorCode::DiskFull) => (
            Code::SqlTransactionAborted,
            format!("the database reached its limit of {} bytes; nothing was changed", limits.file_bytes),
        ),
        Some(ErrorCode::TooBig) => (
            Code::InvalidArgument,
            format!("a value or row exceeds the limit of {value_bytes} bytes: {said}"),
        ),
        Some(ErrorCode::Unknown) | None => (Code::SqlSyntaxError, format!("SQL syntax error: {said}")),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::ParameterOutOfRange) => {
            (Code::SqlTransactionAborted, format!("the statement failed and nothing was changed: {said}"))
        }
        Some(_) => return unavailable(cause),
    };
    SurfaceError::new(code, message)
}

/// The maximum value size for a statement. Large values come from columns, arguments or concatenations.
fn value_bytes(sql: &str, columns: usize) -> usize {
    let places = sql.bytes().filter(|byte| b",(|".contains(byte)).count();
    (MAX_VALUES_BYTES / places.max(columns).max(1)).clamp(MIN_VALUE_BYTES, MAX_VALUE_BYTES)
}

fn as_limit(most: usize) -> i32 {
    i32::try_from(most).unwrap_or(i32::MAX)
}

fn millis_since(moment: Instant) -> u64 {
    u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Converts a commit error: a deferred constraint, or no space for the result.
fn unfinished(cause: &rusqlite::Error, limits: &SqlLimits) -> SurfaceError {
    match cause.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::DiskFull) => explain(cause, limits, MAX_HOST_BYTES),
        _ => unavailable(cause),
    }
}

fn unavailable(cause: &rusqlite::Error) -> SurfaceError {
    failed(cause, retry_advice(cause))
}

fn unopened(cause: &std::io::Error) -> SurfaceError {
    let is_closed = matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    failed(cause, if is_closed { CLOSED } else { AGAIN })
}

fn unreadable(cause: &serde_json::Error) -> SurfaceError {
    failed(cause, "the stored result of this effect id is unreadable; a retry fails again")
}

fn failed(cause: &dyn std::error::Error, retry_advice: &str) -> SurfaceError {
    tracing::warn!(error = %cause, "a tenant database failed");
    SurfaceError::new(Code::SurfaceUnavailable, format!("the tenant's database failed; {retry_advice}"))
}

/// Creates the file owner-only before it has content; SQLite gives its journal the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}
