//! The closed set of codes: each has a page, a suggestion, a place that produces it, and a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use workspace::{Code, Error};

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of every Rust file below a folder, except those in `skip`.
fn texts(folder: &Path, skip: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        if skip.iter().any(|skipped| path.ends_with(skipped)) {
            continue;
        }
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(fs::read_to_string(path).unwrap());
        }
    }
    all
}

/// Whether a text contains the name as a whole word.
fn names(text: &str, code: Code) -> bool {
    let member = format!("{code:?}");
    let is_letter_or_digit = |next: Option<char>| next.is_some_and(|next| next.is_ascii_alphanumeric());
    text.match_indices(&member).any(|(at, found)| {
        !is_letter_or_digit(text[..at].chars().next_back())
            && !is_letter_or_digit(text[at + found.len()..].chars().next())
    })
}

#[test]
fn every_code_has_a_page_with_a_fix() {
    for code in Code::ALL {
        let page = crate_folder().join(format!("../../docs/errors/{code}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.starts_with(&format!("# {code}\n\n")), "{code}: the page is titled after it");
        assert!(text.contains("**What to do.**"), "{code}: the page says what to do");
    }
}

#[test]
fn every_code_has_a_distinct_suggestion() {
    let mut seen = BTreeSet::new();
    for code in Code::ALL {
        let advice = code.suggestion();
        assert!(advice.ends_with('.') && advice.len() > 20, "{code}: {advice}");
        assert!(seen.insert(advice), "{code}: {advice}");
        assert_eq!(Error::new(*code, "x").envelope().suggestion(), advice);
    }
}

#[test]
fn every_code_is_produced_and_tested() {
    // The last one lists all codes and produces none.
    let lists = ["src/error.rs", "src/error", "lifecycle/launch_failure.rs"];
    let source = texts(&crate_folder().join("src"), &lists);
    let mut tests = texts(&crate_folder().join("tests"), &["codes.rs"]);
    tests.extend(texts(&crate_folder().join("../interlock/tests"), &[]));
    // Unit tests are at the end of source files.
    tests.extend(source.iter().filter_map(|text| Some(text.split_once("#[cfg(test)]")?.1.to_owned())));
    for code in Code::ALL {
        assert!(source.iter().any(|text| names(text, *code)), "{code} is produced nowhere");
        let seen = tests.iter().any(|text| names(text, *code) || text.contains(code.as_str()));
        assert!(seen, "{code} is seen by no test");
    }
}

#[test]
fn an_envelope_lists_as_many_problems_as_fit() {
    let many =
        (0..50).map(|number| Error::new(Code::PlanUnsafePath, format!("{number} {}", "long ".repeat(200))));
    let error = Error::first_of(many).unwrap();
    assert_eq!(error.causes().len(), 49);
    let envelope = error.envelope();
    assert_eq!(envelope.details()["causes"].as_array().unwrap().len(), 20);
    assert_eq!(envelope.details()["moreCauses"], 29);
}
