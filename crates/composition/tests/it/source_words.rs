//! Comments, messages and names in the source use the words of the field, so that readers understand them at first
//! reading and can search for them.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::path::{Path, PathBuf};

use crate::documentation::repository;

/// The crates that are checked. Add a crate once this test passes for it.
const CLEAN: [&str; 17] = [
    "ai",
    "canon",
    "composition",
    "console",
    "disk",
    "flow",
    "guide",
    "interlock",
    "outbound",
    "packs",
    "pgclient",
    "ports",
    "postgres",
    "sandbox",
    "storage",
    "surfaces",
    "workspace",
];

/// Phrases that hide who does what, or that no reader would search for, each with what to write instead.
/// Underscores in names count as spaces.
const UNCLEAR: [(&str, &str); 50] = [
    ("anybody", "name the actor: the caller, a client, a user"),
    ("are looked at", "are read, checked or evaluated"),
    ("are told", "say who reports what to whom"),
    ("as it has to be", "valid"),
    ("as it should be", "valid"),
    ("at hand", "available"),
    ("comes to nothing", "fails"),
    ("for ever", "permanently"),
    ("gives way", "say what is prioritized"),
    ("go on with", "continue"),
    ("go round", "iterate"),
    ("goes on", "continues"),
    ("goes round", "iterates"),
    ("had a hand in", "contributed"),
    ("has to be there", "is required"),
    ("held to", "validated against"),
    ("how-many-eth", "a zero-based index"),
    ("in vain", "say what is ignored or has no effect"),
    ("is heard of", "is reported"),
    ("is looked at", "is read, checked or evaluated"),
    ("is lying", "is"),
    ("is mended", "is fixed"),
    ("is none of", "is not one of"),
    ("is told", "say who reports what to whom"),
    ("may be believed", "is trusted"),
    ("mend it", "fix it"),
    ("mend the", "fix the"),
    ("nobody", "name the actor, or use the passive of a technical verb"),
    ("none where", "`None` if"),
    ("nothing where", "`None` if"),
    ("of somebody", "name the actor"),
    ("other bytes", "different contents"),
    ("served here", "supported by this host"),
    ("slip of the pen", "typo"),
    ("somebody", "name the actor: the caller, a client, a user"),
    ("stands for good", "is permanent"),
    ("stands twice", "appears twice"),
    ("take back", "revoke, undo or unpublish"),
    ("taken back", "revoked, undone or unpublished"),
    ("takes its place", "replaces it"),
    ("the very same", "the same"),
    ("to the letter", "exactly"),
    ("told", "reported, shown or sent"),
    ("took back", "revoked, undid or unpublished"),
    ("went on", "continued"),
    ("what came of", "the result of"),
    ("what comes of", "the result of"),
    ("whoever", "name the actor: the caller, a client, a user"),
    ("worked out", "computed"),
    ("works out", "computes"),
];

/// Texts of generated steps and warnings that are part of the hash of compiled workflows, so they cannot change.
const HASHED: [&str; 5] = [
    "and stop only for what nobody but the user has.",
    "as somebody who did not write it",
    "the loop may go round {} times",
    "this conversation may end after any call, and whoever",
    "what nobody set ends or prolongs it",
];

/// The Rust files below a folder, sorted.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether `line` contains `phrase` as whole words. A phrase that is a complete string literal does not count: it is data, such as the name
/// of a principal in a recorded log.
fn contains(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + phrase.len()..].chars().next();
        let is_literal = (before, after) == (Some('"'), Some('"'));
        !is_literal && ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[test]
fn sources_are_written_in_plain_english() {
    let crates = repository().join("crates");
    let mut files = Vec::new();
    for name in CLEAN {
        for folder in ["src", "tests", "benches", "examples"] {
            let folder = crates.join(name).join(folder);
            if folder.is_dir() {
                sources(&folder, &mut files);
            }
        }
    }
    let mut found = Vec::new();
    for path in files {
        // Both files have the phrases in their lists.
        if ["source_words.rs", "site.rs"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let words = HASHED
                .iter()
                .fold(line.to_lowercase().replace('_', " "), |words, hashed| words.replace(hashed, ""));
            for (phrase, instead) in UNCLEAR {
                if contains(&words, phrase) {
                    found.push(format!("{}:{}: {phrase:?}; write: {instead}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "use words that readers search for:\n{}", found.join("\n"));
}

#[test]
fn phrases_match_whole_words() {
    for (line, phrase, expected) in [
        ("it is told to the model", "is told", true),
        ("the untold story", "told", false),
        ("/// nobody", "nobody", true),
        ("recommend it", "mend it", false),
        ("principal: \"somebody\",", "somebody", false),
        ("\"somebody else\"", "somebody", true),
    ] {
        assert_eq!(contains(line, phrase), expected, "{line:?} {phrase:?}");
    }
}
