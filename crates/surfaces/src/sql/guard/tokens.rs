//! What can be seen on the tokens of a statement, before it is parsed.

use std::collections::BTreeMap;

use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};

use super::{MAX_OPEN, MAX_WORDS, RESERVED_PREFIX, denied, non_parametric, short, stacked, syntax};
use crate::error::SurfaceError;

/// The words with which a statement that may run begins.
const BEGINNINGS: [&str; 11] = [
    "SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "TRUNCATE", "CREATE", "ALTER",
    "DROP",
];

/// The words with which a statement begins that no tenant may run. A statement that begins with any other word is no SQL that is known here.
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
            "the statement holds the character U+{:04X}, which databases read differently",
            u32::from(odd)
        )));
    }
    let read = Tokenizer::new(dialect, sql).tokenize();
    let tokens =
        read.map_err(|why| syntax(format!("the statement cannot be read: {}", short(&why.to_string()))))?;
    if tokens.iter().any(is_comment) {
        return Err(non_parametric(
            "the statement holds a comment, which may hide a part of it; leave comments out",
        ));
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

/// Refuses names that belong to the host or to the server, wherever they stand. A parsed statement has names in more places than a walk
/// over its relations sees, such as what a table is renamed to; and parser and server may differ on what is a name: `FROM ONLY pg_authid`
/// is a table `only` to the one, and a catalogue to the other.
///
/// SQLite takes a text in single quotes for a name where it expects one. A definition is the only statement in which texts may stand at all,
/// so they are names there, unless they are directly behind the word `DEFAULT`, where SQLite expects a value.
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
            return Err(denied(format!("`{}` belongs to the database, not to workflows", short(&name))));
        }
    }
    Ok(())
}

/// Whether it is that word of the language, and no name in quotes.
fn is_keyword(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(Word { value, quote_style: None, .. })) if value.eq_ignore_ascii_case(word))
}

/// Names of the server that say nothing but a type, or where one is.
const OPEN_NAMES: [&str; 2] = ["pg_typeof", "pg_catalog"];

/// White space that one reader skips and another takes for a letter, and whatever is not to be seen.
fn is_odd(letter: char) -> bool {
    (letter.is_whitespace() || letter.is_control()) && !matches!(letter, ' ' | '\t' | '\n' | '\r')
        || letter == '\u{feff}'
}

fn is_comment(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)))
}

/// Refuses statements of which the first word says enough.
fn beginning(tokens: &[Token]) -> Result<(), SurfaceError> {
    let word = match tokens.iter().find(|token| **token != Token::LParen) {
        None => return Err(syntax("the statement is empty")),
        Some(Token::Word(Word { value, quote_style: None, .. })) => value.to_ascii_uppercase(),
        Some(other) => {
            return Err(syntax(format!("no statement begins with `{}`", short(&other.to_string()))));
        }
    };
    if BEGINNINGS.contains(&word.as_str()) {
        return Ok(());
    }
    if FORBIDDEN.contains(&word.as_str()) {
        return Err(denied(format!("`{word}` is not for workflows; they read, change and define tables")));
    }
    Err(syntax(format!("no statement begins with `{}`", short(&word))))
}

/// Refuses what would need too deep a stack or too long a search in the parser, and in whatever walks the tree.
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
            return Err(syntax(format!("more than {MAX_OPEN} parentheses are open at once")));
        }
    }
    if words > MAX_WORDS {
        return Err(syntax(format!(
            "the statement has {words} words and operators; at most {MAX_WORDS} are read"
        )));
    }
    Ok(())
}

/// How often each literal stands among the tokens.
pub(super) fn literals<'a>(tokens: impl IntoIterator<Item = &'a Token>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for token in tokens {
        if let Some(text) = literal(token) {
            *counts.entry(text).or_default() += 1;
        }
    }
    counts
}

/// The text of a literal.
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
