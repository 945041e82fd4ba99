//! Decides which SQL may reach a database: one statement, of an allowed kind, with all values bound.
//!
//! The decision is made on the parsed statement. The tokens are also checked in the opposite direction: a literal is
//! allowed only if the parsed statement has a known reason for it, so an unknown construct cannot hide a literal.
//!
//! | A literal is allowed | because |
//! |---|---|
//! | after `LIMIT`, `OFFSET`, `FETCH FIRST` | it only counts result rows |
//! | alone in `ORDER BY` and `GROUP BY` | it is a column number, which cannot be bound |
//! | in the type of a cast, such as `numeric(10, 2)` | types cannot be bound |
//! | in `CREATE TABLE`, `CREATE INDEX`, `ALTER TABLE`, `CREATE SEQUENCE` | definitions cannot be bound |
//!
//! Everywhere else a number or string is rejected, also in the queries of `CREATE TABLE … AS` and of views. `NULL`,
//! `TRUE` and `FALSE` are keywords, but `OR TRUE` is rejected because it disables a condition.

mod class;
mod literals;
mod tokens;

use sqlparser::ast::Statement;
use sqlparser::dialect::{PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};

pub(super) use self::class::is_refused_in_sqlite;
use crate::error::{Code, SurfaceError};

/// The maximum length of a statement, in bytes.
pub const MAX_SQL_BYTES: usize = 64 * 1024;
/// The maximum number of parameters.
pub const MAX_PARAMETERS: usize = 1_000;
/// The maximum nesting of parentheses and brackets.
pub const MAX_OPEN: usize = 24;
/// The maximum number of words and operators, without parameters and commas. Limits the depth of the syntax tree.
pub const MAX_WORDS: usize = 1_000;
/// The maximum nesting of expressions and queries.
const MAX_NESTING: usize = 40;
/// The prefix of the host's own tables.
pub const RESERVED_PREFIX: &str = "interlock_";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Read,
    /// Adds rows and nothing else at the top level.
    Insert,
    /// Changes rows.
    Write,
    /// Changes tables.
    Define,
}

/// Classifies a statement if it is allowed.
///
/// # Errors
/// `sql_non_parametric`: it contains a value, a template marker, a comment, a condition that is always true, or a
/// second statement. `sql_syntax_error`: it is not SQL. `datasource_access_denied`: its kind or a function is not
/// allowed.
pub fn check(sql: &str, dialect: Dialect) -> Result<Class, SurfaceError> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(syntax(format!("the statement is {} bytes; the limit is {MAX_SQL_BYTES}", sql.len())));
    }
    if let Some(marker) = ["${", "{{", "#{", "<%"].into_iter().find(|marker| sql.contains(marker)) {
        let message = format!(
            "the statement contains the template marker `{marker}`; use a placeholder and put the value \
                in `params`"
        );
        return Err(non_parametric(message));
    }
    if dialect == Dialect::Postgres && sql.to_ascii_lowercase().contains("u&\"") {
        // The parser reads an operator and a name; the database reads an escaped name that may spell anything.
        return Err(denied("escaped names such as `U&\"…\"` are not supported"));
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
            return Err(syntax(format!("the statement nests deeper than {MAX_NESTING} levels")));
        }
        Err(ParserError::ParserError(why) | ParserError::TokenizerError(why)) => {
            return Err(syntax(format!("cannot parse the statement: {}", short(&why))));
        }
    };
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(syntax("the statement is empty")),
        (Some(_), false) => Err(stacked()),
    }
}

fn stacked() -> SurfaceError {
    non_parametric("only one statement per call is allowed; use `transaction` for several")
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

/// The beginning of a long text.
fn short(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
