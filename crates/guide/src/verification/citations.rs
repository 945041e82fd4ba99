//! The forms of citations in an agent's text. They are few, so that ordinary prose is not mistaken for a
//! citation.
//!
//! - `src/lib.rs:12`, `src/lib.rs:12-20`, `src/lib.rs:12:5`: a path with a folder and an extension, except
//!   inside a URL. In backticks, a folder or an extension is enough; in prose, `example.org:443` and
//!   `and/or:1` look the same.
//! - `commit 1a2b3c4`: the word and 7 to 64 hexadecimal digits.
//! - ``branch `name` ``: the word and a name in backticks.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of citations that are checked per attempt.
pub const MAX_CITATIONS: usize = 64;
/// The maximum length of a cited path or name, in bytes.
const MAX_NAME_BYTES: usize = 512;
/// The maximum number of citations that are collected, to report how many there are.
const MAX_COLLECTED: usize = 4096;

/// A citation in an agent's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "cited", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Citation {
    /// A line of a file; the last line of a range.
    Line { path: String, line: u64 },
    /// A commit, by its id or a prefix of it.
    Commit { prefix: String },
    /// A branch, local or `remote/name`.
    Branch { name: String },
}

impl fmt::Display for Citation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { path, line } => write!(formatter, "`{path}:{line}`"),
            Self::Commit { prefix } => write!(formatter, "commit `{prefix}`"),
            Self::Branch { name } => write!(formatter, "branch `{name}`"),
        }
    }
}

/// The citations in the texts, without duplicates, in order.
pub fn cited<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Citation> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for text in texts {
        for citation in in_text(text) {
            if found.len() == MAX_COLLECTED {
                return found;
            }
            if seen.insert(citation.clone()) {
                found.push(citation);
            }
        }
    }
    found
}

fn in_text(text: &str) -> impl Iterator<Item = Citation> {
    let mut before = "";
    let words = text.split(|c: char| c.is_whitespace() || "()[]{}<>\"',;|".contains(c));
    words.filter(|word| !word.is_empty()).flat_map(move |word| {
        let named = after_word(before, word);
        before = word;
        // A word may contain several quoted parts, such as "`a/b.rs:1`/`c/d.rs:2`".
        let parts = word.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part));
        let lines = parts.filter_map(|(quoted, part)| line(part, quoted)).collect::<Vec<_>>();
        named.into_iter().chain(lines)
    })
}

/// A commit or a branch, if `before` announces it.
fn after_word(before: &str, word: &str) -> Option<Citation> {
    let before = before.trim_end_matches(':').trim_matches(|c| c == '*' || c == '_');
    if before.eq_ignore_ascii_case("commit") {
        let prefix = word.trim_matches('`').trim_end_matches(['.', ':']).trim_end_matches('`');
        let is_id = (7..=64).contains(&prefix.len()) && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_id.then(|| Citation::Commit { prefix: prefix.to_ascii_lowercase() });
    }
    if before.eq_ignore_ascii_case("branch") {
        let name = word.strip_prefix('`')?.split('`').next()?;
        let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && word.matches('`').count() >= 2;
        return is_name.then(|| Citation::Branch { name: name.to_owned() });
    }
    None
}

/// Parses `path:line`. `quoted` texts are in backticks.
fn line(text: &str, quoted: bool) -> Option<Citation> {
    let text = text.trim_end_matches(['.', ':', '!', '?']).trim_matches('*');
    if text.contains("://") {
        return None;
    }
    let (path, rest) = text.split_once(':')?;
    let numbers = rest.split_once(':').map_or(rest, |(line, _column)| line);
    let (first, last) = numbers.split_once(['-', '–']).unwrap_or((numbers, numbers));
    let number = |text: &str| {
        let digits = text.strip_prefix('L').unwrap_or(text);
        let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let line = number(first)?.max(number(last)?);
    (is_path(path, quoted) && path.len() <= MAX_NAME_BYTES)
        .then(|| Citation::Line { path: path.to_owned(), line })
}

fn is_path(path: &str, quoted: bool) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_folder = name.len() < path.len() && !name.is_empty();
    let has_extension = name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let is_extension = extension.starts_with(|c: char| c.is_ascii_alphabetic())
            && extension.len() <= 10
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_extension && (has_folder || !stem.is_empty())
    });
    let has_letter = path.chars().any(char::is_alphabetic);
    let is_plain = !path.contains("//") && !path.chars().any(|c| c.is_control() || "=#@?&%$".contains(c));
    // In backticks a folder is enough; in prose, "and/or:1" would need an extension.
    has_letter && is_plain && ((has_folder && (has_extension || quoted)) || (quoted && has_extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        cited([text]).iter().map(ToString::to_string).collect()
    }

    /// Every documented form is found, and prose is not mistaken for a citation.
    #[test]
    fn citations_are_found_and_prose_is_not() {
        let cases: &[(&str, &[&str])] = &[
            ("See src/lib.rs:12 and `src/main.rs:3-9`.", &["`src/lib.rs:12`", "`src/main.rs:9`"]),
            ("(crates/a/b.rs:7:14)", &["`crates/a/b.rs:7`"]),
            ("| `src/Makefile:2` | `lib.rs:1` |", &["`src/Makefile:2`", "`lib.rs:1`"]),
            ("**src/x.py:L10**: wrong", &["`src/x.py:10`"]),
            ("/etc/passwd.d/x.conf:1", &["`/etc/passwd.d/x.conf:1`"]),
            ("commit 1A2B3C4d, commit: `deadbeef1`.", &["commit `1a2b3c4d`", "commit `deadbeef1`"]),
            ("on branch `feature/x` now; Branch: `main`", &["branch `feature/x`", "branch `main`"]),
            ("src/lib.rs:12 src/lib.rs:12", &["`src/lib.rs:12`"]),
            // Not citations.
            ("at 12:30, ratio 1/2:3, host:8080, example.org:443", &[]),
            ("http://127.0.0.1:8080/a.html:3 https://a.b/c.d:1", &[]),
            ("and/or:1, std::fmt, a commit message, the branch is, commit 12345", &[]),
            ("`key:1`, note:3, Symptom: x, src/lib.rs, src/lib.rs:", &[]),
            ("x.rs:99999999999999999999", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), *expected, "{text}");
        }
    }

    #[test]
    fn any_text_is_accepted_and_the_number_of_citations_is_limited() {
        let many: String = (0..5000).map(|n| format!("a/b.rs:{n} ")).collect();
        assert_eq!(cited([many.as_str()]).len(), MAX_COLLECTED);
        for text in ["`", "``", "commit", "branch `", "a/b.rs:1-", "é/ü.rs:3", ":1", "/:1", "``:``:1"] {
            let _ = cited([text]);
        }
    }
}
