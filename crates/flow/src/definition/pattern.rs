//! Regular expressions of authors, and their cost.
//!
//! A pattern of a few characters can take a megabyte when compiled, and can have thousands of active states for every byte of a text.
//! Both follow from its syntax, so both are known before it is compiled.

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

/// The maximum size of one compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The default limit for the size of the compiled patterns of one definition, in bytes.
pub const MAX_PATTERN_BYTES: u64 = 64 << 20;

/// The maximum length of a pattern, in bytes. Parsing takes a few kilobytes for each character class.
pub(super) const MAX_TEXT_BYTES: usize = 16 << 10;

/// The minimum size of an automaton: its tables and caches.
const BASE_BYTES: u64 = 8 << 10;
/// The size of a state.
const STATE_BYTES: u64 = 64;
/// The size of a range of characters.
const RANGE_BYTES: u64 = 44;

/// The pattern of a condition.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    states: u64,
    /// `None` if the patterns of the definition exceed the limit. The pattern then matches nothing, and the run fails.
    compiled: Option<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is invalid or too large.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("the pattern has {} bytes; the limit is {MAX_TEXT_BYTES}", text.len()));
        }
        let compiled = RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).build();
        let compiled = compiled.map_err(|error| format!("invalid pattern: {error}"))?;
        Ok(Self { compiled: Some(compiled), ..Self::uncompiled(text) })
    }

    /// A pattern that is not compiled and matches nothing.
    pub(super) fn uncompiled(text: &str) -> Self {
        let states = Cost::of(text).map_or(u64::MAX, |cost| cost.states);
        Self { text: text.to_owned(), states, compiled: None }
    }

    /// The maximum number of steps of a search in a text of that length.
    pub(super) fn steps(&self, bytes: u64) -> u64 {
        bytes.saturating_add(1).saturating_mul(self.states.max(1))
    }

    /// Whether the pattern matches a part of a text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.compiled.as_ref().is_some_and(|compiled| compiled.is_match(text))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// The maximum number of states that are active at once.
    states: u64,
    /// The approximate size when compiled, in bytes.
    bytes: u64,
}

impl Cost {
    /// The cost of a pattern; `None` if it is invalid.
    fn of(text: &str) -> Option<Self> {
        let text = Some(text).filter(|text| text.len() <= MAX_TEXT_BYTES)?;
        let hir = regex_syntax::parse(text).ok()?;
        let cost = Self::of_hir(&hir);
        // The pattern is compiled twice: forwards to find the end of a match, and backwards to find its start.
        Some(Self { bytes: cost.bytes.saturating_mul(2).saturating_add(BASE_BYTES), ..cost })
    }

    /// The recursion is bounded, because the parser limits the nesting.
    fn of_hir(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::states(1, 0),
            HirKind::Literal(literal) => Self::states(literal.0.len() as u64, 0),
            HirKind::Class(Class::Unicode(class)) => Self::states(1, class.ranges().len() as u64),
            HirKind::Class(Class::Bytes(class)) => Self::states(1, class.ranges().len() as u64),
            HirKind::Capture(capture) => Self::of_hir(&capture.sub).and(Self::states(2, 0)),
            HirKind::Repetition(repetition) => {
                let times = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
                Self::of_hir(&repetition.sub).times(u64::from(times))
            }
            HirKind::Concat(parts) | HirKind::Alternation(parts) => {
                parts.iter().map(Self::of_hir).fold(Self::states(1, 0), Self::and)
            }
        }
    }

    const fn states(states: u64, ranges: u64) -> Self {
        Self { states, bytes: states * STATE_BYTES + ranges * RANGE_BYTES }
    }

    fn and(self, other: Self) -> Self {
        Self {
            states: self.states.saturating_add(other.states),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    const fn times(self, times: u64) -> Self {
        Self { states: self.states.saturating_mul(times), bytes: self.bytes.saturating_mul(times) }
    }
}

/// The approximate size of the compiled patterns of a document in bytes: those of conditions and those of schemas.
///
/// Everything that could be a pattern is counted as one. An invalid pattern costs nothing.
pub(super) fn bytes_in(document: &Value) -> u64 {
    let cost = |text: &str| Cost::of(text).map_or(0, |cost| cost.bytes);
    let mut total = 0_u64;
    let mut rest = vec![document];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => {
                if members.get("type").is_some_and(|kind| kind == "regex")
                    && let Some(Value::String(text)) = members.get("right")
                {
                    total = total.saturating_add(cost(text));
                }
                if let Some(Value::String(text)) = members.get("pattern") {
                    total = total.saturating_add(cost(text));
                }
                if let Some(Value::Object(patterns)) = members.get("patternProperties") {
                    total = patterns.keys().map(|text| cost(text)).fold(total, u64::saturating_add);
                }
                rest.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    total
}

/// Whether a condition of the document has a pattern that exceeds the length limit. Earlier versions accepted such patterns.
pub(super) fn has_overlong(document: &Value) -> bool {
    let edges = document.get("edges").and_then(Value::as_array).into_iter().flatten();
    let conditions = edges.filter_map(|edge| edge.get("condition"));
    let conditions = conditions.filter(|condition| condition.get("type").is_some_and(|kind| kind == "regex"));
    let patterns = conditions.filter_map(|condition| condition.get("right")?.as_str());
    patterns.map(str::len).any(|length| length > MAX_TEXT_BYTES)
}

/// A document without the patterns of its schemas, for a definition whose patterns are not compiled.
pub(super) fn without_schema_patterns(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_schema_patterns).collect(),
        Value::Object(members) => {
            let is_pattern = |name: &str, value: &Value| match name {
                "pattern" => value.is_string(),
                "patternProperties" => value.is_object(),
                _ => false,
            };
            let kept = members.iter().filter(|(name, value)| !is_pattern(name, value));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_schema_patterns(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cost_follows_from_the_syntax() {
        let states = |text: &str| Cost::of(text).unwrap().states;
        for (text, least, most) in [
            ("abc", 3, 3),
            ("[01]{2000}", 2000, 2000),
            (r"\w+", 2, 4),
            ("(a|b){10}", 10, 60),
            ("a{9}{9}{9}", 729, 729),
        ] {
            let found = states(text);
            assert!((least..=most).contains(&found), "{text}: {found}");
        }
        assert_eq!(Cost::of("("), None);
    }

    #[test]
    fn patterns_of_conditions_and_schemas_are_counted() {
        let one = bytes_in(&json!({"type": "regex", "right": r"\w{20}"}));
        assert!(one > 500_000, "{one}");
        let documents = [
            json!({"edges": [{"condition": {"type": "regex", "left": "x", "right": r"\w{20}"}}]}),
            json!({"channels": {"c": {"schema": {"pattern": r"\w{20}"}}}}),
            json!({"configurableSchema": {"patternProperties": {r"\w{20}": {"type": "string"}}}}),
        ];
        for document in documents {
            assert_eq!(bytes_in(&document), one, "{document}");
        }
        assert_eq!(bytes_in(&json!({"type": "equals", "right": r"\w{20}", "pattern": "("})), 0);
    }
}
