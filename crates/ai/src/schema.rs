//! Schemas that authors write, bounded before they are used.
//!
//! A schema is small, refers only to its own definitions, and never to itself; patterns take linear time. So no schema
//! that was accepted makes judging a reply expensive.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

/// The most values of a schema, each reference counted as what it leads to.
pub const MAX_VALUES: usize = 20_000;
/// The deepest nesting of a schema.
pub const MAX_DEPTH: usize = 64;
/// The most a compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;
/// The most problems that are told of one document.
pub const MAX_ISSUES: usize = 16;
/// The most problems that a message names.
const NAMED_ISSUES: usize = 5;

/// Why a schema is not used. The message does not repeat what is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Too many values.
    #[error("the schema has more than {MAX_VALUES} values, its references followed")]
    Values,
    /// Too deep.
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    Depth,
    /// A reference to somewhere else.
    #[error("the schema uses `{keyword}` to something other than its own `#/$defs/…`")]
    Reference {
        /// The keyword.
        keyword: &'static str,
    },
    /// A reference that leads back to itself.
    #[error("a definition of the schema leads back to itself")]
    Cycle,
    /// It is no JSON Schema.
    #[error("the schema is no JSON Schema of 2020-12, at {path:?} (rule `{keyword}`)")]
    Invalid {
        /// Where.
        path: String,
        /// The rule that it breaks.
        keyword: String,
    },
}

/// A problem of a document. It says where and which rule, and nothing of what is there, except for names in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where in the document.
    pub instance_path: String,
    /// Where in the schema.
    pub schema_path: String,
    /// The rule that is broken.
    pub keyword: String,
    /// What is missing, for the rule `required`: a name from the schema.
    pub missing: Option<String>,
}

/// A schema that was checked and compiled.
#[derive(Clone, Debug)]
pub struct Schema {
    source: Value,
    validator: Validator,
}

impl Schema {
    /// Checks and compiles a schema.
    ///
    /// # Errors
    /// It is too large or too deep, refers to something other than its own definitions or to itself, or is no schema.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        check(schema)?;
        // An author's `$id` names a place from which nothing is fetched, and would change what `#` means.
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

    /// The schema as the author wrote it, without its `$id`.
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// Whether a document fits.
    pub fn is_valid(&self, document: &Value) -> bool {
        self.validator.is_valid(document)
    }

    /// The problems of a document, at most [`MAX_ISSUES`] of them.
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

/// Problems as one line that repeats nothing of the document: places in the schema and rules.
pub fn summary(issues: &[Issue]) -> String {
    let mut text = String::new();
    for issue in issues.iter().take(NAMED_ISSUES) {
        let separator = if text.is_empty() { "" } else { "; " };
        let path = clipped(&issue.schema_path);
        // Writing to a text cannot fail.
        let _ = match &issue.missing {
            Some(name) => write!(text, "{separator}`{}` is missing ({path})", clipped(name)),
            None => write!(text, "{separator}rule `{}` is not met ({path})", issue.keyword),
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

/// Bounds, and references to own definitions only.
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
    // What stands at the root, without the definitions: they count where they are referred to.
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
        // A definition that nobody refers to is compiled all the same.
        size(reference, &definitions, &mut sizes, 0)?;
    }
    let definitions: usize =
        definitions.values().map(|value| Parts::of("", value).map_or(0, |parts| parts.values)).sum();
    if total.saturating_add(definitions) > MAX_VALUES { Err(SchemaError::Values) } else { Ok(()) }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// How many values a reference stands for. Definitions lead to others at most [`MAX_DEPTH`] deep.
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

/// The values below a part of a schema, and the references in it.
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
            // `properties` may well have a member of the name `$ref`; then its value is no text.
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
    fn schemas_that_are_refused() {
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
    fn a_summary_repeats_nothing_of_the_document() {
        let schema = Schema::compile(&json!({
            "$id": "https://example.test/a", "$defs": {"t": {"type": "string"}},
            "type": "object", "required": ["steps"], "properties": {"a": {"$ref": "#/$defs/t"}}, "additionalProperties": false
        }))
        .unwrap();
        let issues = schema.issues(&json!({"a": 1, "SECRET-NAME": "SECRET-VALUE"}));
        let text = summary(&issues);
        assert!(text.contains("`steps` is missing"), "{text}");
        assert!(!text.contains("SECRET"), "{text}");
        assert!(!schema.is_valid(&json!({"a": "x", "steps": 1})));
    }
}
