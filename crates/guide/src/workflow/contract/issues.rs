//! The issues of an artifact, one line for each violation.

use std::fmt::Write as _;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use crate::record::budgets::{VALIDATION_ISSUE_BYTES, VALIDATION_ITEMS};

/// How many characters of a caller's name a message repeats.
const NAME_CHARACTERS: usize = 64;
/// How many allowed values a line lists.
const LISTED_VALUES: usize = 12;
/// The maximum number of issues that are sorted. The rest is only counted.
const SORTED_ISSUES: usize = 8192;

/// Collects issues within the budgets of a validation.
#[derive(Debug, Default)]
pub(super) struct Issues {
    lines: Vec<String>,
    uncounted: usize,
}

impl Issues {
    /// Adds one issue: its path and the rule.
    pub(super) fn add(&mut self, path: &str, rule: &str) {
        if self.lines.len() >= SORTED_ISSUES {
            self.uncounted += 1;
            return;
        }
        // The rule is more useful than the path, so a path that leaves no room for it is truncated first.
        let rule = fit(rule, VALIDATION_ISSUE_BYTES * 3 / 4);
        let path = fit(path, VALIDATION_ISSUE_BYTES - 2 - rule.len());
        self.lines.push(format!("{path}: {rule}"));
    }

    /// Adds the schema violations of the artifact at an index.
    ///
    /// A rule between fields is in the `allOf` of the schema, with its message as `description`.
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
                    self.add(&format!("{path}{}", member(name)), "is an unknown field");
                }
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.add_nearest_branch(index, error, &path, context);
            }
            kind => self.add(&path, &rule(kind, error.instance())),
        }
    }

    /// Of several alternatives, reports the one that the caller probably meant: the one whose type matches.
    /// If none does, lists the allowed types.
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
        self.add(path, &format!("must be {}, not {}", types.join(" or "), type_of(error.instance())));
    }

    /// The issues in order, without duplicates, within the limit of a validation.
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

/// The message of the rule in `allOf` that an error comes from.
fn described_rule<'s>(schema: &'s Value, location: &Location) -> Option<&'s str> {
    let mut segments = location.into_iter();
    match (segments.next(), segments.next()) {
        (Some(LocationSegment::Property(name)), Some(LocationSegment::Index(index))) if name == "allOf" => {
            schema.get("allOf")?.get(index)?.get("description")?.as_str()
        }
        _ => None,
    }
}

/// A description of a rule. The value itself is not repeated: it may be large, and the caller has it.
fn rule(kind: &ValidationErrorKind, instance: &Value) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind } => format!("must be {}, not {}", type_names(kind), type_of(instance)),
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Enum { options } => format!("must be one of {}", listed(options)),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => {
            format!("has {} characters; the limit is {limit}", length(instance))
        }
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("has {} items; the limit is {limit}", length(instance)),
        Kind::AdditionalItems { limit } => {
            format!("has {} items; the limit is {limit}", length(instance))
        }
        Kind::MinProperties { limit } => format!("must have at least {limit} fields"),
        Kind::MaxProperties { limit } => {
            format!("has {} fields; the limit is {limit}", length(instance))
        }
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::UniqueItems => "must not contain duplicate items".to_owned(),
        other => format!("violates the rule `{}` of the contract", other.keyword()),
    }
}

/// The path of a location in the artifact at an index, in code notation.
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

/// A field in a path: `.name`, or `["a name"]` if it is not an identifier.
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

/// A description of the type of a value.
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

/// The beginning of a text on one line, with an ellipsis if it was truncated.
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

/// A text of at most `bytes` bytes, with an ellipsis if it was truncated.
///
/// The marker of [`canon::budget`] starts a new paragraph, which is not possible in a list item.
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
    fn each_violation_has_its_path_and_rule() {
        let level = json!({"anyOf": [{"type": "string"}, {"type": "object", "required": ["level"]}]});
        let cases = [
            (json!({"type": "object"}), json!([]), vec!["artifacts[2]: must be an object, not a list"]),
            (json!({"required": ["a b"]}), json!({}), vec!["artifacts[2][\"a b\"]: is missing"]),
            (
                json!({"items": {"properties": {"n": {"maximum": 3}}}}),
                json!([{"n": 3}, {"n": 4}]),
                vec!["artifacts[2][1].n: must be at most 3"],
            ),
            (json!({"const": 1}), json!(2), vec!["artifacts[2]: must be 1"]),
            (json!({"minLength": 2}), json!("x"), vec!["artifacts[2]: must have at least 2 characters"]),
            (json!({"maxLength": 2}), json!("xyz"), vec!["artifacts[2]: has 3 characters; the limit is 2"]),
            (json!({"maxItems": 1}), json!([1, 2]), vec!["artifacts[2]: has 2 items; the limit is 1"]),
            (json!({"pattern": "^a$"}), json!("b"), vec!["artifacts[2]: must match the pattern ^a$"]),
            (json!({"not": {}}), json!(1), vec!["artifacts[2]: violates the rule `not` of the contract"]),
            (level.clone(), json!({}), vec!["artifacts[2].level: is missing"]),
            (level, json!(4), vec!["artifacts[2]: must be a string or an object, not a number"]),
            (
                json!({"type": ["integer", "null"]}),
                json!("x"),
                vec!["artifacts[2]: must be null or a whole number, not a string"],
            ),
        ];
        for (schema, artifact, expected) in cases {
            assert_eq!(issues(&schema, &artifact), expected, "{schema}");
        }
    }

    #[test]
    fn texts_are_truncated_between_characters() {
        for (text, bytes, expected) in
            [("abc", 3, "abc"), ("abcdef", 5, "ab…"), ("ééé", 5, "é…"), ("ééé", 2, ""), ("", 0, "")]
        {
            assert_eq!(fit(text, bytes), expected, "{text} in {bytes}");
        }
        assert_eq!(clipped("a\nb", 9), "a b");
    }
}
