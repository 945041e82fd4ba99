//! Schemas that authors write: of options, of channels, of answers.
//!
//! A schema may refer to parts of itself, and never so that it leads back to where it was: judging a value would then take as long as
//! somebody likes, or more stack than there is. What it would be with every reference written out is bounded, too, because a few lines
//! that refer to each other twice can stand for more than can be looked at.

use std::collections::HashMap;

use serde_json::Value;

use super::pattern::MAX_TEXT_BYTES;

/// The most parts of a schema, each reference counted as what it leads to.
const MAX_PARTS: usize = 20_000;
/// The deepest nesting of a schema, references followed.
const MAX_DEPTH: usize = 128;

/// A validator of a schema that an author wrote. Nothing is fetched, and patterns take linear time.
pub(crate) fn compiled(schema: &Value) -> Result<jsonschema::Validator, String> {
    Walk { root: schema, known: HashMap::new() }.part(schema, 0)?;
    jsonschema::draft202012::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .map_err(|error| format!("no JSON Schema of 2020-12: {error}"))
}

/// A look at a schema with its references followed.
struct Walk<'s> {
    root: &'s Value,
    /// What each reference leads to; nothing for those that are being followed.
    known: HashMap<&'s str, Option<Size>>,
}

#[derive(Clone, Copy)]
struct Size {
    parts: usize,
    levels: usize,
}

impl<'s> Walk<'s> {
    fn part(&mut self, value: &'s Value, depth: usize) -> Result<Size, String> {
        let mut size = Size { parts: 1, levels: 0 };
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let below = match (name.as_str(), member) {
                        ("$ref", Value::String(reference)) => self.follow(reference, depth + 1)?,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(format!("`{name}` is not served: write out what it would name"));
                        }
                        ("pattern", Value::String(pattern)) if pattern.len() > MAX_TEXT_BYTES => {
                            let length = pattern.len();
                            return Err(format!(
                                "a pattern has {length} bytes; the limit is {MAX_TEXT_BYTES}"
                            ));
                        }
                        // It would change what the references below it mean.
                        ("$id", Value::String(_)) if depth > 0 => {
                            return Err("`$id` stands at the top of a schema, or not at all".to_owned());
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
            Some(None) => return Err(in_a_circle()),
            None => {}
        }
        let target = match reference.strip_prefix('#') {
            Some("") => return Err(in_a_circle()),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(pointer),
            _ => None,
        };
        let shown: String = reference.chars().take(100).collect();
        let target = target.ok_or_else(|| {
            format!("`$ref` leads to no part of this schema: `{shown}`; write it as `#/$defs/name`")
        })?;
        too_deep(depth)?;
        self.known.insert(reference, None);
        let size = self.part(target, depth)?;
        self.known.insert(reference, Some(size));
        Ok(size)
    }
}

impl Size {
    /// Adds a part one level below a part at a depth.
    fn add(&mut self, below: Self, depth: usize) -> Result<(), String> {
        self.parts = self.parts.saturating_add(below.parts);
        self.levels = self.levels.max(below.levels + 1);
        if self.parts > MAX_PARTS {
            return Err(format!("the schema has more than {MAX_PARTS} parts, its references followed"));
        }
        too_deep(depth + self.levels)
    }
}

fn too_deep(depth: usize) -> Result<(), String> {
    if depth <= MAX_DEPTH {
        return Ok(());
    }
    Err(format!("the schema is nested deeper than {MAX_DEPTH} levels, its references followed"))
}

fn in_a_circle() -> String {
    "a reference of the schema leads back to where it stands; a schema has to come to an end".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn schemas_that_refer_to_parts_of_themselves_are_taken() {
        let schema = json!({
            "$id": "https://example.test/s", "type": "object", "$defs": {"name": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/name"}, "b": {"$ref": "#/$defs/name"}, "$ref": {"type": "string"}},
        });
        let validator = compiled(&schema).unwrap();
        assert!(validator.is_valid(&json!({"a": "x", "$ref": "y"})) && !validator.is_valid(&json!({"b": 1})));
    }

    #[test]
    fn schemas_without_an_end_are_refused_before_they_are_used() {
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
    fn a_few_lines_that_stand_for_too_much_are_refused() {
        // Each refers to the next twice: written out it is larger than any memory.
        let mut definitions = Map::new();
        for place in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", place + 1)});
            definitions.insert(format!("d{place}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let refused = compiled(&json!({"$defs": definitions, "$ref": "#/$defs/d0"})).unwrap_err();
        assert!(refused.contains("20000 parts"), "{refused}");
        // And each refers to the next once: a long way down.
        let chain = |length: usize| {
            let mut definitions = Map::new();
            for place in 0..length {
                definitions.insert(format!("d{place}"), json!({"$ref": format!("#/$defs/d{}", place + 1)}));
            }
            definitions.insert(format!("d{length}"), json!({"type": "string"}));
            json!({"$defs": definitions, "$ref": "#/$defs/d0"})
        };
        assert!(compiled(&chain(5000)).unwrap_err().contains("128 levels"));
        let longest = compiled(&chain(100)).unwrap();
        assert!(longest.is_valid(&json!("x")) && !longest.is_valid(&json!(1)));
    }
}
