//! Any text, given to the guard of SQL statements, in both of its grammars.
//!
//! The first byte chooses: either the rest is text, or it picks and joins pieces of plausible statements, which get much further than
//! arbitrary text does.
//!
//! * Judging never panics and never hangs, and the same text gets the same judgement.
//! * Every rejection has a reason.
//! * A statement that may read or change rows contains no string literal.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use surfaces::sql::{Class, Dialect, guard};

const PIECES: &[&str] = &[
    "SELECT", "FROM", "WHERE", "OR", "AND", "=", "<>", "(", ")", ",", "*", "t", "a", "\"a\"", "?", "$1", "NULL", "TRUE", "LIMIT", "OFFSET",
    "ORDER BY", "GROUP BY", "HAVING", "UNION ALL", "INSERT INTO", "VALUES", "UPDATE", "SET", "DELETE FROM", "::", "CAST(", "AS", "numeric(5, 2)",
    "CASE", "WHEN", "THEN", "END", "IN", "LIKE", "ESCAPE", "BETWEEN", "NOT", "IS", "EXISTS", "WITH RECURSIVE", "RETURNING", "ON CONFLICT DO NOTHING",
    "CREATE TABLE", "CREATE VIEW", "DEFAULT", "PRIMARY KEY", "--", "/*", "*/", "'", "\"", ";", "[", "]", "->>", "||", "INTERVAL", "DATE", "E", "$$",
    "X'1F'", "'text'", "1", "0x1", "1e9", "interlock_effects", "pg_sleep(", "load_extension(", "ARRAY[", "OVER (", "ROWS", "JOIN", "USING",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let text = if choice % 2 == 0 {
        String::from_utf8_lossy(rest).into_owned()
    } else {
        joined(&mut Unstructured::new(rest)).expect("an empty source still gives choices")
    };
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let judged = guard::check(&text, dialect);
        assert_eq!(judged, guard::check(&text, dialect));
        match judged {
            Ok(Class::Read | Class::Insert | Class::Write) => {
                // Only a name in double quotes may hold such a quote.
                assert!(text.contains('"') || text.contains('`') || text.contains('[') || !text.contains('\''), "{text}");
            }
            Ok(Class::Define) => {}
            Err(refusal) => assert!(!refusal.message.is_empty()),
        }
    }
});

fn joined(source: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    while !source.is_empty() && text.len() < 4096 {
        text.push_str(source.choose(PIECES)?);
        text.push(' ');
    }
    Ok(text)
}
