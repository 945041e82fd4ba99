//! The messages that the error pages quote are those of the program.

use std::fs;
use std::path::{Path, PathBuf};

/// How much of a quoted message must occur in the source, in percent of its words. The rest are values that the
/// program inserts.
const MIN_COVERAGE: usize = 30;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|ending| ending == extension) {
            found.push(path);
        }
    }
}

/// The source of all crates, with string literals that continue on the next line joined.
fn source() -> String {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        files(&entry.unwrap().path().join("src"), "rs", &mut paths);
    }
    let mut source = String::new();
    for path in paths {
        let text = fs::read_to_string(path).unwrap().replace("\\\"", "\"");
        let mut pieces = text.split("\\\n");
        source.push_str(pieces.next().unwrap_or_default());
        pieces.for_each(|piece| source.push_str(piece.trim_start()));
    }
    source
}

/// The values of `"message"` in the examples of a page.
fn quoted_messages(page: &str) -> Vec<String> {
    let starts = page.match_indices("\"message\":").map(|(at, key)| page[at + key.len()..].trim_start());
    let read = |rest: &str| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
        values.next()?.ok()?.as_str().map(str::to_owned)
    };
    starts.filter_map(read).collect()
}

/// The number of words of a message, and how many of them occur in the source beside each other.
fn coverage(message: &str, source: &str) -> (usize, usize) {
    let (mut all, mut covered) = (0, 0);
    for fragment in message.split(|c: char| !c.is_ascii_alphabetic() && c != ' ' && c != ',') {
        let words: Vec<_> = fragment.split_whitespace().collect();
        // Shorter ones are mostly names.
        if words.len() < 3 {
            continue;
        }
        all += words.len();
        let mut first = 0;
        while first < words.len() {
            let longest =
                (first + 2..=words.len()).rev().find(|end| source.contains(&words[first..*end].join(" ")));
            covered += longest.map_or(0, |end| end - first);
            first = longest.unwrap_or(first + 1);
        }
    }
    (all, covered)
}

#[test]
fn quoted_messages_occur_in_the_source() {
    let source = source();
    let (all, covered) = coverage("the purple walrus juggles seven lanterns quietly", &source);
    assert!(covered * 100 < all * MIN_COVERAGE, "the test cannot fail");
    let mut pages = Vec::new();
    files(&root().join("docs/errors"), "md", &mut pages);
    let mut outdated = Vec::new();
    let mut seen = 0;
    for page in pages {
        for message in quoted_messages(&fs::read_to_string(&page).unwrap()) {
            seen += 1;
            let (all, covered) = coverage(&message, &source);
            if covered * 100 < all * MIN_COVERAGE {
                outdated.push(format!("{}: {message}", page.file_name().unwrap().display()));
            }
        }
    }
    assert!(seen > 50, "only {seen} messages were found");
    assert!(outdated.is_empty(), "the program does not write these messages:\n{}", outdated.join("\n"));
}
