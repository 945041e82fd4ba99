//! No secret gets into anything that is kept or sent on.
//!
//! Every occurrence of every secret goes, as `[REDACTED:<secretId>]`. Where occurrences overlap, all of them go together,
//! under the name of the longest: cutting out only one of them would leave a piece of the other. Values shorter than
//! [`MIN_CHARACTERS`] are not looked for, because they would be found everywhere.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

/// The shortest value that is looked for.
pub const MIN_CHARACTERS: usize = 8;

/// A secret: its name may be shown, its value may not.
#[derive(Clone)]
pub struct Secret {
    id: String,
    value: String,
}

impl Secret {
    /// A secret of this name and value.
    pub fn new(id: impl Into<String>, value: impl Into<String>) -> Self {
        Self { id: id.into(), value: value.into() }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its value, for whoever has to send it.
    pub fn expose(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What replaces the secrets of a call.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    needles: Vec<Needle>,
    /// Whether there was anything to look for at all.
    asked: bool,
}

impl Redactor {
    /// A redactor of these secrets.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().collect();
        let asked = !secrets.is_empty();
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
            // A name that gives a secret away is not shown either.
            let gives_away = secrets.iter().any(|other| secret.id.contains(&other.value));
            if gives_away { "[REDACTED]".to_owned() } else { format!("[REDACTED:{}]", secret.id) }
        };
        let marks: Vec<String> = secrets.iter().map(mark).collect();
        // A value that is a part of the marks would be found in them again; it says nothing that they do not say.
        let hidden = |value: &str| !marks.iter().any(|mark| mark.contains(value));
        let needles = secrets.into_iter().zip(&marks).filter(|(secret, _)| hidden(&secret.value));
        let needles = needles.map(|(secret, mark)| Needle::new(secret.value, mark.clone()));
        Self { needles: needles.collect(), asked }
    }

    /// Whether there were secrets to look for, long enough or not.
    pub const fn was_asked(&self) -> bool {
        self.asked
    }

    /// How much of a text that goes on can be told: up to where a secret may have begun, and never up to the middle of one.
    pub fn settled(&self, text: &str) -> usize {
        let begun = |secret: &[u8]| {
            let most = text.len().min(secret.len() - 1);
            (1..=most).rev().find(|length| text.as_bytes().ends_with(&secret[..*length])).unwrap_or(0)
        };
        let begun = self.needles.iter().map(|needle| begun(&needle.value)).max().unwrap_or(0);
        let mut settled = text.len() - begun;
        // What overlaps goes together, so none of it is told before all of it is there.
        for range in self.occurrences(text).into_iter().rev() {
            if range.0.start < settled && settled < range.0.end {
                settled = range.0.start;
            }
        }
        settled
    }

    /// A text without secrets, and how often one was replaced. It takes time in proportion to the text for each secret.
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

    /// Where secrets stand, from left to right, those that overlap as one, with the rank of the longest.
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

    /// A text without secrets.
    pub fn clean(&self, text: &str) -> String {
        self.text(text).0.into_owned()
    }

    /// Takes the secrets out of a document, names of members included, and says how many.
    pub fn value(&self, value: &mut Value) -> usize {
        if self.needles.is_empty() {
            return 0;
        }
        let mut count = 0;
        // A stack of its own: documents may be nested as deeply as the reader allows.
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

/// A value to look for, prepared so that finding all of its occurrences takes linear time.
#[derive(Clone)]
struct Needle {
    value: Vec<u8>,
    mark: String,
    /// For each beginning of the value, how much of it is also its own ending.
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

    /// Calls back for every occurrence, overlapping ones too. A match of UTF-8 in UTF-8 begins and ends between characters.
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
    fn texts_and_what_is_left_of_them() {
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
    fn occurrences_that_overlap_go_together() {
        let redactor = Redactor::new([Secret::new("a", "xx123456"), Secret::new("b", "12345678ABCDEFGH")]);
        assert_eq!(redactor.text("-xx12345678ABCDEFGH-"), (Cow::Borrowed("-[REDACTED:b]-"), 1));
        let repeating = Redactor::new([Secret::new("r", "aaaaaaaa")]);
        assert_eq!(repeating.text("aaaaaaaaaaaab"), (Cow::Borrowed("[REDACTED:r]b"), 1));
    }

    #[test]
    fn the_whole_of_a_document_is_looked_at() {
        let mut document = json!({"a": ["eightchr", {"eightchr": [1, null, "x eightchr/eightchr"]}]});
        assert_eq!(redactor().value(&mut document), 4);
        assert_eq!(
            document,
            json!({"a": ["[REDACTED:eight]", {"[REDACTED:eight]": [1, null, "x [REDACTED:eight]/[REDACTED:eight]"]}]})
        );
        assert_eq!(redactor().value(&mut document), 0);
    }

    #[test]
    fn nothing_prints_a_value() {
        let text = format!("{:?} {:?}", Secret::new("id", "the-value-itself"), redactor());
        assert!(!text.contains("the-value-itself") && !text.contains("eightchr-and-more"), "{text}");
    }
}
