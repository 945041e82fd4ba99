//! Checks on the tokens of a statement, before it is parsed.

use std::collections::BTreeMap;

use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};

use super::{MAX_OPEN, MAX_WORDS, RESERVED_PREFIX, denied, non_parametric, short, stacked, syntax};
use crate::error::SurfaceError;

/// The first words of allowed statements.
const BEGINNINGS: [&str; 11] = [
    "SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE", "CREATE", "ALTER",
    "DROP",
];

/// The first words of forbidden statements. Any other first word is a syntax error.
const FORBIDDEN: [&str; 54] = [
    "ABORT",
    "ANALYZE",
    "ATTACH",
    "BEGIN",
    "CALL",
    "CHECKPOINT",
    "CLOSE",
    "CLUSTER",
    "COMMENT",
    "COMMIT",
    "COPY",
    "DEALLOCATE",
    "DECLARE",
    "DETACH",
    "DISCARD",
    "DO",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "EXPORT",
    "FETCH",
    "FLUSH",
    "GRANT",
    "IMPORT",
    "INSTALL",
    "KILL",
    "LISTEN",
    "LOAD",
    "LOCK",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "PRAGMA",
    "PREPARE",
    "REASSIGN",
    "REFRESH",
    "REINDEX",
    "RELEASE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SECURITY",
    "SET",
    "SHOW",
    "START",
    "TABLE",
    "UNLISTEN",
    "UNLOAD",
    "UNLOCK",
    "USE",
    "VACUUM",
    "DENY",
    "MSCK",
];

/// The tokens of one statement, without white space.
pub(super) fn read(sql: &str, dialect: &dyn Dialect) -> Result<Vec<Token>, SurfaceError> {
    if let Some(odd) = sql.chars().find(|&letter| is_odd(letter)) {
        return Err(syntax(format!(
            "the statement contains the character U+{:04X}, which databases interpret differently",
            u32::from(odd)
        )));
    }
    let read = Tokenizer::new(dialect, sql).tokenize();
    let tokens =
        read.map_err(|why| syntax(format!("cannot parse the statement: {}", short(&why.to_string()))))?;
    if tokens.iter().any(is_comment) {
        return Err(non_parametric("comments are not allowed in statements; remove the comment"));
    }
    let mut tokens: Vec<Token> =
        tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    while tokens.last() == Some(&Token::SemiColon) {
        tokens.pop();
    }
    if tokens.contains(&Token::SemiColon) {
        return Err(stacked());
    }
    beginning(&tokens)?;
    bounded(&tokens)?;
    Ok(tokens)
}

/// Rejects names of the host and the server in every position. A parsed statement has names that a relation visitor
/// does not see, such as the new name in a rename, and parser and server may disagree on what is a name: `FROM ONLY
/// pg_authid` is a table `only` for the parser and a catalog for the server.
///
/// SQLite accepts a single-quoted string as a name. Strings are allowed only in definitions, so they count as names
/// there, except directly after `DEFAULT`, where SQLite expects a value.
pub(super) fn check_names(tokens: &[Token], is_postgres: bool) -> Result<(), SurfaceError> {
    let defines = ["CREATE", "ALTER", "DROP"].iter().any(|word| is_keyword(tokens.first(), word));
    for (place, token) in tokens.iter().enumerate() {
        let name = match token {
            Token::Word(Word { value, .. }) => value.to_ascii_lowercase(),
            Token::SingleQuotedString(text) if defines && !is_postgres => {
                let before = place.checked_sub(1).and_then(|before| tokens.get(before));
                if is_keyword(before, "DEFAULT") {
                    continue;
                }
                text.to_ascii_lowercase()
            }
            _ => continue,
        };
        let of_server = is_postgres
            && (name.starts_with("pg_") && !OPEN_NAMES.contains(&name.as_str())
                || name == "information_schema");
        if of_server || name.starts_with(RESERVED_PREFIX) {
            return Err(denied(format!("`{}` is reserved for the database", short(&name))));
        }
    }
    Ok(())
}

/// Whether the token is that unquoted keyword.
fn is_keyword(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(Word { value, quote_style: None, .. })) if value.eq_ignore_ascii_case(word))
}

/// Server names that only denote a type or its schema.
const OPEN_NAMES: [&str; 2] = ["pg_typeof", "pg_catalog"];

/// White space that some parsers skip and others treat as a letter, and invisible characters.
fn is_odd(letter: char) -> bool {
    (letter.is_whitespace() || letter.is_control()) && !matches!(letter, ' ' | '\t' | '\n' | '\r')
        || letter == '\u{feff}'
}

fn is_comment(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)))
}

/// Rejects statements by their first word.
fn beginning(tokens: &[Token]) -> Result<(), SurfaceError> {
    let word = match tokens.iter().find(|token| **token != Token::LParen) {
        None => return Err(syntax("the statement is empty")),
        Some(Token::Word(Word { value, quote_style: None, .. })) => value.to_ascii_uppercase(),
        Some(other) => {
            return Err(syntax(format!("a statement cannot start with `{}`", short(&other.to_string()))));
        }
    };
    if BEGINNINGS.contains(&word.as_str()) {
        return Ok(());
    }
    if FORBIDDEN.contains(&word.as_str()) {
        return Err(denied(format!("`{word}` is not allowed; workflows can read, change and define tables")));
    }
    Err(syntax(format!("a statement cannot start with `{}`", short(&word))))
}

/// Rejects statements that would need too much stack or time in the parser and the visitors.
fn bounded(tokens: &[Token]) -> Result<(), SurfaceError> {
    let (mut open, mut words) = (0_usize, 0_usize);
    for token in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => open += 1,
            Token::RParen | Token::RBracket | Token::RBrace => open = open.saturating_sub(1),
            Token::Comma | Token::Placeholder(_) | Token::Period => {}
            _ => words += 1,
        }
        if open > MAX_OPEN {
            return Err(syntax(format!("more than {MAX_OPEN} parentheses are nested")));
        }
    }
    if words > MAX_WORDS {
        return Err(syntax(format!(
            "the statement has {words} words and operators; the limit is {MAX_WORDS}"
        )));
    }
    Ok(())
}

/// How often each literal occurs among the tokens.
pub(super) fn literals<'a>(tokens: impl IntoIterator<Item = &'a Token>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for token in tokens {
        if let Some(text) = literal(token) {
            *counts.entry(text).or_default() += 1;
        }
    }
    counts
}

fn literal(token: &Token) -> Option<String> {
    match token {
        Token::Number(digits, _) => Some(digits.clone()),
        Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::TripleSingleQuotedString(_)
        | Token::TripleDoubleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::SingleQuotedByteStringLiteral(_)
        | Token::DoubleQuotedByteStringLiteral(_)
        | Token::TripleSingleQuotedByteStringLiteral(_)
        | Token::TripleDoubleQuotedByteStringLiteral(_)
        | Token::SingleQuotedRawStringLiteral(_)
        | Token::DoubleQuotedRawStringLiteral(_)
        | Token::TripleSingleQuotedRawStringLiteral(_)
        | Token::TripleDoubleQuotedRawStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::QuoteDelimitedStringLiteral(_)
        | Token::NationalQuoteDelimitedStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Char(_) => Some(token.to_string()),
        _ => None,
    }
}
