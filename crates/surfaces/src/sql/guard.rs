//! Which statements may reach a database at all: one statement, whose values are all bound, of a kind that is allowed.
//!
//! The judgement is made on the parsed statement. The tokens are looked at as well, in the other direction: a literal counts as allowed
//! only when the parsed statement names the place where it stands, so a construct that this module does not know hides nothing.
//!
//! | A literal may stand | because |
//! |---|---|
//! | behind `LIMIT`, `OFFSET`, `FETCH FIRST` | it counts rows of the answer, and changes nothing else |
//! | alone in `ORDER BY` and `GROUP BY` | it is the number of a column, which cannot be bound |
//! | in the type of a cast, such as `numeric(10, 2)` | types cannot be bound |
//! | in `CREATE TABLE`, `CREATE INDEX`, `ALTER TABLE`, `CREATE SEQUENCE` | definitions cannot be bound |
//!
//! Everywhere else, inside the queries of `CREATE TABLE … AS` and of views too, a number or a text is refused. `NULL`, `TRUE` and `FALSE` are
//! words of the language, but `OR TRUE` is refused: it is how a condition is switched off.

mod class;
mod literals;
mod tokens;

use sqlparser::ast::Statement;
use sqlparser::dialect::{PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};

pub(super) use self::class::is_refused_in_sqlite;
use crate::error::{Code, SurfaceError};

/// How many bytes a statement may have.
pub const MAX_SQL_BYTES: usize = 64 * 1024;
/// How many parameters a statement may have.
pub const MAX_PARAMETERS: usize = 1_000;
/// How many parentheses and brackets may be open at once.
pub const MAX_OPEN: usize = 24;
/// How many words and operators a statement may have; parameters and commas do not count. It bounds how deep its tree can be.
pub const MAX_WORDS: usize = 1_000;
/// How deep expressions and queries may nest.
const MAX_NESTING: usize = 40;
/// What the host keeps for itself in a database begins so.
pub const RESERVED_PREFIX: &str = "interlock_";

/// Whose grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// That of SQLite.
    Sqlite,
    /// That of PostgreSQL.
    Postgres,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It reads.
    Read,
    /// It adds rows, and does nothing else at its top.
    Insert,
    /// It changes rows.
    Write,
    /// It changes tables.
    Define,
}

/// What the statement does, when it may run.
///
/// # Errors
/// `sql_non_parametric`: it holds a value, a marker of a template, a comment, a condition that is always true, or a second statement.
/// `sql_syntax_error`: it is not SQL. `datasource_access_denied`: it is of a kind, or calls a function, that no tenant may use.
pub fn check(sql: &str, dialect: Dialect) -> Result<Class, SurfaceError> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(syntax(format!(
            "the statement has {} bytes; at most {MAX_SQL_BYTES} are read",
            sql.len()
        )));
    }
    if let Some(marker) = ["${", "{{", "#{", "<%"].into_iter().find(|marker| sql.contains(marker)) {
        let message = format!(
            "the statement holds the template marker `{marker}`; put a placeholder there and the value in `params`"
        );
        return Err(non_parametric(message));
    }
    if dialect == Dialect::Postgres && sql.to_ascii_lowercase().contains("u&\"") {
        // The parser takes it for an operator and a name, and the database for a name that may spell anything.
        return Err(denied("names are written without escapes; `U&\"…\"` is not read here"));
    }
    let tokens = match dialect {
        Dialect::Sqlite => tokens::read(sql, &SQLiteDialect {})?,
        Dialect::Postgres => tokens::read(sql, &PostgreSqlDialect {})?,
    };
    tokens::check_names(&tokens, dialect == Dialect::Postgres)?;
    let literals = tokens::literals(&tokens);
    let statement = match dialect {
        Dialect::Sqlite => Parser::new(&SQLiteDialect {})
            .with_recursion_limit(MAX_NESTING)
            .with_tokens(tokens)
            .parse_statements(),
        Dialect::Postgres => Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(MAX_NESTING)
            .with_tokens(tokens)
            .parse_statements(),
    };
    let statement = one(statement)?;
    let class = class::of(&statement, dialect)?;
    literals::check(&statement, class, literals, dialect)?;
    Ok(class)
}

/// The only statement.
fn one(parsed: Result<Vec<Statement>, ParserError>) -> Result<Statement, SurfaceError> {
    let mut statements = match parsed {
        Ok(statements) => statements,
        Err(ParserError::RecursionLimitExceeded) => {
            return Err(syntax(format!("the statement nests more than {MAX_NESTING} deep")));
        }
        Err(ParserError::ParserError(why) | ParserError::TokenizerError(why)) => {
            return Err(syntax(format!("the statement cannot be read: {}", short(&why))));
        }
    };
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(syntax("the statement is empty")),
        (Some(_), false) => Err(stacked()),
    }
}

fn stacked() -> SurfaceError {
    non_parametric("there are several statements in one text; give each to a call, or to `transaction`")
}

fn syntax(message: impl Into<String>) -> SurfaceError {
    SurfaceError::new(Code::SqlSyntaxError, message)
}

fn non_parametric(message: impl Into<String>) -> SurfaceError {
    SurfaceError::new(Code::SqlNonParametric, message)
}

fn denied(message: impl Into<String>) -> SurfaceError {
    SurfaceError::new(Code::DatasourceAccessDenied, message)
}

/// The beginning of a text that may be long.
fn short(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
