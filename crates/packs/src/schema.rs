//! JSON Schemas from packs.
//!
//! A schema from a pack is untrusted. Nothing is fetched, patterns take linear time, and references are local and
//! acyclic: a validator would follow a cycle until the stack overflows.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

/// The maximum size of a compact schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// The maximum nesting depth of a schema.
pub const MAX_SCHEMA_DEPTH: usize = 48;

/// Compiles an author's schema.
///
/// # Errors
/// What is wrong with the schema.
pub(crate) fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    if !canon::json::within_depth(schema, MAX_SCHEMA_DEPTH) {
        return Err(format!("is a schema nested deeper than {MAX_SCHEMA_DEPTH} levels"));
    }
    reject_cycles(schema)?;
    jsonschema::draft202012::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .map_err(|error| {
            format!("is not a valid JSON Schema (2020-12): {}", crate::name::shown(&error.to_string()))
        })
}

/// Checks that every reference is `#/$defs/<name>` and that definitions are acyclic.
fn reject_cycles(schema: &Value) -> Result<(), String> {
    let mut uses: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        uses.insert(name, references(definition)?);
    }
    // The rest of the document may use definitions; nothing can refer to it.
    for used in references_outside_definitions(schema)? {
        if !uses.contains_key(used) {
            return Err(format!(
                "is a schema that refers to the missing `#/$defs/{}`",
                crate::name::shown(used)
            ));
        }
    }
    // A definition is settled if all its references are; what remains is a cycle.
    let mut settled: HashSet<&str> = HashSet::new();
    loop {
        let before = settled.len();
        for (name, used) in &uses {
            if let Some(missing) = used.iter().find(|name| !uses.contains_key(*name)) {
                return Err(format!(
                    "is a schema that refers to the missing `#/$defs/{}`",
                    crate::name::shown(missing)
                ));
            }
            if used.iter().all(|name| settled.contains(name)) {
                settled.insert(name);
            }
        }
        if settled.len() == uses.len() {
            return Ok(());
        }
        if settled.len() == before {
            return Err("is a schema whose definitions form a cycle".to_owned());
        }
    }
}

fn references(value: &Value) -> Result<HashSet<&str>, String> {
    let mut found = HashSet::new();
    collect(value, false, &mut found)?;
    Ok(found)
}

fn references_outside_definitions(schema: &Value) -> Result<HashSet<&str>, String> {
    let mut found = HashSet::new();
    collect(schema, true, &mut found)?;
    Ok(found)
}

fn collect<'v>(value: &'v Value, skip_definitions: bool, found: &mut HashSet<&'v str>) -> Result<(), String> {
    let mut waiting = vec![(value, skip_definitions)];
    while let Some((value, at_root)) = waiting.pop() {
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, false))),
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("$ref", Value::String(target)) => {
                            let local = target
                                .strip_prefix("#/$defs/")
                                .filter(|name| !name.contains(['/', '~', '%']));
                            found.insert(local.ok_or_else(|| {
                                format!(
                                    "is a schema that refers to `{}`; only `#/$defs/<name>` is supported",
                                    crate::name::shown(target)
                                )
                            })?);
                        }
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(
                                "is a schema with a dynamic reference, which is not supported".to_owned()
                            );
                        }
                        // Another base would change the meaning of `#`.
                        ("$id" | "$anchor" | "$dynamicAnchor", Value::String(_)) if !at_root => {
                            return Err("is a schema with a nested id or anchor".to_owned());
                        }
                        ("$defs", _) if at_root => {}
                        _ => waiting.push((value, false)),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first violation: its JSON Pointer and the rule.
pub(crate) fn first_violation(validator: &jsonschema::Validator, value: &Value) -> Option<(String, String)> {
    let error = validator.iter_errors(value).next()?;
    // The validator's message quotes the value, which may be long or secret.
    Some((error.instance_path().to_string(), format!("violates the schema at {}", error.schema_path())))
}
