//! Everything that people read uses the words of the field: sources, documentation, examples, integrations and the changelog. Readers
//! understand it at first reading and find it by searching.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::path::{Path, PathBuf};

use crate::documentation::{pages, repository};

/// Phrases that hide who does what, or that no reader would search for, each with what to write instead.
/// Underscores in names count as spaces.
const UNCLEAR: [(&str, &str); 71] = [
    ("anybody", "name the actor: the caller, a client, a user"),
    ("are looked at", "are read, checked or evaluated"),
    ("are told", "say who reports what to whom"),
    ("as it has to be", "valid"),
    ("as it should be", "valid"),
    ("as many as it may", "the limit"),
    ("at hand", "available"),
    ("begin anew", "restart"),
    ("come back, or", "retry later, or"),
    ("comes to nothing", "fails"),
    ("for ever", "permanently"),
    ("gives way", "say what is prioritized"),
    ("go on with", "continue"),
    ("go round", "iterate"),
    ("goes on", "continues"),
    ("goes round", "iterates"),
    ("good key", "valid key"),
    ("had a hand in", "contributed"),
    ("has to be a", "must be a"),
    ("has to be an", "must be an"),
    ("has to be there", "is required"),
    ("have to be an", "must be an"),
    ("held to", "validated against"),
    ("how-many-eth", "a zero-based index"),
    ("in vain", "say what is ignored or has no effect"),
    ("is heard of", "is reported"),
    ("is looked at", "is read, checked or evaluated"),
    ("is lying", "is"),
    ("is mended", "is fixed"),
    ("is none of", "is not one of"),
    ("is told", "say who reports what to whom"),
    ("machine room", "say what the program does"),
    ("may be believed", "is trusted"),
    ("mend", "fix or repair"),
    ("mend it", "fix it"),
    ("mend the", "fix the"),
    ("mended", "fixed or repaired"),
    ("no entropy", "the random number generator failed"),
    ("no such thing", "not found"),
    ("nobody", "name the actor, or use the passive of a technical verb"),
    ("none where", "`None` if"),
    ("nothing where", "`None` if"),
    ("of somebody", "name the actor"),
    ("other bytes", "different contents"),
    ("served here", "supported by this host"),
    ("slip of the pen", "typo"),
    ("somebody", "name the actor: the caller, a client, a user"),
    ("stands for good", "is permanent"),
    ("stands in", "is in"),
    ("stands still", "stalls"),
    ("stands there", "is there"),
    ("stands twice", "appears twice"),
    ("take a filter away", "remove a filter"),
    ("take back", "revoke, undo or unpublish"),
    ("taken back", "revoked, undone or unpublished"),
    ("taken note of", "accepted"),
    ("takes its place", "replaces it"),
    ("that pretends", "a mock"),
    ("the page before", "the previous page"),
    ("the very same", "the same"),
    ("to the letter", "exactly"),
    ("told", "reported, shown or sent"),
    ("took back", "revoked, undid or unpublished"),
    ("went on", "continued"),
    ("what came of", "the result of"),
    ("what comes of", "the result of"),
    ("what is not done", "say what is required"),
    ("what there is", "list what exists"),
    ("whoever", "name the actor: the caller, a client, a user"),
    ("worked out", "computed"),
    ("works out", "computes"),
];

/// Nouns after "is no" that make an idiom. Otherwise "is no X" hides the usual "is not an X", and "is invalid" is often meant.
const IDIOMS: [&str; 3] = ["longer", "more", "other"];

/// Texts that are part of the hash of compiled workflows, so they cannot change: those of generated steps and warnings, and those of
/// bundled workflows that transcripts quote.
const HASHED: [&str; 9] = [
    "and stop only for what nobody but the user has.",
    "as somebody who did not write it",
    "name the first part that gives way",
    "so that somebody who has not read them could predict",
    "the loop may go round {} times",
    "the user has been told",
    "this conversation may end after any call, and whoever",
    "what nobody set ends or prolongs it",
    "with the facts at hand",
];

/// The names of files with texts for readers.
const TEXTS: [&str; 9] = ["hbs", "html", "json", "md", "rs", "sh", "toml", "wat", "yaml"];

/// The files below a folder with one of these extensions, sorted.
pub(crate) fn files(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, extensions, found);
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known))
        {
            found.push(path);
        }
    }
}

/// The files that are checked: the sources of every crate, the documentation, examples and integrations.
fn checked() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = pages().into_iter().map(|(path, _)| path).collect();
    let mut crates: Vec<PathBuf> =
        std::fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    crates.sort();
    for folder in crates {
        for part in ["src", "tests", "benches", "examples"].map(|part| folder.join(part)) {
            if part.is_dir() {
                files(&part, &["rs"], &mut found);
            }
        }
    }
    for folder in [".claude-plugin", "examples", "fuzz/fuzz_targets", "integrations"] {
        files(&repository().join(folder), &TEXTS, &mut found);
    }
    found.push(repository().join("fuzz/README.md"));
    // This file has the phrases in its list.
    found.retain(|path| !path.ends_with(file!().rsplit('/').next().unwrap_or_default()));
    found
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

/// Whether `line` says "is no X" or "are no X". "There is no X" is plain English.
fn denies_a_noun(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.iter().enumerate().any(|(at, word)| {
        // A line may continue "there" at the end of the previous line.
        let before = at.checked_sub(1).map_or("there", |before| words[before]);
        let is_continued = before.ends_with("there") || before.starts_with("//");
        let is_verb = matches!(*word, "is" | "are") && words.get(at + 1) == Some(&"no");
        let noun = words.get(at + 2).copied().unwrap_or(IDIOMS[0]);
        is_verb && !is_continued && !IDIOMS.contains(&noun)
    })
}

#[test]
fn everything_is_written_in_plain_english() {
    let mut found = Vec::new();
    for path in checked() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let words = HASHED
                .iter()
                .fold(line.to_lowercase().replace('_', " "), |words, hashed| words.replace(hashed, ""));
            let place = format!("{}:{}", path.display(), number + 1);
            for (phrase, instead) in UNCLEAR {
                if contains(&words, phrase) {
                    found.push(format!("{place}: {phrase:?}; write: {instead}"));
                }
            }
            if denies_a_noun(&words) {
                found.push(format!("{place}: \"is no …\"; write: is not a …, or is invalid"));
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

#[test]
fn only_a_denied_noun_is_found() {
    for (line, expected) in [
        ("the file is no json", true),
        ("entries that are no list", true),
        ("there is no session", false),
        ("/// is no session", false),
        ("the key is no longer valid", false),
        ("the answer is no: {words:?}", false),
        ("the answer is no", false),
    ] {
        assert_eq!(denies_a_noun(line), expected, "{line:?}");
    }
}
