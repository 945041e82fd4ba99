//! SQL databases.
//!
//! ```text
//!   query · execute · transaction ─► datasource and its tenants ─► guard ─► SQLite, a file per tenant and datasource
//!                                                                      └──► PostgreSQL, a pool per datasource
//! ```
//!
//! A [`Datasource`] is a named database, for all tenants or for some. With SQLite, every tenant has its own file. With
//! PostgreSQL, the listed tenants share the rights of its role.

mod answer;
pub mod guard;
mod json;
pub mod postgres;
pub mod sqlite;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};
use crate::served::PortFuture;

pub use self::answer::{Row, StatementResult};
pub use self::guard::{Class, Dialect};
pub use self::json::{Datasource, ServedSql};
pub(crate) use self::sqlite::check_effect;

pub const DEFAULT_DATASOURCE: &str = "default";
/// The maximum number of statements in a transaction.
pub const MAX_STATEMENTS: usize = 200;

/// Limits per statement or database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlLimits {
    /// Rows per result.
    pub rows: usize,
    /// Approximate bytes per result.
    pub bytes: usize,
    /// SQLite virtual-machine steps per statement. Unlike a timeout, a step budget is deterministic.
    pub steps: u64,
    /// Time per statement, and for a lock in PostgreSQL. In SQLite the step limit usually applies first; this limits
    /// statements with expensive steps, such as large random blobs.
    pub statement_ms: u64,
    /// Size of an SQLite file.
    pub file_bytes: u64,
    /// Open SQLite files.
    pub open_files: usize,
    /// Connections per PostgreSQL server.
    pub connections: usize,
}

impl Default for SqlLimits {
    fn default() -> Self {
        Self {
            rows: 10_000,
            bytes: 8 << 20,
            steps: 100_000_000,
            statement_ms: 30_000,
            file_bytes: 1 << 30,
            open_files: 64,
            connections: 8,
        }
    }
}

/// A statement accepted by the guard.
#[derive(Clone, Debug)]
pub struct Statement {
    pub sql: String,
    pub params: Vec<Value>,
    pub class: Class,
}

/// The work of one call.
#[derive(Clone, Debug)]
pub enum Work {
    /// A read-only statement.
    Query(Statement),
    /// A statement that may change data.
    Execute(Statement),
    /// Several statements, all or none.
    Transaction(Vec<Statement>),
}

impl Work {
    /// The operation name stored with an effect.
    pub const fn op(&self) -> &'static str {
        match self {
            Self::Query(_) => "sql.query",
            Self::Execute(_) => "sql.execute",
            Self::Transaction(_) => "sql.transaction",
        }
    }
}

/// One database, or one per tenant.
///
/// # Contract
///
/// * All statements are applied or none; changes are durable when the call returns.
/// * With an effect id the work is applied once, and a repeated call returns the first result. Queries have no effect.
/// * A query never changes anything.
/// * The result has one entry per statement, in order, within [`SqlLimits`].
pub trait Sql: Send + Sync {
    fn dialect(&self) -> Dialect;
    fn run<'a>(
        &'a self,
        scope: &'a Scope,
        datasource: &'a str,
        work: Work,
    ) -> PortFuture<'a, Vec<StatementResult>>;
}

/// The tenants of a datasource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    All,
    Only(BTreeSet<Tenant>),
}

impl Tenants {
    fn admits(&self, tenant: &Tenant) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
        }
    }
}

/// The error of a transaction whose statement at that position failed.
fn aborted(place: usize, why: &SurfaceError) -> SurfaceError {
    match why.code {
        Code::SurfaceUnavailable => why.clone(),
        _ => {
            let message =
                format!("statement {place} failed and the transaction was rolled back: {}", why.message);
            SurfaceError::new(Code::SqlTransactionAborted, message)
        }
    }
}

/// Wraps the error of a statement if the work is a transaction.
fn in_transaction(work: &Work, place: usize, why: SurfaceError) -> SurfaceError {
    match work {
        Work::Transaction(_) => aborted(place, &why),
        Work::Query(_) | Work::Execute(_) => why,
    }
}
