//! Author-provided JSON Schemas, bounded before use.
//!
//! A schema is small, has only local references without cycles, and its patterns take linear time. Validating a reply
//! is therefore never expensive.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

/// The maximum number of values in a schema, with references expanded.
pub const MAX_VALUES: usize = 20_000;
/// The maximum nesting depth of a schema.
pub const MAX_DEPTH: usize = 64;
/// The maximum size of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;
/// The maximum number of problems reported for one document.
pub const MAX_ISSUES: usize = 16;
/// The maximum number of problems in a message.
const NAMED_ISSUES: usize = 5;

/// Why a schema is rejected. The schema is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema has more than {MAX_VALUES} values with its references expanded")]
    Values,
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("`{keyword}` of the schema must refer to its own `#/$defs/…`")]
    Reference { keyword: &'static str },
    #[error("a definition of the schema refers to itself")]
    Cycle,
    #[error("not a valid JSON Schema (2020-12): {path:?} violates rule `{keyword}`")]
    Invalid {
        path: String,
        /// The violated rule.
        keyword: String,
    },
}

/// A problem of a document: position and rule. Only member names in the path come from the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub instance_path: String,
    pub schema_path: String,
    /// The violated rule.
    pub keyword: String,
    /// The missing member for the rule `required`: a name from the schema.
    pub missing: Option<String>,
}

/// A validated and compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    source: Value,
    validator: Validator,
}

impl Schema {
    /// Validates and compiles a schema.
    ///
    /// # Errors
    /// The schema is too large, too deep or invalid, or has cyclic or non-local references.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        check(schema)?;
        // `$id` would change the meaning of `#`, and nothing is fetched from it.
        let mut source = schema.clone();
        if let Some(members) = source.as_object_mut() {
            members.remove("$id");
        }
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
            .build(&source)
            .map_err(|error| SchemaError::Invalid {
                path: clipped(error.instance_path().as_str()),
                keyword: error.kind().keyword().to_owned(),
            })?;
        Ok(Self { source, validator })
    }

    /// The original schema without its `$id`.
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// Whether a document is valid.
    pub fn is_valid(&self, document: &Value) -> bool {
        self.validator.is_valid(document)
    }

    /// The problems of a document, at most [`MAX_ISSUES`].
    pub fn issues(&self, document: &Value) -> Vec<Issue> {
        let errors = self.validator.iter_errors(document).take(MAX_ISSUES);
        let issue = |error: jsonschema::ValidationError<'_>| Issue {
            instance_path: error.instance_path().as_str().to_owned(),
            schema_path: error.schema_path().as_str().to_owned(),
            keyword: error.kind().keyword().to_owned(),
            missing: match error.kind() {
                ValidationErrorKind::Required { property } => property.as_str().map(ToOwned::to_owned),
                _ => None,
            },
        };
        errors.map(issue).collect()
    }
}

/// The problems in one line: schema paths and rules, nothing from the document.
pub fn summary(issues: &[Issue]) -> String {
    let mut text = String::new();
    for issue in issues.iter().take(NAMED_ISSUES) {
        let separator = if text.is_empty() { "" } else { "; " };
        let path = clipped(&issue.schema_path);
        // Writing to a string cannot fail.
        let _ = match &issue.missing {
            Some(name) => write!(text, "{separator}`{}` is required ({path})", clipped(name)),
            None => write!(text, "{separator}rule `{}` is violated ({path})", issue.keyword),
        };
    }
    if issues.len() > NAMED_ISSUES {
        let _ = write!(text, "; and {} more", issues.len() - NAMED_ISSUES);
    }
    text
}

fn clipped(text: &str) -> String {
    const LONGEST: usize = 120;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Checks size, depth and references.
fn check(schema: &Value) -> Result<(), SchemaError> {
    if !canon::json::within_depth(schema, MAX_DEPTH) {
        return Err(SchemaError::Depth);
    }
    let mut definitions = BTreeMap::new();
    for home in ["$defs", "definitions"] {
        let entries = schema.get(home).and_then(Value::as_object);
        for (name, definition) in entries.into_iter().flatten() {
            definitions.insert(format!("#/{home}/{}", escaped(name)), definition);
        }
    }
    // The root without the definitions, which count where they are referenced.
    let mut sizes = BTreeMap::new();
    let mut total = 0_usize;
    let root = schema.as_object();
    let inline =
        root.into_iter().flatten().filter(|(name, _)| !matches!(name.as_str(), "$defs" | "definitions"));
    for (name, value) in inline {
        let parts = Parts::of(name, value)?;
        total = total.saturating_add(parts.values);
        for reference in parts.references {
            total = total.saturating_add(size(reference, &definitions, &mut sizes, 0)?);
        }
    }
    for reference in definitions.keys() {
        // Unused definitions are compiled too.
        size(reference, &definitions, &mut sizes, 0)?;
    }
    let definitions: usize =
        definitions.values().map(|value| Parts::of("", value).map_or(0, |parts| parts.values)).sum();
    if total.saturating_add(definitions) > MAX_VALUES { Err(SchemaError::Values) } else { Ok(()) }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The number of values behind a reference. Definitions refer to others at most [`MAX_DEPTH`] deep.
fn size<'s>(
    reference: &'s str,
    definitions: &BTreeMap<String, &'s Value>,
    known: &mut BTreeMap<&'s str, Option<usize>>,
    depth: usize,
) -> Result<usize, SchemaError> {
    match known.get(reference) {
        Some(Some(size)) => return Ok(*size),
        Some(None) => return Err(SchemaError::Cycle),
        None if depth > MAX_DEPTH => return Err(SchemaError::Depth),
        None => {}
    }
    let Some(definition) = definitions.get(reference) else {
        return Err(SchemaError::Reference { keyword: "$ref" });
    };
    known.insert(reference, None);
    let parts = Parts::of("", definition)?;
    let mut total = parts.values;
    for inner in parts.references {
        total = total.saturating_add(size(inner, definitions, known, depth + 1)?);
    }
    if total > MAX_VALUES {
        return Err(SchemaError::Values);
    }
    known.insert(reference, Some(total));
    Ok(total)
}

/// The values and references in a part of a schema.
struct Parts<'s> {
    values: usize,
    references: Vec<&'s str>,
}

impl<'s> Parts<'s> {
    fn of(name: &'s str, value: &'s Value) -> Result<Self, SchemaError> {
        let mut parts = Self { values: 0, references: Vec::new() };
        parts.member(name, value)?;
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            parts.values += 1;
            if parts.values > MAX_VALUES {
                return Err(SchemaError::Values);
            }
            match value {
                Value::Object(members) => {
                    parts.members(members)?;
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        Ok(parts)
    }

    fn members(&mut self, members: &'s Map<String, Value>) -> Result<(), SchemaError> {
        members.iter().try_for_each(|(name, value)| self.member(name, value))
    }

    fn member(&mut self, name: &str, value: &'s Value) -> Result<(), SchemaError> {
        match (name, value) {
            // `properties` may have a member named `$ref`; its value is not a string.
            ("$ref", Value::String(reference)) => {
                let own = reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/");
                if !own || reference.splitn(4, '/').count() > 3 {
                    return Err(SchemaError::Reference { keyword: "$ref" });
                }
                self.references.push(reference);
            }
            ("$dynamicRef", Value::String(_)) => {
                return Err(SchemaError::Reference { keyword: "$dynamicRef" });
            }
            ("$recursiveRef", Value::String(_)) => {
                return Err(SchemaError::Reference { keyword: "$recursiveRef" });
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_unsafe_schemas() {
        let doubling: Map<String, Value> = (0..30)
            .map(|n| (format!("d{n}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]})))
            .chain([("d30".to_owned(), json!({"type": "string"}))])
            .collect();
        let mut deep = json!({});
        for _ in 0..MAX_DEPTH {
            deep = json!({"not": deep});
        }
        let cases = [
            (
                "elsewhere",
                json!({"$ref": "https://example.test/x"}),
                SchemaError::Reference { keyword: "$ref" },
            ),
            (
                "the root",
                json!({"properties": {"a": {"$ref": "#"}}}),
                SchemaError::Reference { keyword: "$ref" },
            ),
            ("nothing", json!({"$ref": "#/$defs/a"}), SchemaError::Reference { keyword: "$ref" }),
            (
                "itself",
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
                SchemaError::Cycle,
            ),
            (
                "in a ring",
                json!({"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}),
                SchemaError::Cycle,
            ),
            ("two to the thirty", json!({"$ref": "#/$defs/d0", "$defs": doubling}), SchemaError::Values),
            ("deep", deep, SchemaError::Depth),
            ("dynamic", json!({"$dynamicRef": "#x"}), SchemaError::Reference { keyword: "$dynamicRef" }),
        ];
        for (name, schema, expected) in cases {
            assert_eq!(Schema::compile(&schema).err(), Some(expected), "{name}");
        }
        assert!(matches!(Schema::compile(&json!({"type": 7})), Err(SchemaError::Invalid { .. })));
    }

    #[test]
    fn summary_does_not_quote_the_document() {
        let schema = Schema::compile(&json!({
            "$id": "https://example.test/a", "$defs": {"t": {"type": "string"}},
            "type": "object", "required": ["steps"], "properties": {"a": {"$ref": "#/$defs/t"}}, "additionalProperties": false
        }))
        .unwrap();
        let issues = schema.issues(&json!({"a": 1, "SECRET-NAME": "SECRET-VALUE"}));
        let text = summary(&issues);
        assert!(text.contains("`steps` is required"), "{text}");
        assert!(!text.contains("SECRET"), "{text}");
        assert!(!schema.is_valid(&json!({"a": "x", "steps": 1})));
    }
}
