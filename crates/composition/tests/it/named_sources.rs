//! The files and tests that the documentation names exist. A rename must not leave readers with a name that they cannot find.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::collections::HashSet;
use std::path::PathBuf;

use crate::documentation::{pages, repository};

/// The names of tests have at least this many words. Shorter names are often fields or codes.
const MIN_WORDS: usize = 5;

/// The code spans of a page, with the numbers of their lines.
fn spans(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = page.lines().enumerate();
    lines.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |span| (number + 1, span)))
}

fn is_path(span: &str) -> bool {
    span.starts_with("crates/")
        && span.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'/' | b'.'))
}

fn is_test_name(span: &str) -> bool {
    span.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        && span.split('_').count() >= MIN_WORDS
}

/// All identifiers of the Rust sources.
fn identifiers() -> HashSet<String> {
    let mut files: Vec<PathBuf> = Vec::new();
    crate::words::files(&repository().join("crates"), &["rs"], &mut files);
    let mut all = HashSet::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        all.extend(words.filter(|word| word.contains('_')).map(str::to_owned));
    }
    all
}

#[test]
fn files_and_tests_that_the_documentation_names_exist() {
    let (identifiers, mut missing) = (identifiers(), Vec::new());
    // Transcripts quote the paths of an imaginary project.
    let pages = pages().into_iter().filter(|(path, _)| !path.to_string_lossy().contains("/transcripts/"));
    for (path, text) in pages {
        for (line, span) in spans(&text) {
            let name = span.rsplit("::").next().unwrap_or(span);
            let is_missing = (is_path(span) && !repository().join(span).exists())
                || (is_test_name(name) && !identifiers.contains(name));
            if is_missing {
                missing.push(format!("{}:{line}: `{span}`", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

#[test]
fn paths_and_test_names_are_recognized() {
    assert_eq!(spans("a `b` c\n`d` `e`").collect::<Vec<_>>(), [(1, "b"), (2, "d"), (2, "e")]);
    for (span, path, test) in [
        ("crates/flow/src/engine.rs", true, false),
        ("crates/*/tests", false, false),
        ("a_run_is_paused_once", false, true),
        ("run_id", false, false),
        ("interlock.pauseRequested", false, false),
    ] {
        assert_eq!((is_path(span), is_test_name(span)), (path, test), "{span}");
    }
}
