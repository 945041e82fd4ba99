//! Removes secrets from everything that is stored or forwarded.
//!
//! Every occurrence of every secret becomes `[REDACTED:<secretId>]`. Overlapping occurrences are replaced together,
//! with the name of the longest one: replacing only one would leave a part of the other. Values shorter than
//! [`MIN_CHARACTERS`] are not redacted, because they would match everywhere.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

/// The minimum length of a redacted value.
pub const MIN_CHARACTERS: usize = 8;

/// A secret: the name may be shown, the value must not.
#[derive(Clone)]
pub struct Secret {
    id: String,
    value: String,
}

impl Secret {
    pub fn new(id: impl Into<String>, value: impl Into<String>) -> Self {
        Self { id: id.into(), value: value.into() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The value. Use it only to send a request.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Replaces the secrets of a call.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    needles: Vec<Needle>,
    /// Whether any secrets were given.
    has_secrets: bool,
}

impl Redactor {
    /// A redactor for these secrets.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().collect();
        let has_secrets = !secrets.is_empty();
        secrets.retain(|secret| secret.value.chars().count() >= MIN_CHARACTERS);
        secrets.sort_by(|a, b| {
            b.value
                .len()
                .cmp(&a.value.len())
                .then_with(|| a.value.cmp(&b.value))
                .then_with(|| a.id.cmp(&b.id))
        });
        secrets.dedup_by(|a, b| a.value == b.value);
        let mark = |secret: &Secret| {
            // A secret name that contains a secret is not shown either.
            let gives_away = secrets.iter().any(|other| secret.id.contains(&other.value));
            if gives_away { "[REDACTED]".to_owned() } else { format!("[REDACTED:{}]", secret.id) }
        };
        let marks: Vec<String> = secrets.iter().map(mark).collect();
        // A value that is part of a marker would match the markers again. It reveals no more than they do.
        let hidden = |value: &str| !marks.iter().any(|mark| mark.contains(value));
        let needles = secrets.into_iter().zip(&marks).filter(|(secret, _)| hidden(&secret.value));
        let needles = needles.map(|(secret, mark)| Needle::new(secret.value, mark.clone()));
        Self { needles: needles.collect(), has_secrets }
    }

    /// Whether secrets were given, even if too short to redact.
    pub const fn has_secrets(&self) -> bool {
        self.has_secrets
    }

    /// The length of the prefix that can be emitted while more text follows: it ends before a possible secret and never
    /// inside one.
    pub fn settled(&self, text: &str) -> usize {
        let begun = |secret: &[u8]| {
            let most = text.len().min(secret.len() - 1);
            (1..=most).rev().find(|length| text.as_bytes().ends_with(&secret[..*length])).unwrap_or(0)
        };
        let begun = self.needles.iter().map(|needle| begun(&needle.value)).max().unwrap_or(0);
        let mut settled = text.len() - begun;
        // Overlapping occurrences are replaced together, so none is emitted before all are complete.
        for range in self.occurrences(text).into_iter().rev() {
            if range.0.start < settled && settled < range.0.end {
                settled = range.0.start;
            }
        }
        settled
    }

    /// Redacts a text and returns the number of replacements. Takes linear time in the text for each secret.
    pub fn text<'t>(&self, text: &'t str) -> (Cow<'t, str>, usize) {
        let found = self.occurrences(text);
        if found.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let mut clean = String::with_capacity(text.len());
        let mut copied = 0;
        let count = found.len();
        for (range, rank) in found {
            clean.push_str(&text[copied..range.start]);
            clean.push_str(&self.needles[rank].mark);
            copied = range.end;
        }
        clean.push_str(&text[copied..]);
        (Cow::Owned(clean), count)
    }

    /// The ranges of secrets from left to right, overlapping ones merged, with the rank of the longest.
    fn occurrences(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
        for (rank, needle) in self.needles.iter().enumerate() {
            needle.find(text, |range| found.push((range, rank)));
        }
        found.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start).then_with(|| b.end.cmp(&a.end)));
        let mut joined: Vec<(Range<usize>, usize)> = Vec::with_capacity(found.len());
        for (range, rank) in found {
            match joined.last_mut() {
                Some((before, of)) if range.start < before.end => {
                    before.end = before.end.max(range.end);
                    // Longer secrets have lower ranks.
                    *of = rank.min(*of);
                }
                _ => joined.push((range, rank)),
            }
        }
        joined
    }

    /// Redacts a text.
    pub fn clean(&self, text: &str) -> String {
        self.text(text).0.into_owned()
    }

    /// Redacts a document, including member names, and returns the number of replacements.
    pub fn value(&self, value: &mut Value) -> usize {
        if self.needles.is_empty() {
            return 0;
        }
        let mut count = 0;
        // An explicit stack: documents can be nested as deeply as the reader allows.
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => {
                    let (clean, replaced) = self.text(text);
                    count += replaced;
                    if let Cow::Owned(clean) = clean {
                        *text = clean;
                    }
                }
                Value::Array(items) => open.extend(items),
                Value::Object(members) => {
                    count += self.names(members);
                    open.extend(members.values_mut());
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        count
    }

    fn names(&self, members: &mut Map<String, Value>) -> usize {
        let counts: usize = members.keys().map(|name| self.text(name).1).sum();
        if counts > 0 {
            let renamed = std::mem::take(members).into_iter().map(|(name, value)| (self.clean(&name), value));
            *members = renamed.collect();
        }
        counts
    }
}

/// A value to search for, prepared for linear-time search (Knuth-Morris-Pratt).
#[derive(Clone)]
struct Needle {
    value: Vec<u8>,
    mark: String,
    /// For each prefix of the value, the length of its longest proper border.
    borders: Vec<usize>,
}

impl Needle {
    fn new(value: String, mark: String) -> Self {
        let value = value.into_bytes();
        let mut borders = vec![0; value.len()];
        let mut matched = 0;
        for place in 1..value.len() {
            while matched > 0 && value[place] != value[matched] {
                matched = borders[matched - 1];
            }
            if value[place] == value[matched] {
                matched += 1;
            }
            borders[place] = matched;
        }
        Self { value, mark, borders }
    }

    /// Calls `found` for every occurrence, including overlapping ones. A UTF-8 match starts and ends at character
    /// boundaries.
    fn find(&self, text: &str, mut found: impl FnMut(Range<usize>)) {
        let mut matched = 0;
        for (place, byte) in text.bytes().enumerate() {
            while matched > 0 && byte != self.value[matched] {
                matched = self.borders[matched - 1];
            }
            if byte == self.value[matched] {
                matched += 1;
            }
            if matched == self.value.len() {
                found(place + 1 - matched..place + 1);
                matched = self.borders[matched - 1];
            }
        }
    }
}

impl fmt::Debug for Needle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.mark)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new([
            Secret::new("short", "seven77"),
            Secret::new("eight", "eightchr"),
            Secret::new("long", "eightchr-and-more"),
            Secret::new("key-of-eightchr", "another-secret"),
            Secret::new("word", "REDACTED"),
        ])
    }

    #[test]
    fn redacts_texts() {
        let cases = [
            ("nothing", "nothing", 0),
            ("seven77", "seven77", 0),
            ("eightchr", "[REDACTED:eight]", 1),
            ("eightchreightchr", "[REDACTED:eight][REDACTED:eight]", 2),
            ("an eightchr-and-more, eightchr-and", "an [REDACTED:long], [REDACTED:eight]-and", 2),
            ("ü another-secretü", "ü [REDACTED]ü", 1),
            ("REDACTED", "REDACTED", 0),
        ];
        for (text, clean, count) in cases {
            let (seen, replaced) = redactor().text(text);
            assert_eq!((seen.as_ref(), replaced), (clean, count), "{text}");
        }
    }

    #[test]
    fn overlapping_occurrences_are_merged() {
        let redactor = Redactor::new([Secret::new("a", "xx123456"), Secret::new("b", "12345678ABCDEFGH")]);
        assert_eq!(redactor.text("-xx12345678ABCDEFGH-"), (Cow::Borrowed("-[REDACTED:b]-"), 1));
        let repeating = Redactor::new([Secret::new("r", "aaaaaaaa")]);
        assert_eq!(repeating.text("aaaaaaaaaaaab"), (Cow::Borrowed("[REDACTED:r]b"), 1));
    }

    #[test]
    fn redacts_names_and_values_of_documents() {
        let mut document = json!({"a": ["eightchr", {"eightchr": [1, null, "x eightchr/eightchr"]}]});
        assert_eq!(redactor().value(&mut document), 4);
        assert_eq!(
            document,
            json!({"a": ["[REDACTED:eight]", {"[REDACTED:eight]": [1, null, "x [REDACTED:eight]/[REDACTED:eight]"]}]})
        );
        assert_eq!(redactor().value(&mut document), 0);
    }

    #[test]
    fn debug_output_hides_values() {
        let text = format!("{:?} {:?}", Secret::new("id", "the-value-itself"), redactor());
        assert!(!text.contains("the-value-itself") && !text.contains("eightchr-and-more"), "{text}");
    }
}
