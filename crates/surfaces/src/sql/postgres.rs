//! PostgreSQL datasources.
//!
//! Every call is one transaction, read-only for `query`, so the server itself rejects changes. Statements are prepared:
//! the server infers placeholder types and accepts exactly one statement. Values are sent as text, which the server
//! parses as those types.
//!
//! # Effects
//!
//! With [`PostgresOptions::records_effects`], the effect id and result are stored in the table `interlock_effects` in
//! the same transaction; the table is created if missing. Without it the role needs no right to create tables, and a
//! change that is repeated after a crash may be applied twice.

mod cells;
mod connect;
mod effects;
mod numeric;
mod parameters;

use deadpool_postgres::{Pool, Transaction};
use futures_util::FutureExt as _;
use tokio::sync::OnceCell;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use self::cells::Cell;
use self::parameters::Parameter;
use super::answer::{self, RowCollector};
use super::{Class, Dialect, Sql, SqlLimits, Statement, StatementResult, Work, in_transaction};
use crate::args::{refuse, shown};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::served::PortFuture;

pub use self::connect::{ConnectError, PostgresOptions};

/// Rows fetched per round trip.
const FETCHED_AT_ONCE: i32 = 256;

/// A PostgreSQL database.
pub struct Postgres {
    pool: Pool,
    limits: SqlLimits,
    records_effects: bool,
    /// Whether the effects table is known to exist.
    table: OnceCell<()>,
}

impl Postgres {
    /// Creates the datasource. It connects at the first call.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(options: &PostgresOptions, limits: SqlLimits) -> Result<Self, ConnectError> {
        let pool = connect::pool(options, &limits)?;
        Ok(Self { pool, limits, records_effects: options.records_effects, table: OnceCell::new() })
    }

    async fn carry_out(&self, scope: &Scope, work: Work) -> Result<Vec<StatementResult>, SurfaceError> {
        if let Some(effect) = &scope.effect {
            super::sqlite::check_effect(effect)?;
        }
        let mut client = self.pool.get().await.map_err(|_| unavailable())?;
        let reads = matches!(work, Work::Query(_));
        let effect = scope.effect.as_deref().filter(|_| self.records_effects && !reads);
        if effect.is_some() {
            self.table
                .get_or_try_init(|| effects::make_table(&mut client))
                .await
                .map_err(|why| explain(&why, &self.limits))?;
        }
        let transaction = client
            .build_transaction()
            .read_only(reads)
            .start()
            .await
            .map_err(|why| explain(&why, &self.limits))?;
        let outcome = self.inside(&transaction, scope, effect, &work).await;
        let ended = match &outcome {
            Ok(_) => transaction.commit().await.map_err(|why| explain(&why, &self.limits)),
            // The original error is returned; the rollback result does not matter.
            Err(_) => transaction.rollback().await.or(Ok(())),
        };
        ended.and(outcome)
    }

    async fn inside(
        &self,
        transaction: &Transaction<'_>,
        scope: &Scope,
        effect: Option<&str>,
        work: &Work,
    ) -> Result<Vec<StatementResult>, SurfaceError> {
        let failed = |why: tokio_postgres::Error| explain(&why, &self.limits);
        let bounds = format!(
            "SET LOCAL statement_timeout = {0}; SET LOCAL lock_timeout = {0}; SET LOCAL standard_conforming_strings = on",
            self.limits.statement_ms
        );
        transaction.batch_execute(&bounds).await.map_err(failed)?;
        if let Some(effect) = effect
            && let Some(stored) =
                effects::claim(transaction, scope, effect, work.op()).await.map_err(failed)?
        {
            return stored;
        }
        let statements = match work {
            Work::Query(statement) | Work::Execute(statement) => std::slice::from_ref(statement),
            Work::Transaction(statements) => statements,
        };
        let (mut outcomes, mut bytes) = (Vec::with_capacity(statements.len()), 0);
        for (place, statement) in statements.iter().enumerate() {
            let outcome =
                self.one(transaction, statement).await.map_err(|why| in_transaction(work, place, why))?;
            bytes = answer::together(bytes, &outcome, &self.limits)?;
            outcomes.push(outcome);
        }
        if let Some(effect) = effect {
            effects::keep(transaction, scope, effect, &outcomes).await.map_err(failed)?;
        }
        Ok(outcomes)
    }

    async fn one(
        &self,
        transaction: &Transaction<'_>,
        given: &Statement,
    ) -> Result<StatementResult, SurfaceError> {
        let failed = |why: tokio_postgres::Error| explain(&why, &self.limits);
        let statement = transaction.prepare(&given.sql).await.map_err(failed)?;
        let places = statement.params().len();
        if places != given.params.len() {
            return Err(refuse(format!(
                "the statement has {places} placeholders, but `params` has {} values",
                given.params.len()
            )));
        }
        let bound: Vec<Parameter<'_>> = given.params.iter().map(Parameter).collect();
        let bound: Vec<&(dyn ToSql + Sync)> =
            bound.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        if statement.columns().is_empty() {
            let changes = transaction.execute(&statement, &bound).await.map_err(failed)?;
            return Ok(StatementResult { changes, ..StatementResult::default() });
        }
        let names = statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let mut gathered = RowCollector::new(&self.limits, names)?;
        let portal = transaction.bind(&statement, &bound).await.map_err(failed)?;
        loop {
            let rows = transaction.query_portal(&portal, FETCHED_AT_ONCE).await.map_err(failed)?;
            for row in &rows {
                let mut values = Vec::with_capacity(row.len());
                for column in 0..row.len() {
                    let Cell(value) = row.try_get(column).map_err(|_| no_json_form(row, column))?;
                    values.push(value);
                }
                gathered.push(values)?;
            }
            if rows.len() < usize::try_from(FETCHED_AT_ONCE).unwrap_or(usize::MAX) {
                break;
            }
        }
        let rows = gathered.into_rows();
        let changes = if given.class == Class::Read { 0 } else { rows.len() as u64 };
        Ok(StatementResult { rows: Some(rows), changes, last_insert_rowid: None })
    }
}

impl Sql for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run<'a>(
        &'a self,
        scope: &'a Scope,
        _datasource: &'a str,
        work: Work,
    ) -> PortFuture<'a, Vec<StatementResult>> {
        self.carry_out(scope, work).boxed()
    }
}

/// The error for a column type without a JSON form.
fn no_json_form(row: &tokio_postgres::Row, column: usize) -> SurfaceError {
    let column = &row.columns()[column];
    let message = format!(
        "the column `{}` has type {}, which has no JSON form; cast it to text",
        shown(column.name()),
        column.type_()
    );
    refuse(message)
}

fn unavailable() -> SurfaceError {
    SurfaceError::new(Code::SurfaceUnavailable, "the database server is unreachable; retry later")
}

/// Converts a server error. Only the first line is forwarded: details and hints may contain row values.
fn explain(why: &tokio_postgres::Error, limits: &SqlLimits) -> SurfaceError {
    let Some(said) = why.as_db_error() else {
        // A parameter that cannot be encoded has its own error; all others are connection errors and may name
        // addresses.
        use std::error::Error as _;
        return match why.source().and_then(|source| source.downcast_ref::<parameters::InvalidParameter>()) {
            Some(unfit) => refuse(unfit.to_string()),
            None => unavailable(),
        };
    };
    let message = shown_line(said.message());
    let state = said.code();
    let (code, message) = match (state, state.code().get(..2).unwrap_or_default()) {
        (&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION, _) => {
            (Code::DatasourceAccessDenied, format!("the database rejected the statement: {message}"))
        }
        (&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE, _) => (
            Code::InvalidArgument,
            format!("the statement exceeded the time limit of {} ms", limits.statement_ms),
        ),
        (_, "42") => (Code::SqlSyntaxError, format!("SQL syntax error: {message}")),
        (_, "22") => (Code::InvalidArgument, format!("invalid value: {message}")),
        (_, "08" | "53" | "57" | "58" | "XX") => return unavailable(),
        _ => (
            Code::SqlTransactionAborted,
            format!(
                "the statement failed and nothing was changed: \
            {message}"
            ),
        ),
    };
    SurfaceError::new(code, message)
}

/// The first line of a server message, shortened.
fn shown_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|letter| !letter.is_control()).take(300).collect()
}
