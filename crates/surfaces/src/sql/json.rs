//! The JSON interface of SQL databases.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{
    Class, DEFAULT_DATASOURCE, Dialect, MAX_STATEMENTS, Sql, Statement, StatementResult, Tenants, Work, guard,
};
use crate::args::{Args, refuse, shown};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["query", "execute", "transaction"];

/// A named database.
#[derive(Clone)]
pub struct Datasource {
    pub name: String,
    pub tenants: Tenants,
    pub database: Arc<dyn Sql>,
}

impl fmt::Debug for Datasource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Datasource")
            .field("name", &self.name)
            .field("tenants", &self.tenants)
            .finish_non_exhaustive()
    }
}

pub struct ServedSql {
    datasources: BTreeMap<String, Datasource>,
}

impl ServedSql {
    /// Wraps the datasources. If two have the same name, the later one is used.
    pub fn new(datasources: impl IntoIterator<Item = Datasource>) -> Self {
        Self {
            datasources: datasources
                .into_iter()
                .map(|datasource| (datasource.name.clone(), datasource))
                .collect(),
        }
    }

    fn datasource(&self, scope: &Scope, args: &mut Args) -> Result<&Datasource, SurfaceError> {
        let name = match (args.optional_text("datasource")?, args.optional_text("datasourceId")?) {
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) => DEFAULT_DATASOURCE.to_owned(),
            (Some(_), Some(_)) => {
                return Err(refuse("`datasource` and `datasourceId` are synonyms; use only one"));
            }
        };
        let Some(found) = self.datasources.get(&name) else {
            let message = format!(
                "unknown datasource `{}`; datasources are defined in the host settings",
                shown(&name)
            );
            return Err(SurfaceError::new(Code::DatasourceNotFound, message));
        };
        if !found.tenants.admits(&scope.tenant) {
            let message = format!("the tenant is not allowed to use the datasource `{}`", shown(&name));
            return Err(SurfaceError::new(Code::DatasourceAccessDenied, message));
        }
        Ok(found)
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        let several = op == "transaction";
        let known: &[&str] = match op {
            "query" | "execute" => &["sql", "params", "datasource", "datasourceId"],
            "transaction" => &["statements", "operations", "datasource", "datasourceId"],
            _ => return Err(unknown_op("sql", op, OPS)),
        };
        let mut args = Args::new(args, known)?;
        let datasource = self.datasource(scope, &mut args)?;
        let dialect = datasource.database.dialect();
        let work = if several {
            Work::Transaction(statements(&mut args, dialect)?)
        } else {
            let statement = statement(&mut args, dialect)?;
            if op == "query" { Work::Query(reading(statement)?) } else { Work::Execute(statement) }
        };
        let outcomes = datasource.database.run(scope, &datasource.name, work).await?;
        Ok(if several {
            transaction_answer(outcomes)
        } else {
            answer(outcomes.into_iter().next().unwrap_or_default(), op == "query")
        })
    }
}

fn statements(args: &mut Args, dialect: Dialect) -> Result<Vec<Statement>, SurfaceError> {
    let Value::Array(given) = args.one_of(&["statements", "operations"])? else {
        return Err(refuse("`statements` must be a list of {sql, params}"));
    };
    if given.is_empty() || given.len() > MAX_STATEMENTS {
        return Err(refuse(format!(
            "`statements` must have 1 to {MAX_STATEMENTS} statements; {} were given",
            given.len()
        )));
    }
    let read = |(place, given): (usize, Value)| {
        let Value::Object(given) = given else {
            return Err(refuse(format!("statement {place} must be {{sql, params}}")));
        };
        let read = Args::new(given, &["sql", "params"]).and_then(|mut args| statement(&mut args, dialect));
        read.map_err(|refusal| SurfaceError {
            message: format!("statement {place}: {}", refusal.message),
            ..refusal
        })
    };
    given.into_iter().enumerate().map(read).collect()
}

/// A statement accepted by the guard.
fn statement(args: &mut Args, dialect: Dialect) -> Result<Statement, SurfaceError> {
    let sql = args.text("sql")?;
    let params = match args.optional("params") {
        None => Vec::new(),
        Some(Value::Array(params)) => params,
        Some(_) => return Err(refuse("`params` must be a list with one value per placeholder")),
    };
    if params.len() > guard::MAX_PARAMETERS {
        return Err(refuse(format!(
            "`params` has {} values; the limit is {}",
            params.len(),
            guard::MAX_PARAMETERS
        )));
    }
    let class = guard::check(&sql, dialect)?;
    Ok(Statement { sql, params, class })
}

fn reading(statement: Statement) -> Result<Statement, SurfaceError> {
    if statement.class == Class::Read {
        return Ok(statement);
    }
    let message = "`query` is read-only; use `execute` for statements that change or lock data";
    Err(SurfaceError::new(Code::DatasourceAccessDenied, message))
}

/// Both spellings: of the conformance interface, and of the interface for packs.
fn answer(outcome: StatementResult, is_query: bool) -> Value {
    let mut answer = Map::new();
    if is_query || outcome.rows.is_some() {
        let rows = outcome.rows.unwrap_or_default();
        answer.insert("count".into(), rows.len().into());
        answer.insert("rowCount".into(), rows.len().into());
        answer.insert("rows".into(), rows.into_iter().map(Value::Object).collect());
    }
    if !is_query {
        answer.insert("changes".into(), outcome.changes.into());
        answer.insert("rowsAffected".into(), outcome.changes.into());
        answer.insert("lastInsertRowid".into(), outcome.last_insert_rowid.into());
    }
    Value::Object(answer)
}

fn transaction_answer(outcomes: Vec<StatementResult>) -> Value {
    let results: Vec<Value> = outcomes.into_iter().map(|outcome| answer(outcome, false)).collect();
    json!({ "ok": true, "committed": true, "results": results })
}

impl Served for ServedSql {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    /// Datasources for some tenants only are not listed: the document is public.
    fn advertise(&self) -> (&'static str, Value) {
        let driver = |datasource: &Datasource| match datasource.database.dialect() {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        };
        let public = self.datasources.values().filter(|datasource| datasource.tenants == Tenants::All);
        let public: Vec<Value> = public.map(|one| json!({ "id": one.name, "driver": driver(one) })).collect();
        let drivers: std::collections::BTreeSet<&str> = self.datasources.values().map(driver).collect();
        let block = json!({
            "supported": !self.datasources.is_empty(),
            "datasources": public,
            "transactions": true,
            "drivers": drivers,
        });
        ("sql", block)
    }
}
