//! One file, open, and the work on it.

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
use crate::outlook::{AGAIN, CLOSED, outlook};
use crate::sql::answer::{self, Gathered};
use crate::sql::guard::{MAX_PARAMETERS, MAX_SQL_BYTES};
use crate::sql::{Class, Outcome, SqlLimits, Statement, Work, blamed};

/// How often, in steps, the budget is looked at.
const TICK: c_int = 100;
/// The pages of a file, in bytes.
const PAGE: u64 = 4096;
/// A text, a blob or a row of a statement with few columns and calls.
const MAX_VALUE_BYTES: usize = 8 << 20;
/// The same of a statement that has very many.
const MIN_VALUE_BYTES: usize = 1 << 20;
/// What the values of a statement have together, about. SQLite has all columns of a row and all arguments of a call in memory at once, and
/// nobody sees the row before it is whole.
const MAX_VALUES_BYTES: usize = 256 << 20;
/// The answer of an effect, as the host stores it. As JSON an answer may have some times the bytes it is counted with.
const MAX_STORED_BYTES: usize = 64 << 20;
/// A row of the host: an answer, with its identity and its operation.
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
    /// Ticks that are left.
    budget: Arc<AtomicU64>,
    /// When the statement has to end, in milliseconds since the file was opened.
    until: Arc<AtomicU64>,
    opened: Instant,
}

impl Connected {
    /// Opens the file, which is made where it is not there.
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
            // A text in double quotes is a name, and never a value that the guard has not seen.
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

    /// Whether no transaction was left open.
    pub(super) fn is_settled(&self) -> bool {
        self.connection.is_autocommit()
    }

    pub(super) fn run(
        &mut self,
        scope: &Scope,
        work: &Work,
        limits: &SqlLimits,
    ) -> Result<Vec<Outcome>, SurfaceError> {
        match work {
            Work::Query(statement) => Ok(vec![self.one(statement, limits)?]),
            Work::Execute(statement) => self.change(scope, work, std::slice::from_ref(statement), limits),
            Work::Transaction(statements) => self.change(scope, work, statements, limits),
        }
    }

    /// All statements in one transaction, with the identity of the effect.
    fn change(
        &mut self,
        scope: &Scope,
        work: &Work,
        statements: &[Statement],
        limits: &SqlLimits,
    ) -> Result<Vec<Outcome>, SurfaceError> {
        if let Some(effect) = &scope.effect {
            check_effect(effect)?;
        }
        self.host("BEGIN IMMEDIATE")?;
        let done = self.inside(scope, work, statements, limits);
        let ended = match &done {
            // What a constraint leaves to the end is checked here.
            Ok(_) => self.connection.execute_batch("COMMIT").map_err(|cause| unfinished(&cause, limits)),
            Err(_) => Ok(()),
        };
        if !self.is_settled() {
            // Whatever stopped it, nothing stays. A connection on which this fails is not used again.
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
    ) -> Result<Vec<Outcome>, SurfaceError> {
        if let Some(stored) = self.stored(scope, work.op())? {
            return Ok(stored);
        }
        let (mut outcomes, mut bytes) = (Vec::with_capacity(statements.len()), 0);
        for (place, statement) in statements.iter().enumerate() {
            let outcome = self.one(statement, limits).map_err(|why| blamed(work, place, why))?;
            bytes = answer::together(bytes, &outcome, limits)?;
            outcomes.push(outcome);
        }
        self.store(scope, work.op(), &outcomes, limits)?;
        Ok(outcomes)
    }

    /// One statement of a workflow.
    fn one(&mut self, statement: &Statement, limits: &SqlLimits) -> Result<Outcome, SurfaceError> {
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
        // What binds the values of workflows does not bind what the host stores of their answers.
        let released = self.bound_values(MAX_HOST_BYTES);
        done.and_then(|outcome| released.map(|()| outcome))
    }

    fn bound_values(&self, most: usize) -> Result<(), SurfaceError> {
        let set = self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, as_limit(most));
        set.map(drop).map_err(|cause| unavailable(&cause))
    }

    fn step_through(&self, given: &Statement, limits: &SqlLimits) -> Result<Outcome, SurfaceError> {
        let prepared = self.connection.prepare(&given.sql);
        let mut statement = prepared.map_err(|cause| explain(&cause, limits, MAX_VALUE_BYTES))?;
        if given.class == Class::Read && !statement.readonly() {
            return Err(SurfaceError::new(
                Code::DatasourceAccessDenied,
                "the statement reads, says its text, but it would change something",
            ));
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let columns = names.len();
        let value_bytes = value_bytes(&given.sql, columns);
        let failed = |cause: rusqlite::Error| explain(&cause, limits, value_bytes);
        self.bound_values(value_bytes)?;
        values::bind(&mut statement, &given.params, value_bytes)?;
        let mut gathered = Gathered::new(limits, names)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            let values: rusqlite::Result<Vec<_>> = (0..columns).map(|column| row.get_ref(column)).collect();
            let values = values.map_err(failed)?;
            gathered.admit(values.iter().map(values::size_of).sum())?;
            gathered.push(values.into_iter().map(values::told))?;
        }
        drop(rows);
        let changes = match given.class {
            Class::Insert | Class::Write => self.connection.changes(),
            Class::Read | Class::Define => 0,
        };
        let added = given.class == Class::Insert && changes > 0;
        Ok(Outcome {
            rows: (columns > 0).then(|| gathered.into_rows()),
            changes,
            last_insert_rowid: added.then(|| self.connection.last_insert_rowid()),
        })
    }

    /// What was answered under the identity before.
    fn stored(&self, scope: &Scope, op: &str) -> Result<Option<Vec<Outcome>>, SurfaceError> {
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
                "the effect `{effect}` was made by {by}, and {op} cannot have it too; use another identity"
            )));
        }
        serde_json::from_slice(&answer).map(Some).map_err(|cause| unreadable(&cause))
    }

    fn store(
        &self,
        scope: &Scope,
        op: &str,
        outcomes: &[Outcome],
        limits: &SqlLimits,
    ) -> Result<(), SurfaceError> {
        let Some(effect) = &scope.effect else { return Ok(()) };
        let answer = serde_json::to_vec(outcomes).map_err(|cause| unreadable(&cause))?;
        if answer.len() > MAX_STORED_BYTES {
            return Err(refuse(format!(
                "the answer has more than {MAX_STORED_BYTES} bytes as JSON, and nothing changed; ask for fewer rows or columns"
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
        return Err(refuse(format!("an effect's identity is 1 to {MAX_EFFECT_BYTES} bytes without NUL")));
    }
    Ok(())
}

/// Why SQLite did not run the statement of a workflow. Its texts name tables and columns of the tenant, and no values.
fn explain(cause: &rusqlite::Error, limits: &SqlLimits, value_bytes: usize) -> SurfaceError {
    let said = match cause {
        rusqlite::Error::SqliteFailure(_, Some(said)) => said.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    let (code, message) = match cause.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            (Code::DatasourceAccessDenied, format!("the database refuses the statement: {said}"))
        }
        Some(ErrorCode::OperationInterrupted) => (
            Code::InvalidArgument,
            format!(
                "the statement took more than {} steps or {} ms; make it read less",
                limits.steps, limits.statement_ms
            ),
        ),
        Some(ErrorCode::DiskFull) => (
            Code::SqlTransactionAborted,
            format!("the database may have {} bytes, and has no room; nothing changed", limits.file_bytes),
        ),
        Some(ErrorCode::TooBig) => (
            Code::InvalidArgument,
            format!(
                "a value or a row of this statement may have {value_bytes} bytes, and one has more: {said}"
            ),
        ),
        Some(ErrorCode::Unknown) | None => {
            (Code::SqlSyntaxError, format!("the database does not understand the statement: {said}"))
        }
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::ParameterOutOfRange) => {
            (Code::SqlTransactionAborted, format!("the statement failed, and nothing changed: {said}"))
        }
        Some(_) => return unavailable(cause),
    };
    SurfaceError::new(code, message)
}

/// How many bytes a value of the statement may have. What is large has to come from a column, an argument or a concatenation.
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

/// Why the work was not kept although its statements ran: what a constraint leaves to the end, or no room for the answer.
fn unfinished(cause: &rusqlite::Error, limits: &SqlLimits) -> SurfaceError {
    match cause.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::DiskFull) => explain(cause, limits, MAX_HOST_BYTES),
        _ => unavailable(cause),
    }
}

fn unavailable(cause: &rusqlite::Error) -> SurfaceError {
    failed(cause, outlook(cause))
}

fn unopened(cause: &std::io::Error) -> SurfaceError {
    let is_closed = matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    failed(cause, if is_closed { CLOSED } else { AGAIN })
}

fn unreadable(cause: &serde_json::Error) -> SurfaceError {
    failed(
        cause,
        "what it answered under this identity cannot be read or kept, and the same call fails again",
    )
}

fn failed(cause: &dyn std::error::Error, outlook: &str) -> SurfaceError {
    tracing::warn!(error = %cause, "a database of a tenant failed");
    SurfaceError::new(Code::SurfaceUnavailable, format!("the database of the tenant failed; {outlook}"))
}

/// The file is owner-only before anything is in it; SQLite gives its companions the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}
