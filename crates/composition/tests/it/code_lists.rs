//! Every code of every list in the workspace is documented: it has a page, or a row of a table.
//!
//! The lists are found in the sources, so a new list or code cannot be forgotten.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::documentation::{pages, repository};

/// The macros that declare lists of codes.
const MACROS: [&str; 2] = ["error_codes! {", "codes! {"];

/// Lists that are not error codes, with the reason.
const EXEMPT: [(&str, &str); 1] = [("SampleCode", "codes of a test")];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The body of the macro call that starts at `text`, up to its closing brace.
fn body(text: &str) -> &str {
    let mut depth = 0_i32;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return &text[..at];
        }
    }
    text
}

/// The codes of each list: `Name => "CODE"` in a call of one of [`MACROS`], by file and name of the list.
fn lists() -> BTreeMap<String, BTreeSet<String>> {
    let mut lists = BTreeMap::new();
    let crates = repository().join("crates");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            rust_files(&source, &mut files);
        }
    }
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for start in text.match_indices("odes! {").map(|(start, found)| start + found.len()) {
            let line = text[..start].lines().next_back().unwrap_or_default().trim_start();
            let is_call = MACROS.iter().any(|name| line.trim_start_matches("canon::") == *name);
            if !is_call {
                continue;
            }
            let body = body(&text[start..]);
            let name = body.split("enum ").nth(1).and_then(|rest| rest.split_whitespace().next());
            let name = name.unwrap_or("Code");
            if EXEMPT.iter().any(|(exempt, _)| *exempt == name) {
                continue;
            }
            let codes: BTreeSet<String> = body
                .lines()
                .filter_map(|line| line.split_once("=> \"")?.1.split('"').next())
                .map(str::to_owned)
                .collect();
            let relative = path.strip_prefix(&crates).unwrap().display().to_string();
            lists.insert(format!("{name} ({relative})"), codes);
        }
    }
    lists
}

#[test]
fn every_code_of_every_list_is_documented() {
    let lists = lists();
    assert!(lists.len() >= 20, "the lists are found: {:?}", lists.keys());
    let pages = pages();
    let mut documented = BTreeSet::new();
    for (path, text) in &pages {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        if folder == "errors" || folder == "failures" {
            documented.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
        for row in text.lines().filter(|line| line.starts_with("| `")) {
            let first_cell = row.split('|').nth(1).unwrap_or_default();
            documented.extend(first_cell.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        // The problems of workflow files are sections of one page.
        let headings = text.lines().filter(|line| line.starts_with('#'));
        documented
            .extend(headings.map(|line| line.trim_start_matches('#').trim().trim_matches('`').to_owned()));
    }
    let mut missing = Vec::new();
    for (list, codes) in &lists {
        assert!(!codes.is_empty(), "{list} has codes");
        // Codes that differ only in case share the upper-case page.
        let absent = codes
            .iter()
            .filter(|code| !documented.contains(*code) && !documented.contains(&code.to_uppercase()));
        missing.extend(absent.map(|code| format!("{list}: {code}")));
    }
    assert!(missing.is_empty(), "without a page or a table row:\n{}", missing.join("\n"));
}
