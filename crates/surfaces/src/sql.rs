//! Databases that speak SQL.
//!
//! ```text
//!   query · execute · transaction ─► datasource, and whose it is ─► guard ─► SQLite, a file per tenant and datasource
//!                                                                       └──► PostgreSQL, a pool per datasource
//! ```
//!
//! A [`Datasource`] is a database under a name, for all tenants or for some. Where it is SQLite, every tenant has a file of its own below that
//! name. Where it is PostgreSQL, the tenants that are named share what its role may do there.

mod answer;
pub mod guard;
mod json;
pub mod postgres;
pub mod sqlite;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};
use crate::served::Answer;

pub use self::answer::{Outcome, Row};
pub use self::guard::{Class, Dialect};
pub use self::json::{Datasource, ServedSql};
pub(crate) use self::sqlite::check_effect;

/// The datasource of calls that name none.
pub const DEFAULT_DATASOURCE: &str = "default";
/// How many statements a transaction may have.
pub const MAX_STATEMENTS: usize = 200;

/// How much of everything, for one statement or one database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlLimits {
    /// The rows of an answer.
    pub rows: usize,
    /// The bytes of an answer, about.
    pub bytes: usize,
    /// The steps of the machine that runs a statement of SQLite. A step budget ends the same statement at the same place on every machine.
    pub steps: u64,
    /// How long a statement may take, and in PostgreSQL wait for a lock. In SQLite the steps end almost every statement before; this is for
    /// those whose steps are long, such as ones that make megabytes of random bytes each.
    pub statement_ms: u64,
    /// A file of SQLite.
    pub file_bytes: u64,
    /// The files of SQLite that are open at once.
    pub open_files: usize,
    /// The connections to one server of PostgreSQL.
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

/// A statement that the guard has let through.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its text.
    pub sql: String,
    /// Its values.
    pub params: Vec<Value>,
    /// What it does.
    pub class: Class,
}

/// What is asked of a database.
#[derive(Clone, Debug)]
pub enum Work {
    /// One statement that may only read.
    Query(Statement),
    /// One statement that may change things.
    Execute(Statement),
    /// Several, all or none.
    Transaction(Vec<Statement>),
}

impl Work {
    /// The operation's name, under which an effect is kept.
    pub const fn op(&self) -> &'static str {
        match self {
            Self::Query(_) => "sql.query",
            Self::Execute(_) => "sql.execute",
            Self::Transaction(_) => "sql.transaction",
        }
    }
}

/// One database, or one for each tenant.
///
/// # Contract
/// * All statements of the work happen or none does; what happened is durable when this returns.
/// * With an effect's identity the work happens once, and the second call gets the outcome of the first. Queries have no effect.
/// * A query changes nothing, whatever its text is.
/// * An outcome has an entry for each statement, in order, within the bounds of [`SqlLimits`].
pub trait Sql: Send + Sync {
    /// The grammar that it understands.
    fn dialect(&self) -> Dialect;
    /// Does the work.
    fn run<'a>(&'a self, scope: &'a Scope, datasource: &'a str, work: Work) -> Answer<'a, Vec<Outcome>>;
}

/// For whom a datasource is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// For every tenant.
    All,
    /// For those and no others.
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

/// The refusal of a transaction, of which the statement at that place failed.
fn aborted(place: usize, why: &SurfaceError) -> SurfaceError {
    match why.code {
        Code::SurfaceUnavailable => why.clone(),
        _ => {
            let message =
                format!("statement {place} failed, and none of the transaction happened: {}", why.message);
            SurfaceError::new(Code::SqlTransactionAborted, message)
        }
    }
}

/// Whether a failure is that of a transaction, and then of which statement.
fn blamed(work: &Work, place: usize, why: SurfaceError) -> SurfaceError {
    match work {
        Work::Transaction(_) => aborted(place, &why),
        Work::Query(_) | Work::Execute(_) => why,
    }
}
