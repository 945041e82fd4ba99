//! The embedded adapter of tables.

use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::Connection;

use super::{Kind, MAX_NAME_BYTES, MAX_PAGE, Query, Row, Rows, Tables, Upserted, rows};
use crate::args::check_name;
use crate::call::Scope;
use crate::embedded::Database;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::served::PortFuture;

/// Tables in the shared database.
#[derive(Debug)]
pub struct EmbeddedTables {
    database: Arc<Database>,
    limits: Arc<Limits>,
}

impl EmbeddedTables {
    pub const fn new(database: Arc<Database>, limits: Arc<Limits>) -> Self {
        Self { database, limits }
    }

    fn with(&self, scope: &Scope) -> (Scope, Arc<Limits>) {
        (scope.clone(), Arc::clone(&self.limits))
    }
}

fn check(what: &str, name: &str) -> Result<(), SurfaceError> {
    check_name(what, name, MAX_NAME_BYTES, Code::InvalidArgument)
}

impl Tables for EmbeddedTables {
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        table: String,
        columns: Vec<(String, Kind)>,
    ) -> PortFuture<'a, bool> {
        async move {
            check("table", &table)?;
            let (at, limits) = self.with(scope);
            let change =
                move |connection: &Connection| rows::create(connection, &at, &limits, &table, &columns);
            self.database.change(scope, "table.createTable", change).await
        }
        .boxed()
    }

    fn insert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> PortFuture<'a, String> {
        async move {
            check("table", &table)?;
            let (at, limits) = self.with(scope);
            let change = move |connection: &Connection| rows::insert(connection, &at, &limits, &table, &row);
            self.database.change(scope, "table.insert", change).await
        }
        .boxed()
    }

    fn upsert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> PortFuture<'a, Upserted> {
        async move {
            check("table", &table)?;
            let (at, limits) = self.with(scope);
            let change = move |connection: &Connection| rows::upsert(connection, &at, &limits, &table, &row);
            self.database.change(scope, "table.upsert", change).await
        }
        .boxed()
    }

    fn get<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> PortFuture<'a, Option<Row>> {
        async move {
            check("table", &table)?;
            self.database.read(|connection| rows::get(connection, &scope.tenant, &table, &id))
        }
        .boxed()
    }

    fn update<'a>(&'a self, scope: &'a Scope, table: String, id: String, patch: Row) -> PortFuture<'a, bool> {
        async move {
            check("table", &table)?;
            let (at, limits) = self.with(scope);
            let change =
                move |connection: &Connection| rows::update(connection, &at, &limits, &table, &id, &patch);
            self.database.change(scope, "table.update", change).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> PortFuture<'a, bool> {
        async move {
            check("table", &table)?;
            let at = scope.clone();
            let change = move |connection: &Connection| rows::delete(connection, &at, &table, &id);
            self.database.change(scope, "table.delete", change).await
        }
        .boxed()
    }

    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Rows> {
        async move {
            check("table", &query.table)?;
            let (tenant, limit) = (scope.tenant.clone(), query.limit.clamp(1, MAX_PAGE));
            let read = move |connection: &Connection| rows::query(connection, &tenant, &query, limit);
            self.database.read_long(&scope.tenant, read).await
        }
        .boxed()
    }

    fn count<'a>(&'a self, scope: &'a Scope, table: String, filter: Row) -> PortFuture<'a, u64> {
        async move {
            check("table", &table)?;
            let tenant = scope.tenant.clone();
            let read = move |connection: &Connection| rows::count(connection, &tenant, &table, &filter);
            self.database.read_long(&scope.tenant, read).await
        }
        .boxed()
    }
}
