//! Classifies a parsed statement and checks whether tenants may run it.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, ObjectType, Query, Select, SetExpr, Statement, TableFactor, Visit, Visitor,
};

use super::{Class, Dialect, RESERVED_PREFIX, denied, short};
use crate::error::SurfaceError;

pub(super) fn of(statement: &Statement, dialect: Dialect) -> Result<Class, SurfaceError> {
    let class = top(statement, dialect)?;
    let mut walk = ClassVisitor { dialect, changes: false, statements: 0 };
    if let ControlFlow::Break(refusal) = statement.visit(&mut walk) {
        return Err(refusal);
    }
    match (class, walk.changes) {
        (Class::Read, true) => Ok(Class::Write),
        (class, _) => Ok(class),
    }
}

/// The class of the outermost statement.
fn top(statement: &Statement, dialect: Dialect) -> Result<Class, SurfaceError> {
    let postgres = dialect == Dialect::Postgres;
    let class = match statement {
        Statement::Query(_) => Class::Read,
        Statement::Insert(_) => Class::Insert,
        Statement::Update(_) | Statement::Delete(_) => Class::Write,
        Statement::Truncate(_) if postgres => Class::Write,
        Statement::CreateTable(table) if !table.temporary && !table.external => Class::Define,
        Statement::CreateView(view) if !view.temporary => Class::Define,
        Statement::CreateIndex(_) | Statement::AlterTable(_) => Class::Define,
        Statement::CreateSequence { temporary: false, .. } if postgres => Class::Define,
        Statement::Drop { object_type: ObjectType::Table | ObjectType::View | ObjectType::Index, .. } => {
            Class::Define
        }
        Statement::Drop { object_type: ObjectType::Sequence | ObjectType::MaterializedView, .. }
            if postgres =>
        {
            Class::Define
        }
        _ => {
            return Err(denied(
                "this kind of statement is not allowed; workflows can read, change and define tables",
            ));
        }
    };
    Ok(class)
}

struct ClassVisitor {
    dialect: Dialect,
    /// Whether a nested part changes or locks rows.
    changes: bool,
    statements: usize,
}

impl Visitor for ClassVisitor {
    type Break = SurfaceError;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SurfaceError> {
        self.statements += 1;
        if self.statements > 1 {
            match statement {
                Statement::Query(_) => {}
                Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => self.changes = true,
                _ => {
                    return ControlFlow::Break(denied(
                        "only queries and row changes are allowed inside a statement",
                    ));
                }
            }
        }
        if let Statement::Drop { names, table, .. } = statement {
            for name in names.iter().chain(table) {
                self.relation(name)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SurfaceError> {
        self.changes |= !query.locks.is_empty();
        self.body(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SurfaceError> {
        if select.into.is_some() {
            return ControlFlow::Break(denied("`SELECT … INTO` is not supported; use `CREATE TABLE … AS`"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<SurfaceError> {
        self.relation(relation)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SurfaceError> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.function(name)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SurfaceError> {
        match expression {
            Expr::Function(function) => self.function(&function.name),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl ClassVisitor {
    /// Checks the body of a query. The parser keeps changes in `WITH` as query bodies, and the name in `TABLE name` as
    /// plain text that no relation visitor sees.
    fn body(&mut self, body: &SetExpr) -> ControlFlow<SurfaceError> {
        // `UNION` chains are left-deep and as long as the word limit allows.
        let mut waiting = vec![body];
        while let Some(body) = waiting.pop() {
            match body {
                SetExpr::SetOperation { left, right, .. } => waiting.extend([&**left, &**right]),
                SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                    self.changes = true;
                }
                SetExpr::Table(_) => {
                    return ControlFlow::Break(denied(
                        "`TABLE name` is not supported; use `SELECT * FROM name`",
                    ));
                }
                SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Rejects system tables.
    fn relation(&self, name: &ObjectName) -> ControlFlow<SurfaceError> {
        for part in parts(name) {
            let system = match self.dialect {
                Dialect::Sqlite => {
                    part.starts_with("sqlite_")
                        || part.starts_with("pragma_")
                        || SQLITE_TABLES.contains(&part.as_str())
                }
                Dialect::Postgres => part.starts_with("pg_") || part == "information_schema",
            };
            if system || part.starts_with(RESERVED_PREFIX) {
                return ControlFlow::Break(denied(format!(
                    "`{}` is reserved for the database",
                    short(&part)
                )));
            }
        }
        ControlFlow::Continue(())
    }

    /// Rejects functions that reach beyond the data: files, other servers, settings, other sessions, dynamic SQL.
    fn function(&self, name: &ObjectName) -> ControlFlow<SurfaceError> {
        for part in parts(name) {
            let refused = match self.dialect {
                Dialect::Sqlite => is_refused_in_sqlite(&part),
                Dialect::Postgres => is_refused_in_postgres(&part),
            };
            if refused {
                return ControlFlow::Break(denied(format!("the function `{}` is not allowed", short(&part))));
            }
        }
        ControlFlow::Continue(())
    }
}

/// SQLite tables with internals.
const SQLITE_TABLES: [&str; 4] = ["dbstat", "bytecode", "tables_used", "temp"];

/// Whether an SQLite function reaches beyond the data. The authorizer checks the same when it compiles the statement.
pub(in crate::sql) fn is_refused_in_sqlite(name: &str) -> bool {
    name.starts_with("sqlite_")
        || name.starts_with("pragma_")
        || matches!(name, "load_extension" | "readfile" | "writefile" | "edit" | "fts3_tokenizer" | "fts5")
}

fn is_refused_in_postgres(name: &str) -> bool {
    let prefixes = ["pg_", "lo_", "dblink", "binary_upgrade_", "postgres_fdw_", "has_", "crosstab"];
    if name == "pg_typeof" || name == "pg_catalog" {
        return false;
    }
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || matches!(
            name,
            "set_config"
                | "current_setting"
                | "query_to_xml"
                | "query_to_xmlschema"
                | "query_to_xml_and_xmlschema"
                | "cursor_to_xml"
                | "cursor_to_xmlschema"
                | "table_to_xml"
                | "table_to_xmlschema"
                | "table_to_xml_and_xmlschema"
                | "schema_to_xml"
                | "schema_to_xmlschema"
                | "schema_to_xml_and_xmlschema"
                | "database_to_xml"
                | "database_to_xmlschema"
                | "database_to_xml_and_xmlschema"
                | "ts_stat"
                | "ts_rewrite"
                | "connectby"
                | "xpath_table"
                | "loread"
                | "lowrite"
                | "inet_server_addr"
                | "inet_client_addr"
                | "row_security_active"
        )
}

/// The parts of a name, folded as the database does.
fn parts(name: &ObjectName) -> impl Iterator<Item = String> {
    name.0.iter().map(|part| match part.as_ident() {
        Some(ident) => ident.value.to_ascii_lowercase(),
        None => part.to_string().to_ascii_lowercase(),
    })
}
