//! A small schema language for manifests.
//!
//! Every closed object of the manifests is a table in this language, next to the type it produces. It supports what the
//! published schemas use, and reports positions. Tables refer only to other tables, so recursion is bounded.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::problem::{ManifestErrorCode, Pointer, Problems};

/// A rule for a value.
pub(crate) enum Rule {
    Any,
    Bool,
    /// A string with length limits and a test; `expected` describes it.
    Text {
        min: usize,
        max: usize,
        test: fn(&str) -> bool,
        expected: &'static str,
    },
    OneOf(&'static [&'static str]),
    Integer {
        min: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    List {
        item: &'static Rule,
        min: usize,
        max: usize,
        unique: bool,
    },
    Object(&'static Shape),
    /// An object with arbitrary names and values of the rule.
    Map(&'static Rule),
    /// Checked by code.
    Custom(fn(&Value, &Pointer<'_>, &mut Problems)),
}

/// The members of an object.
pub(crate) struct Shape {
    pub(crate) members: &'static [Member],
    /// Whether other members are allowed.
    pub(crate) open: bool,
}

pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) rule: Rule,
}

pub(crate) const fn required(name: &'static str, rule: Rule) -> Member {
    Member { name, required: true, rule }
}

pub(crate) const fn optional(name: &'static str, rule: Rule) -> Member {
    Member { name, required: false, rule }
}

pub(crate) const fn closed(members: &'static [Member]) -> Shape {
    Shape { members, open: false }
}

pub(crate) const TEXT: Rule = text(0, usize::MAX);
pub(crate) const NON_EMPTY: Rule = text(1, usize::MAX);
pub(crate) const ANY_OBJECT: Rule = Rule::Map(&Rule::Any);

pub(crate) const fn text(min: usize, max: usize) -> Rule {
    Rule::Text { min, max, test: |_| true, expected: "a text" }
}

pub(crate) const fn matching(max: usize, test: fn(&str) -> bool, expected: &'static str) -> Rule {
    Rule::Text { min: 1, max, test, expected }
}

pub(crate) const fn list(item: &'static Rule) -> Rule {
    Rule::List { item, min: 0, max: usize::MAX, unique: false }
}

pub(crate) const fn some(item: &'static Rule) -> Rule {
    Rule::List { item, min: 1, max: usize::MAX, unique: false }
}

pub(crate) const fn unique(item: &'static Rule) -> Rule {
    Rule::List { item, min: 0, max: usize::MAX, unique: true }
}

/// Checks an object recursively.
pub(crate) fn check_object(value: &Value, shape: &Shape, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(members) = value.as_object() else {
        return problems.invalid(at, format!("must be an object, not {}", kind_of(value)));
    };
    if !shape.open {
        refuse_unknown(members, shape, at, problems);
    }
    for member in shape.members {
        match members.get(member.name) {
            Some(value) => check(value, &member.rule, &at.member(member.name), problems),
            None if member.required => problems.invalid(&at.member(member.name), "required"),
            None => {}
        }
    }
}

fn refuse_unknown(members: &Map<String, Value>, shape: &Shape, at: &Pointer<'_>, problems: &mut Problems) {
    for name in members.keys() {
        if shape.members.iter().any(|member| member.name == name) {
            continue;
        }
        let known = shape.members.iter().map(|member| member.name);
        let hint = match canon::nearest::nearest(name, known, 1).first() {
            Some(meant) => format!("unknown field; did you mean `{meant}`?"),
            None => "unknown field".to_owned(),
        };
        problems.invalid(&at.member(name), hint);
    }
}

/// Checks a value recursively.
pub(crate) fn check(value: &Value, rule: &Rule, at: &Pointer<'_>, problems: &mut Problems) {
    match rule {
        Rule::Any => {}
        Rule::Bool => expect(value.is_boolean(), value, "true or false", at, problems),
        Rule::Text { min, max, test, expected } => {
            check_text(value, *min, *max, *test, expected, at, problems);
        }
        Rule::OneOf(known) => {
            if !value.as_str().is_some_and(|text| known.contains(&text)) {
                problems
                    .invalid(at, format!("must be one of {1}, not {0}", kind_of(value), known.join(", ")));
            }
        }
        Rule::Integer { min } => {
            let whole = value
                .as_u64()
                .is_some_and(|number| i64::try_from(number).map_or(true, |number| number >= *min))
                || value.as_i64().is_some_and(|number| number >= *min)
                || value.as_f64().is_some_and(|number| number.fract() == 0.0 && number >= *min as f64);
            expect(whole, value, &format!("an integer of at least {min}"), at, problems);
        }
        Rule::Number { min, max } => {
            let inside = value.as_f64().is_some_and(|number| (*min..=*max).contains(&number));
            expect(inside, value, &format!("a number from {min} to {max}"), at, problems);
        }
        Rule::List { item, min, max, unique } => {
            let Some(items) = value.as_array() else {
                return problems.invalid(at, format!("must be a list, not {}", kind_of(value)));
            };
            if items.len() < *min || items.len() > *max {
                let bound =
                    if items.len() < *min { format!("at least {min}") } else { format!("at most {max}") };
                problems.invalid(at, format!("has {} items; allowed are {bound}", items.len()));
            }
            for (place, value) in items.iter().enumerate() {
                check(value, item, &at.item(place), problems);
            }
            if *unique {
                check_unique(items, at, problems);
            }
        }
        Rule::Object(shape) => check_object(value, shape, at, problems),
        Rule::Map(rule) => match value.as_object() {
            None => problems.invalid(at, format!("must be an object, not {}", kind_of(value))),
            Some(members) => {
                for (name, value) in members {
                    check(value, rule, &at.member(name), problems);
                }
            }
        },
        Rule::Custom(judge) => judge(value, at, problems),
    }
}

fn check_text(
    value: &Value,
    min: usize,
    max: usize,
    test: fn(&str) -> bool,
    expected: &str,
    at: &Pointer<'_>,
    problems: &mut Problems,
) {
    let Some(text) = value.as_str() else {
        return problems.invalid(at, format!("must be {expected}, not {}", kind_of(value)));
    };
    // JSON Schema counts characters, not bytes. Most strings need no counting.
    let length = if text.len() <= max && text.len() >= min * 4 { text.len() } else { text.chars().count() };
    if length < min {
        problems.invalid(at, format!("has {length} characters; the minimum is {min}"));
    } else if length > max {
        problems.invalid(at, format!("has {length} characters; the maximum is {max}"));
    } else if !test(text) {
        problems.invalid(at, format!("must be {expected}, not `{}`", crate::name::shown(text)));
    }
}

fn check_unique(items: &[Value], at: &Pointer<'_>, problems: &mut Problems) {
    let mut seen = HashSet::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(text) = item.as_str()
            && !seen.insert(text)
        {
            problems.invalid(&at.item(place), format!("duplicate `{}`", crate::name::shown(text)));
        }
    }
}

fn expect(holds: bool, value: &Value, expected: &str, at: &Pointer<'_>, problems: &mut Problems) {
    if !holds {
        problems.invalid(at, format!("must be {expected}, not {}", kind_of(value)));
    }
}

/// Describes the type of a value.
pub(crate) fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("`{}`", crate::name::shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Reports duplicate ids in a list.
pub(crate) fn reject_duplicates(
    items: &Value,
    id: &str,
    code: ManifestErrorCode,
    at: &Pointer<'_>,
    problems: &mut Problems,
) {
    let mut seen = HashSet::new();
    for (place, item) in items.as_array().into_iter().flatten().enumerate() {
        if let Some(text) = item.get(id).and_then(Value::as_str)
            && !seen.insert(text)
        {
            let message = format!("duplicate `{}` in this manifest", crate::name::shown(text));
            problems.add(code, &at.item(place).member(id), message);
        }
    }
}
