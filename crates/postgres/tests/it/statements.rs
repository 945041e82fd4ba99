//! The SQL of this crate is portable: it uses nothing that compatible databases lack.

use std::path::{Path, PathBuf};

/// Words that no statement contains.
const FORBIDDEN: [&str; 24] = [
    "savepoint",
    "serial",
    "bigserial",
    "smallserial",
    "nextval",
    "currval",
    "setval",
    "identity",
    "generated",
    "trigger",
    "function",
    "procedure",
    "plpgsql",
    "temp",
    "temporary",
    "truncate",
    "copy",
    "ctid",
    "xmin",
    "xmax",
    "deferrable",
    "exclude",
    "references",
    "unlogged",
];

/// Words that no statement contains at the beginning of a word.
const FORBIDDEN_PREFIXES: [&str; 2] = ["pg_advisory", "pg_try_advisory"];

/// Words that no statement contains one after the other. `sequence` is also the name of a column.
const FORBIDDEN_PAIRS: [[&str; 2]; 2] = [["create", "sequence"], ["alter", "sequence"]];

/// The first word of a statement, or of a part of one.
const BEGINNINGS: [&str; 22] = [
    "select", "insert", "update", "delete", "with", "begin", "commit", "rollback", "create", "alter", "drop",
    "lock", "set", "moved", "and", "coalesce", "union", "from", "where", "order", "limit", "refused",
];

#[test]
fn no_statement_uses_what_compatible_databases_lack() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut statements = 0;
    for path in files(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        let parts = if path.extension().is_some_and(|extension| extension == "sql") {
            vec![text]
        } else {
            literals(&text)
        };
        for part in parts {
            let words = words(&part);
            if !words.first().is_some_and(|word| BEGINNINGS.contains(&word.as_str())) {
                continue;
            }
            statements += 1;
            if let Some(word) = refused(&words) {
                panic!("{} contains `{word}`: {part}", path.display());
            }
        }
    }
    assert!(statements > 100, "{statements}");
}

/// The test can fail.
#[test]
fn forbidden_constructs_are_found() {
    for statement in [
        "savepoint a",
        "select nextval('a')",
        "create sequence a",
        "create table a (id bigserial)",
        "select pg_advisory_xact_lock(1)",
        "create temporary table a (b int)",
        "create or replace function a() returns int",
        "create trigger a before insert on b",
        "select ctid from a",
    ] {
        assert!(refused(&words(statement)).is_some(), "{statement}");
    }
    assert_eq!(refused(&words("select next_sequence, sequence from audit -- no savepoint")), None);
    assert_eq!(
        literals("a(\"one \\\" two\"); // \"not\"\n'\"' r#\"three\"# \"four\""),
        ["one \" two", "three", "four"]
    );
}

fn refused(words: &[String]) -> Option<&str> {
    let word = words.iter().find(|word| {
        FORBIDDEN.contains(&word.as_str()) || FORBIDDEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
    });
    let pair = words.windows(2).find(|pair| FORBIDDEN_PAIRS.iter().any(|forbidden| pair == forbidden));
    word.map(String::as_str).or_else(|| pair.map(|pair| pair[1].as_str()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The words of SQL, without comments.
fn words(sql: &str) -> Vec<String> {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The string literals of Rust code.
fn literals(code: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if rest.starts_with("r#\"") {
            let (text, after) = rest[3..].split_once("\"#").unwrap();
            found.push(text.to_owned());
            rest = after;
        } else if rest.starts_with("'\"'") {
            rest = &rest[3..];
        } else if letter == '"' {
            let (mut text, mut letters) = (String::new(), rest[1..].char_indices());
            rest = loop {
                match letters.next() {
                    Some((_, '\\')) => text.extend(letters.next().map(|(_, escaped)| escaped)),
                    Some((place, '"')) => break &rest[place + 2..],
                    Some((_, letter)) => text.push(letter),
                    None => break "",
                }
            };
            found.push(text);
        } else {
            rest = &rest[letter.len_utf8()..];
        }
    }
    found
}
