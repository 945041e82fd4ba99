//! The documentation matches the kernel.
//!
//! `docs/errors/README.md` is written by [`the_index_of_error_codes_is_fresh`] when `UPDATE_DOCS=1` is set.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use canon::json::{self, Limits, ReadErrorCode};
use composition::diagnostic::{Category, Code, PolicyReason, ReferenceReason, StructureReason};
use composition::grammar::{ClaimFault, PathFault};
use serde_json::{Value, json};

use crate::wire::{canonical, composed, without_messages};

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|cause| panic!("{path}: {cause}"))
}

fn error_page(code: &str) -> String {
    page(&format!("docs/errors/{code}.md"))
}

/// All codes known to this crate.
fn all_codes() -> BTreeSet<String> {
    let read = ReadErrorCode::ALL.iter().map(ToString::to_string);
    read.chain(Code::ALL.iter().map(ToString::to_string)).collect()
}

/// The codes that have a page, by the names of the files.
fn documented_codes() -> BTreeSet<String> {
    std::fs::read_dir(repository().join("docs/errors"))
        .expect("the pages can be listed")
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|path| path.file_stem().expect("a page has a name").to_string_lossy().into_owned())
        .filter(|name| name != "README")
        .collect()
}

/// The contents of the blocks of a page that are fenced as JSON.
fn json_blocks(page: &str) -> Vec<&str> {
    let openings = page.match_indices("```json\n");
    openings
        .map(|(start, opening)| {
            let content = &page[start + opening.len()..];
            &content[..content.find("```").expect("a block is closed")]
        })
        .collect()
}

fn read(block: &str) -> Value {
    json::read(block.as_bytes(), &Limits::default()).unwrap_or_else(|refusal| panic!("{refusal}:\n{block}"))
}

fn without_message(mut diagnostic: Value) -> String {
    diagnostic.as_object_mut().expect("a diagnostic is an object").remove("message");
    canonical(&diagnostic)
}

/// The first sentence of a page, behind its title.
fn meaning(page: &str) -> String {
    let (_, text) = page.split_once("\n\n").expect("a page has a title");
    let paragraph = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    match paragraph.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => paragraph,
    }
}

/// The index of all codes.
fn index() -> String {
    let mut out = String::from(concat!(
        "<!-- Generated: run `UPDATE_DOCS=1 cargo test -p composition the_index_of_error_codes_is_fresh`. -->\n\n",
        "# Error codes\n\n",
        "Every code has a page: what happened, why, and what to do next. Codes are stable. A code is never renamed, and never\n",
        "reused for an unrelated error.\n\n",
        "- Lower-case codes are in the `error` field of an HTTP response: `{\"error\", \"message\", \"details\"?}`. `message` is for\n",
        "  people and can change; programs should compare `error` and read `details`. The command line uses the codes of packs too.\n",
        "- Upper-case codes are in the `code` field of the [error envelope](../formats/error-envelope.md), which MCP tools and the\n",
        "  command line use. `FORBIDDEN`, `INTERNAL_ERROR`, `NOT_FOUND` and `VALIDATION_ERROR` have one page for both spellings.\n",
        "- Codes that begin with `WCP_` are diagnostics of the [composition kernel](../concepts/composition.md). The `docsAnchor` of\n",
        "  a diagnostic is an anchor of this page.\n\n",
        "The error codes of failed runs are in [failures](../failures/README.md), and the problems of guided workflow files in\n",
        "[workflow problems](../workflow-problems.md).\n",
    ));
    // Codes of higher crates are listed by their pages; a test of each crate requires them.
    let (http, others): (Vec<String>, Vec<String>) = documented_codes()
        .difference(&all_codes())
        .cloned()
        .partition(|code| code.starts_with(|first: char| first.is_ascii_lowercase()));
    let read = ReadErrorCode::ALL.iter().map(ToString::to_string).collect();
    for (title, codes) in [
        ("HTTP API and packs", http),
        ("MCP tools, sessions, tokens, workspaces, the store and the command line", others),
        ("Invalid JSON", read),
    ] {
        writeln!(out, "\n## {title}\n").unwrap();
        for code in codes {
            let anchor = code.to_lowercase().replace('_', "-");
            let meaning = meaning(&error_page(&code));
            writeln!(out, "- <a id=\"{anchor}\"></a>[`{code}`]({code}.md): {meaning}").unwrap();
        }
    }
    for category in Category::ALL {
        writeln!(out, "\n## Category `{category}`\n").unwrap();
        for code in Code::ALL.iter().filter(|code| code.category() == *category) {
            let anchor = code.docs_anchor().trim_start_matches('#');
            let meaning = meaning(&error_page(code.as_str()));
            let advice = code.advice();
            writeln!(out, "- <a id=\"{anchor}\"></a>[`{code}`]({code}.md): {meaning} Help: {advice}.")
                .unwrap();
        }
    }
    out
}

#[test]
fn the_index_of_error_codes_is_fresh() {
    let expected = index();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(repository().join("docs/errors/README.md"), &expected)
            .expect("the index can be written");
    }
    assert_eq!(page("docs/errors/README.md"), expected, "run again with UPDATE_DOCS=1");
}

#[test]
fn codes_and_pages_match() {
    let (codes, pages) = (all_codes(), documented_codes());
    assert_eq!(codes.difference(&pages).next(), None, "has no page");
    let ours = |page: &&String| ["JSON_", "WCP_"].iter().any(|prefix| page.starts_with(prefix));
    assert_eq!(pages.difference(&codes).find(ours), None, "is the page of no code");
    let names: BTreeSet<String> = pages.iter().map(|code| code.to_lowercase()).collect();
    assert_eq!(names.len(), pages.len(), "two names are one file where case does not count");
    for code in pages {
        assert!(error_page(&code).starts_with(&format!("# {code}\n\n")), "{code}");
    }
}

#[test]
fn page_examples_produce_their_diagnostic() {
    for code in Code::ALL {
        let page = error_page(code.as_str());
        let [input, shown] = json_blocks(&page)[..] else {
            panic!("{code}: a page has an input and a diagnostic")
        };
        let shown = read(shown);
        assert_eq!(shown["code"], code.as_str());
        let result = composed(&read(input));
        let found: Vec<String> =
            result["diagnostics"].as_array().unwrap().iter().cloned().map(without_message).collect();
        assert_eq!(found, [without_message(shown)], "{code}");
    }
}

#[test]
fn every_page_lists_all_of_its_reasons() {
    fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
        all.iter().map(|reason| name(*reason)).collect()
    }
    let cases = [
        (Code::StructureInvalid, names(StructureReason::ALL, StructureReason::as_str)),
        (Code::RouteInvalidPath, names(PathFault::ALL, PathFault::as_str)),
        (Code::RendererInvalidClaim, names(ClaimFault::ALL, ClaimFault::as_str)),
        (Code::ReferenceUnresolved, names(ReferenceReason::ALL, ReferenceReason::as_str)),
        (Code::PolicyInvalid, names(PolicyReason::ALL, PolicyReason::as_str)),
    ];
    for (code, reasons) in cases {
        let page = error_page(code.as_str());
        let (_, table) = page.split_once("## Reasons\n").expect("there is a table of reasons");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: Vec<&str> = rows.take_while(|row| reasons.contains(row)).collect();
        assert_eq!(listed, reasons, "{code}");
    }
}

/// The blocks of the page about composition: first the worked example and its result, then operations.
fn worked_example() -> (Value, Value, Vec<Value>) {
    let page = page("docs/concepts/composition.md");
    let blocks: Vec<Value> = json_blocks(&page).into_iter().map(read).collect();
    let find = |member: &str| {
        blocks.iter().find(|block| block.get(member).is_some()).expect("the page has its example").clone()
    };
    let operations = blocks.iter().filter(|block| block.get("kind").is_some() && block.get("id").is_some());
    (find("builtins"), find("ok"), operations.cloned().collect())
}

#[test]
fn the_worked_example_composes_to_the_result_it_shows() {
    let (input, result, _) = worked_example();
    assert_eq!(canonical(&without_messages(composed(&input))), canonical(&without_messages(result)));
}

#[test]
fn documented_operations_apply_to_the_example() {
    let (input, _, operations) = worked_example();
    let mut kinds = BTreeSet::new();
    for operation in operations {
        kinds.insert((operation["kind"].to_string(), operation.get("anchor").is_some()));
        let mut input = input.clone();
        input["policy"] = json!({"policySchemaVersion": "0.1", "operations": [operation]});
        let result = composed(&input);
        assert_eq!(result["ok"], true, "{operation}: {}", result["diagnostics"]);
        assert_eq!(result["policyEffects"].as_array().unwrap().len(), 1, "{operation}");
    }
    assert_eq!(kinds.len(), 6, "all six: {kinds:?}");
}

/// The pages that people read, with their paths.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![repository().join("docs")];
    let mut files: Vec<PathBuf> = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"]
        .map(|name| repository().join(name))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the documentation can be listed") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_json_block_of_the_documentation_is_json() {
    for (path, text) in pages() {
        // The pages about refusals of the reader show what is refused.
        let refused = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("JSON_"));
        if !refused {
            json_blocks(&text).into_iter().for_each(|block| drop(read(block)));
        }
    }
}
