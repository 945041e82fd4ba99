//! Every protocol rule in `docs/conformance` names existing tests.
//!
//! A page has tables with two columns, `rule | test`. A rule is a sentence; a test is a function
//! name in backquotes, and a rule may have several. New pages are found automatically.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder with this suffix.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The names of the tests in a source file: functions with a test attribute (also in `proptest!`),
/// tests generated from `name: …;` lines, and the laws that `hold!` applies to an adapter.
fn tests_in(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_test, mut in_table) = (false, false);
    for line in source.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.ends_with("! {") && !line.contains("macro_rules") {
            in_table = true;
        } else if line == "}" {
            in_table = false;
        }
        let name = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        if let Some(name) = name.and_then(|rest| rest.split('(').next()) {
            if is_test {
                found.insert(name.to_owned());
            }
            is_test = false;
        } else if in_table
            && line.ends_with(';')
            && let Some((name, _)) = line.split_once(": ")
        {
            found.insert(name.to_owned());
        }
    }
    for held in source.split("hold!(").skip(1) {
        let laws = held.split_once('[').and_then(|(_, laws)| laws.split_once(']'));
        let laws = laws.map(|(laws, _)| laws.split(',').map(str::trim)).into_iter().flatten();
        let is_name =
            |law: &&str| !law.is_empty() && law.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        found.extend(laws.filter(is_name).map(str::to_owned));
    }
    found
}

/// A table row: its location, its rule, and its tests.
struct Row {
    place: String,
    rule: String,
    tests: Vec<String>,
}

fn rows(page: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = inner.split(" | ").map(str::trim).collect();
        let is_head = cells.first().is_some_and(|cell| cell.eq_ignore_ascii_case("rule"))
            || inner.chars().all(|c| "|- ".contains(c));
        if is_head {
            continue;
        }
        let place = format!("{name}:{}", number + 1);
        let [rule, tests] = cells[..] else {
            panic!("{place}: a row must have a rule and its tests: {line}")
        };
        let tests = tests.split(", ").map(|test| {
            let test = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
            test.unwrap_or_else(|| {
                panic!("{place}: tests must be in backquotes, separated by commas: {tests}")
            })
            .to_owned()
        });
        rows.push(Row { place: place.clone(), rule: rule.to_owned(), tests: tests.collect() });
    }
    rows
}

#[test]
fn every_protocol_rule_has_an_existing_test() {
    let sources = files(&root().join("crates"), ".rs");
    let tests: BTreeSet<String> =
        sources.iter().flat_map(|path| tests_in(&std::fs::read_to_string(path).unwrap())).collect();
    assert!(tests.len() > 1000, "the tests are found: {}", tests.len());
    let pages = files(&root().join("docs/conformance"), ".md");
    assert!(!pages.is_empty());
    let (mut missing, mut known) = (Vec::new(), BTreeMap::new());
    for page in pages {
        let rows = rows(&page);
        assert!(!rows.is_empty(), "{}: the page has no rules", page.display());
        for Row { place, rule, tests: named } in rows {
            assert!(rule.len() > 10 && !named.is_empty(), "{place}: a rule must have tests");
            if let Some(before) = known.insert(rule.clone(), place.clone()) {
                panic!("{place}: the rule is already at {before}");
            }
            missing.extend(
                named.into_iter().filter(|test| !tests.contains(test)).map(|test| format!("{place}: {test}")),
            );
        }
    }
    assert!(missing.is_empty(), "tests not found:\n{}", missing.join("\n"));
}

/// The scenarios in a part of a page: names in backquotes.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The page has every scenario once, and a test that has the name of a scenario is mentioned there.
#[test]
fn every_scenario_is_listed_once_with_the_test_of_its_name() {
    let page = std::fs::read_to_string(root().join("docs/conformance/scenarios.md")).unwrap();
    let (introduction, lists) = page.split_once("\n## ").unwrap();
    let mut scenarios = BTreeSet::new();
    for line in lists.lines() {
        let names = line.strip_prefix("| ").and_then(|row| row.split_once(" | ")).map_or(line, |row| row.0);
        for scenario in named(names) {
            assert!(scenarios.insert(scenario.to_owned()), "`{scenario}` is listed twice");
        }
    }
    let count = format!("({} files", scenarios.len());
    assert!(introduction.contains(&count), "the introduction must say {count}");
    let is_listed = |scenario: &str| scenarios.contains(scenario);
    for path in files(&root().join("crates"), ".rs") {
        for test in tests_in(&std::fs::read_to_string(&path).unwrap()) {
            if test.starts_with("v2_") && is_listed(&test.replace('_', "-")) {
                assert!(page.contains(&test), "{}: `{test}` is not in the page", path.display());
            }
        }
    }
}

#[test]
fn test_names_are_found_in_all_forms() {
    let source = "#[test]\nfn plain() {}\n    #[tokio::test(flavor = \"multi_thread\")]\n    async fn waits() {}\nfn helper() {}\n\
        proptest! {\n    #[test]\n    fn any_bytes(bytes in any()) {}\n}\nsurvives! {\n    at_every_commit: play, 1..=1, 0;\n}\n\
        crate::contract::hold!(\n    kv,\n    $open,\n    [a_law, another_law,]\n);\n";
    let found: Vec<String> = tests_in(source).into_iter().collect();
    assert_eq!(found, ["a_law", "another_law", "any_bytes", "at_every_commit", "plain", "waits"]);
}
