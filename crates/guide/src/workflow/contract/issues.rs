//! What is wrong with an artifact, one line for each failing leaf.

use std::fmt::Write as _;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use crate::record::budgets::{VALIDATION_ISSUE_BYTES, VALIDATION_ITEMS};

/// How much of a name that the caller chose is repeated, in characters.
const NAME_CHARACTERS: usize = 64;
/// How many allowed values a line lists.
const LISTED_VALUES: usize = 12;
/// How many issues are put in order. More than this are counted only.
const SORTED_ISSUES: usize = 8192;

/// Collects issues within the budgets of a validation.
#[derive(Debug, Default)]
pub(super) struct Issues {
    lines: Vec<String>,
    uncounted: usize,
}

impl Issues {
    /// Adds one issue: where, and what.
    pub(super) fn add(&mut self, path: &str, rule: &str) {
        if self.lines.len() >= SORTED_ISSUES {
            self.uncounted += 1;
            return;
        }
        // The rule is what helps; a path that leaves no room for it is cut first.
        let rule = fit(rule, VALIDATION_ISSUE_BYTES * 3 / 4);
        let path = fit(path, VALIDATION_ISSUE_BYTES - 2 - rule.len());
        self.lines.push(format!("{path}: {rule}"));
    }

    /// Adds what a schema says about the artifact of an index.
    ///
    /// A rule that ties members together stands in the `allOf` of the schema, with its own words as `description`.
    pub(super) fn add_schema_errors<'a>(
        &mut self,
        index: usize,
        schema: &Value,
        errors: impl Iterator<Item = ValidationError<'a>>,
    ) {
        for error in errors {
            match described_rule(schema, error.schema_path()) {
                Some(rule) => self.add(&path(index, error.instance_path()), rule),
                None => self.add_schema_error(index, &error),
            }
        }
    }

    fn add_schema_error(&mut self, index: usize, error: &ValidationError<'_>) {
        use ValidationErrorKind as Kind;
        let path = path(index, error.instance_path());
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                self.add(&format!("{path}{}", member(name)), "is missing");
            }
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    self.add(&format!("{path}{}", member(name)), "is not a member that the contract knows");
                }
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.add_nearest_branch(index, error, &path, context);
            }
            kind => self.add(&path, &rule(kind, error.instance())),
        }
    }

    /// Of several alternatives, the one that comes nearest is what the caller meant: the one whose
    /// own type fits. When none does, the caller is told the types.
    fn add_nearest_branch(
        &mut self,
        index: usize,
        error: &ValidationError<'_>,
        path: &str,
        branches: &[Vec<ValidationError<'static>>],
    ) {
        let wrong_type = |inner: &ValidationError<'_>| match inner.kind() {
            ValidationErrorKind::Type { kind } if inner.instance_path() == error.instance_path() => {
                Some(type_names(kind))
            }
            _ => None,
        };
        if let Some(branch) =
            branches.iter().find(|branch| branch.iter().all(|inner| wrong_type(inner).is_none()))
        {
            for inner in branch {
                self.add_schema_error(index, inner);
            }
            return;
        }
        let mut types: Vec<String> = branches.iter().flatten().filter_map(wrong_type).collect();
        types.dedup();
        self.add(path, &format!("has to be {}, and is {}", types.join(" or "), type_of(error.instance())));
    }

    /// The issues in order, each once, at most as many as a validation may hold.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.lines.sort();
        self.lines.dedup();
        let total = self.lines.len() + self.uncounted;
        if total > VALIDATION_ITEMS {
            self.lines.truncate(VALIDATION_ITEMS - 1);
            self.lines.push(format!("and {} more", total - self.lines.len()));
        }
        self.lines
    }
}

/// The words of the rule among `allOf` that an error comes from.
fn described_rule<'s>(schema: &'s Value, location: &Location) -> Option<&'s str> {
    let mut segments = location.into_iter();
    match (segments.next(), segments.next()) {
        (Some(LocationSegment::Property(name)), Some(LocationSegment::Index(index))) if name == "allOf" => {
            schema.get("allOf")?.get(index)?.get("description")?.as_str()
        }
        _ => None,
    }
}

/// A rule in words. The value itself is not repeated: it may be large, and the caller has it.
fn rule(kind: &ValidationErrorKind, instance: &Value) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind } => format!("has to be {}, and is {}", type_names(kind), type_of(instance)),
        Kind::Constant { expected_value } => format!("has to be {expected_value}"),
        Kind::Enum { options } => format!("has to be one of {}", listed(options)),
        Kind::MinLength { limit } => format!("has to have at least {limit} characters"),
        Kind::MaxLength { limit } => {
            format!("may have at most {limit} characters, and has {}", length(instance))
        }
        Kind::MinItems { limit } => format!("has to have at least {limit} items"),
        Kind::MaxItems { limit } => format!("may have at most {limit} items, and has {}", length(instance)),
        Kind::AdditionalItems { limit } => {
            format!("may have at most {limit} items, and has {}", length(instance))
        }
        Kind::MinProperties { limit } => format!("has to have at least {limit} members"),
        Kind::MaxProperties { limit } => {
            format!("may have at most {limit} members, and has {}", length(instance))
        }
        Kind::Minimum { limit } => format!("has to be at least {limit}"),
        Kind::Maximum { limit } => format!("may be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("has to be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("has to be less than {limit}"),
        Kind::Pattern { pattern } => format!("has to match the pattern {pattern}"),
        Kind::UniqueItems => "may not hold the same item twice".to_owned(),
        other => format!("breaks the rule `{}` of the contract", other.keyword()),
    }
}

/// The path of a place in the artifact of an index, as a caller would write it in code.
fn path(index: usize, location: &Location) -> String {
    let mut text = format!("artifacts[{index}]");
    for segment in location {
        match segment {
            LocationSegment::Property(name) => text.push_str(&member(&name)),
            LocationSegment::Index(index) => {
                write!(text, "[{index}]").expect("a string takes whatever is written");
            }
        }
    }
    text
}

/// A member in a path: `.name`, or `["a name"]` when it is no plain name.
pub(super) fn member(name: &str) -> String {
    let plain = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let shown = clipped(name, NAME_CHARACTERS);
    if plain { format!(".{shown}") } else { format!("[{shown:?}]") }
}

fn type_names(kind: &TypeKind) -> String {
    let name = |name: &str| match name {
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        "integer" => "a whole number".to_owned(),
        "null" => "null".to_owned(),
        other => format!("a {other}"),
    };
    match kind {
        TypeKind::Single(one) => name(one.as_str()),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| name(one.as_str())).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// The type of a value, in words.
pub(super) const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn listed(options: &Value) -> String {
    let Some(options) = options.as_array() else { return clipped(&options.to_string(), NAME_CHARACTERS) };
    let mut shown: Vec<String> = options
        .iter()
        .take(LISTED_VALUES)
        .map(|option| clipped(&option.to_string(), NAME_CHARACTERS))
        .collect();
    if options.len() > LISTED_VALUES {
        shown.push(format!("and {} more", options.len() - LISTED_VALUES));
    }
    shown.join(", ")
}

/// The beginning of a text, on one line, with a mark when something was left out.
pub(super) fn clipped(text: &str, characters: usize) -> String {
    let mut rest = text.chars();
    let mut kept: String = rest
        .by_ref()
        .take(characters)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if rest.next().is_some() {
        kept.push('…');
    }
    kept
}

/// A text that has at most so many bytes, with a mark when something was left out.
///
/// The mark of [`canon::budget`] starts a paragraph of its own, which a line in a list cannot have.
pub(super) fn fit(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    match bytes.checked_sub('…'.len_utf8()) {
        Some(room) => format!("{}…", &text[..text.floor_char_boundary(room)]),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn issues(schema: &Value, artifact: &Value) -> Vec<String> {
        let validator = jsonschema::validator_for(schema).unwrap();
        let mut issues = Issues::default();
        issues.add_schema_errors(2, schema, validator.iter_errors(artifact));
        issues.finish()
    }

    #[test]
    fn each_failing_leaf_has_its_path_and_its_rule() {
        let level = json!({"anyOf": [{"type": "string"}, {"type": "object", "required": ["level"]}]});
        let cases = [
            (json!({"type": "object"}), json!([]), vec!["artifacts[2]: has to be an object, and is a list"]),
            (json!({"required": ["a b"]}), json!({}), vec!["artifacts[2][\"a b\"]: is missing"]),
            (
                json!({"items": {"properties": {"n": {"maximum": 3}}}}),
                json!([{"n": 3}, {"n": 4}]),
                vec!["artifacts[2][1].n: may be at most 3"],
            ),
            (json!({"const": 1}), json!(2), vec!["artifacts[2]: has to be 1"]),
            (json!({"minLength": 2}), json!("x"), vec!["artifacts[2]: has to have at least 2 characters"]),
            (
                json!({"maxLength": 2}),
                json!("xyz"),
                vec!["artifacts[2]: may have at most 2 characters, and has 3"],
            ),
            (
                json!({"maxItems": 1}),
                json!([1, 2]),
                vec!["artifacts[2]: may have at most 1 items, and has 2"],
            ),
            (json!({"pattern": "^a$"}), json!("b"), vec!["artifacts[2]: has to match the pattern ^a$"]),
            (json!({"not": {}}), json!(1), vec!["artifacts[2]: breaks the rule `not` of the contract"]),
            (level.clone(), json!({}), vec!["artifacts[2].level: is missing"]),
            (level, json!(4), vec!["artifacts[2]: has to be a string or an object, and is a number"]),
            (
                json!({"type": ["integer", "null"]}),
                json!("x"),
                vec!["artifacts[2]: has to be null or a whole number, and is a string"],
            ),
        ];
        for (schema, artifact, expected) in cases {
            assert_eq!(issues(&schema, &artifact), expected, "{schema}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, bytes, expected) in
            [("abc", 3, "abc"), ("abcdef", 5, "ab…"), ("ééé", 5, "é…"), ("ééé", 2, ""), ("", 0, "")]
        {
            assert_eq!(fit(text, bytes), expected, "{text} in {bytes}");
        }
        assert_eq!(clipped("a\nb", 9), "a b");
    }
}
