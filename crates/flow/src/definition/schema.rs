//! Schemas of authors: for options, channels and answers.
//!
//! A schema may contain references to parts of itself, but no recursion: validating a value could then take arbitrarily long, or overflow
//! the stack. The size with all references expanded is limited too, because a few definitions that each refer to the next one twice
//! expand exponentially.

use std::collections::HashMap;

use serde_json::Value;

use super::pattern::MAX_TEXT_BYTES;

/// The maximum number of parts of a schema with all references expanded.
const MAX_PARTS: usize = 20_000;
/// The maximum nesting of a schema with all references expanded.
const MAX_DEPTH: usize = 128;

/// Compiles a schema of an author. The validator fetches nothing, and its patterns take linear time.
pub(crate) fn compiled(schema: &Value) -> Result<jsonschema::Validator, String> {
    References { root: schema, known: HashMap::new() }.part(schema, 0)?;
    jsonschema::draft202012::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .map_err(|error| format!("invalid JSON Schema (2020-12): {error}"))
}

/// Measures a schema with all references expanded.
struct References<'s> {
    root: &'s Value,
    /// The size of the target of each reference; `None` while the reference is being followed.
    known: HashMap<&'s str, Option<Size>>,
}

#[derive(Clone, Copy)]
struct Size {
    parts: usize,
    levels: usize,
}

impl<'s> References<'s> {
    fn part(&mut self, value: &'s Value, depth: usize) -> Result<Size, String> {
        let mut size = Size { parts: 1, levels: 0 };
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let below = match (name.as_str(), member) {
                        ("$ref", Value::String(reference)) => self.follow(reference, depth + 1)?,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(format!("`{name}` is not supported; inline what it refers to"));
                        }
                        ("pattern", Value::String(pattern)) if pattern.len() > MAX_TEXT_BYTES => {
                            let length = pattern.len();
                            return Err(format!(
                                "a pattern has {length} bytes; the limit is {MAX_TEXT_BYTES}"
                            ));
                        }
                        // A nested `$id` would change the meaning of the references inside.
                        ("$id", Value::String(_)) if depth > 0 => {
                            return Err("`$id` is allowed only at the top level of a schema".to_owned());
                        }
                        _ => self.part(member, depth + 1)?,
                    };
                    size.add(below, depth)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    size.add(self.part(item, depth + 1)?, depth)?;
                }
            }
            _ => {}
        }
        Ok(size)
    }

    fn follow(&mut self, reference: &'s str, depth: usize) -> Result<Size, String> {
        match self.known.get(reference) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(recursive()),
            None => {}
        }
        let target = match reference.strip_prefix('#') {
            Some("") => return Err(recursive()),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(pointer),
            _ => None,
        };
        let shown: String = reference.chars().take(100).collect();
        let target = target.ok_or_else(|| {
            format!("`$ref` does not refer to a part of this schema: `{shown}`; use the form `#/$defs/name`")
        })?;
        too_deep(depth)?;
        self.known.insert(reference, None);
        let size = self.part(target, depth)?;
        self.known.insert(reference, Some(size));
        Ok(size)
    }
}

impl Size {
    /// Adds the size of a part that is one level below a part at `depth`.
    fn add(&mut self, below: Self, depth: usize) -> Result<(), String> {
        self.parts = self.parts.saturating_add(below.parts);
        self.levels = self.levels.max(below.levels + 1);
        if self.parts > MAX_PARTS {
            return Err(format!("the schema has more than {MAX_PARTS} parts with its references expanded"));
        }
        too_deep(depth + self.levels)
    }
}

fn too_deep(depth: usize) -> Result<(), String> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(format!("the schema is nested deeper than {MAX_DEPTH} levels with its references expanded"))
}

fn recursive() -> String {
    "the schema is recursive: a `$ref` refers to a part that contains it".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn references_to_parts_of_the_schema_are_accepted() {
        let schema = json!({
            "$id": "https://example.test/s", "type": "object", "$defs": {"name": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/name"}, "b": {"$ref": "#/$defs/name"}, "$ref": {"type": "string"}},
        });
        let validator = compiled(&schema).unwrap();
        assert!(validator.is_valid(&json!({"a": "x", "$ref": "y"})) && !validator.is_valid(&json!({"b": 1})));
    }

    #[test]
    fn recursive_and_external_references_are_refused() {
        let cases = [
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
            json!({"properties": {"next": {"$ref": "#"}}}),
            json!({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
            json!({"properties": {"default": {"$ref": "#/properties"}}}),
            json!({"$dynamicRef": "#x"}),
            json!({"$recursiveRef": "#"}),
            json!({"$anchor": "x", "allOf": [{"$ref": "#x"}]}),
            json!({"$ref": "https://example.test/other"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"properties": {"a": {"$id": "https://example.test/b", "$ref": "#"}}}),
        ];
        for schema in cases {
            compiled(&schema).expect_err(&schema.to_string());
        }
    }

    #[test]
    fn schemas_that_expand_too_much_are_refused() {
        // Each definition refers to the next one twice, so the expanded schema does not fit into memory.
        let mut definitions = Map::new();
        for index in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
            definitions.insert(format!("d{index}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let refused = compiled(&json!({"$defs": definitions, "$ref": "#/$defs/d0"})).unwrap_err();
        assert!(refused.contains("20000 parts"), "{refused}");
        // Each definition refers to the next one once, so the expanded schema is deeply nested.
        let chain = |length: usize| {
            let mut definitions = Map::new();
            for index in 0..length {
                definitions.insert(format!("d{index}"), json!({"$ref": format!("#/$defs/d{}", index + 1)}));
            }
            definitions.insert(format!("d{length}"), json!({"type": "string"}));
            json!({"$defs": definitions, "$ref": "#/$defs/d0"})
        };
        assert!(compiled(&chain(5000)).unwrap_err().contains("128 levels"));
        let longest = compiled(&chain(100)).unwrap();
        assert!(longest.is_valid(&json!("x")) && !longest.is_valid(&json!(1)));
    }
}
