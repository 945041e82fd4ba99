//! PostgreSQL: a server that the installation has already.
//!
//! Every call is one transaction: read-only for `query`, so that the server itself refuses changes. Statements are prepared, so the server
//! infers the types of the placeholders and takes exactly one statement; values are sent as texts that the server reads as those types.
//!
//! # Effects
//! With [`PostgresOptions::records_effects`] the identity and the outcome of a change are kept in the table `interlock_effects`, which is made
//! where it is missing, in the transaction of the change. Without it the role needs no right to make tables, and a change that is
//! asked for again after a crash may be made again.

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
use self::parameters::Bound;
use super::answer::{self, Gathered};
use super::{Class, Dialect, Outcome, Sql, SqlLimits, Statement, Work, blamed};
use crate::args::{refuse, shown};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::served::Answer;

pub use self::connect::{ConnectError, PostgresOptions};

/// How many rows are fetched at once.
const FETCHED_AT_ONCE: i32 = 256;

/// A database of a PostgreSQL server.
pub struct Postgres {
    pool: Pool,
    limits: SqlLimits,
    records_effects: bool,
    /// Whether the table of effects is known to be there.
    table: OnceCell<()>,
}

impl Postgres {
    /// The database at that address. Nothing is connected before the first call.
    ///
    /// # Errors
    /// When the address cannot be read.
    pub fn new(options: &PostgresOptions, limits: SqlLimits) -> Result<Self, ConnectError> {
        let pool = connect::pool(options, &limits)?;
        Ok(Self { pool, limits, records_effects: options.records_effects, table: OnceCell::new() })
    }

    async fn carry_out(&self, scope: &Scope, work: Work) -> Result<Vec<Outcome>, SurfaceError> {
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
            // What stopped it is told; that it is undone needs no answer.
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
    ) -> Result<Vec<Outcome>, SurfaceError> {
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
            let outcome = self.one(transaction, statement).await.map_err(|why| blamed(work, place, why))?;
            bytes = answer::together(bytes, &outcome, &self.limits)?;
            outcomes.push(outcome);
        }
        if let Some(effect) = effect {
            effects::keep(transaction, scope, effect, &outcomes).await.map_err(failed)?;
        }
        Ok(outcomes)
    }

    async fn one(&self, transaction: &Transaction<'_>, given: &Statement) -> Result<Outcome, SurfaceError> {
        let failed = |why: tokio_postgres::Error| explain(&why, &self.limits);
        let statement = transaction.prepare(&given.sql).await.map_err(failed)?;
        let places = statement.params().len();
        if places != given.params.len() {
            return Err(refuse(format!(
                "the statement has {places} placeholders, and `params` has {} values",
                given.params.len()
            )));
        }
        let bound: Vec<Bound<'_>> = given.params.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> =
            bound.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        if statement.columns().is_empty() {
            let changes = transaction.execute(&statement, &bound).await.map_err(failed)?;
            return Ok(Outcome { changes, ..Outcome::default() });
        }
        let names = statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let mut gathered = Gathered::new(&self.limits, names)?;
        let portal = transaction.bind(&statement, &bound).await.map_err(failed)?;
        loop {
            let rows = transaction.query_portal(&portal, FETCHED_AT_ONCE).await.map_err(failed)?;
            for row in &rows {
                let mut values = Vec::with_capacity(row.len());
                for column in 0..row.len() {
                    let Cell(value) = row.try_get(column).map_err(|_| uncarried(row, column))?;
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
        Ok(Outcome { rows: Some(rows), changes, last_insert_rowid: None })
    }
}

impl Sql for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run<'a>(&'a self, scope: &'a Scope, _datasource: &'a str, work: Work) -> Answer<'a, Vec<Outcome>> {
        self.carry_out(scope, work).boxed()
    }
}

/// The refusal of a column whose type has no form in JSON here.
fn uncarried(row: &tokio_postgres::Row, column: usize) -> SurfaceError {
    let column = &row.columns()[column];
    let message = format!(
        "the column `{}` has the type {}, which JSON has no form for; cast it to text",
        shown(column.name()),
        column.type_()
    );
    refuse(message)
}

fn unavailable() -> SurfaceError {
    SurfaceError::new(
        Code::SurfaceUnavailable,
        "the database server does not answer; the call may be made again",
    )
}

/// Why the server did not do it. Of what the server says only its first line is passed on: details and hints may hold values of rows.
fn explain(why: &tokio_postgres::Error, limits: &SqlLimits) -> SurfaceError {
    let Some(said) = why.as_db_error() else {
        // A value that could not be put on its way says so itself; everything else is the connection, and may name addresses.
        use std::error::Error as _;
        return match why.source().and_then(|source| source.downcast_ref::<parameters::Unfit>()) {
            Some(unfit) => refuse(unfit.to_string()),
            None => unavailable(),
        };
    };
    let message = shown_line(said.message());
    let state = said.code();
    let (code, message) = match (state, state.code().get(..2).unwrap_or_default()) {
        (&SqlState::INSUFFICIENT_PRIVILEGE | &SqlState::READ_ONLY_SQL_TRANSACTION, _) => {
            (Code::DatasourceAccessDenied, format!("the database refuses the statement: {message}"))
        }
        (&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE, _) => (
            Code::InvalidArgument,
            format!("the statement took or waited longer than {} ms", limits.statement_ms),
        ),
        (_, "42") => {
            (Code::SqlSyntaxError, format!("the database does not understand the statement: {message}"))
        }
        (_, "22") => (Code::InvalidArgument, format!("a value is not what the statement needs: {message}")),
        (_, "08" | "53" | "57" | "58" | "XX") => return unavailable(),
        _ => (Code::SqlTransactionAborted, format!("the statement failed, and nothing changed: {message}")),
    };
    SurfaceError::new(code, message)
}

/// What a server says, bounded.
fn shown_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|letter| !letter.is_control()).take(300).collect()
}
