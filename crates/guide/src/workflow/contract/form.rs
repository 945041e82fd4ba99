//! The form of an artifact: the example of a contract with a placeholder in place of each value.
//!
//! A caller may send back whatever a reply shows. The values of an example would then be recorded as if the caller
//! had found them, so replies show the form, and [`check`](super::check) rejects each of its placeholders. The
//! example stays in the contract unchanged, because compiled workflows contain it and their hashes cover it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::workflow::compiled::ContractPack;

/// The maximum length of a placeholder that repeats a description, in bytes. Longer ones use the field's name.
const DESCRIPTION_BYTES: usize = 64;

/// The example of a contract with placeholders for its values.
pub fn form(pack: &ContractPack) -> Value {
    form_of(&pack.schema, &pack.example)
}

/// `example` with placeholders for its values. Values that the schema fixes stay.
pub(super) fn form_of(schema: &Value, example: &Value) -> Value {
    let Value::Object(members) = example else { return blank(schema, example, "value") };
    let blanks = members.iter().map(|(name, value)| {
        let value =
            if name == "kind" { value.clone() } else { blank(&schema["properties"][name], value, name) };
        (name.clone(), value)
    });
    Value::Object(blanks.collect::<Map<_, _>>())
}

fn blank(schema: &Value, example: &Value, name: &str) -> Value {
    if schema.get("const").is_some() {
        return example.clone();
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let allowed: Vec<String> =
            allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
        return Value::String(format!("<{}>", allowed.join(" | ")));
    }
    match example {
        Value::Object(members) => {
            let blanks = members
                .iter()
                .map(|(name, value)| (name.clone(), blank(&schema["properties"][name], value, name)));
            Value::Object(blanks.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| blank(&schema["items"], item, name)).collect(),
        // The example of an assessment has placeholders already.
        Value::String(text) if text.starts_with('<') && text.ends_with('>') => example.clone(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            Value::String(format!("<{}>", description(schema).unwrap_or_else(|| words(name))))
        }
    }
}

/// The description of a field as the text of a placeholder, if it is short.
fn description(schema: &Value) -> Option<String> {
    let text = schema.get("description")?.as_str()?.trim_end_matches('.');
    let mut letters = text.chars();
    let first = letters.next()?.to_lowercase();
    (text.len() <= DESCRIPTION_BYTES).then(|| first.chain(letters).collect())
}

/// A field name as words: `keyDecisions` becomes `key decisions`.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The paths of the strings in an artifact that are still placeholders of the form.
pub(super) fn placeholders_left(pack: &ContractPack, artifact: &Value) -> Vec<String> {
    let mut offered = BTreeSet::new();
    let form = form(pack);
    strings(&form, "", &mut |_, text| {
        if text.starts_with('<') {
            offered.insert(text.to_owned());
        }
    });
    let mut left = Vec::new();
    strings(artifact, "", &mut |path, text| {
        if offered.contains(text.trim()) {
            left.push(path.to_owned());
        }
    });
    left
}

/// Visits every string within a value, with its path.
fn strings(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                strings(item, &format!("{path}[{index}]"), visit);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                strings(member, &format!("{path}.{name}"), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ContractVerdict, check, pasteable};
    use super::*;
    use crate::workflow::registry;

    /// Bug 4 (finding B5): what a reply shows is not accepted as content, neither whole nor in part.
    #[test]
    fn no_part_of_an_offered_form_is_accepted() {
        for pack in registry::contracts() {
            let name = &pack.contract_ref;
            for offered in [form(pack), serde_json::from_str(&pasteable(pack, 900).unwrap()).unwrap()] {
                let verdict = check(pack, std::slice::from_ref(&offered));
                assert!(matches!(verdict, ContractVerdict::Invalid { .. }), "{name}: {offered}");
            }
            // The example with one of its values replaced by the placeholder.
            let mut paths = Vec::new();
            strings(&form(pack), "", &mut |path, text| {
                if text.starts_with('<') {
                    paths.push(format!("/{}", path[1..].replace(['.', '['], "/").replace(']', "")));
                }
            });
            assert!(!paths.is_empty(), "{name}");
            for path in paths {
                let mut artifact = pack.example.clone();
                let Some(blank) = form(pack).pointer(&path).cloned() else { panic!("{name}: {path}") };
                *artifact.pointer_mut(&path).unwrap() = blank;
                let ContractVerdict::Invalid { issues } = check(pack, &[artifact]) else {
                    panic!("{name}: the placeholder of {path} was accepted")
                };
                assert!(!issues.is_empty(), "{name}: {path}");
            }
        }
    }

    #[test]
    fn a_form_says_what_each_value_is() {
        let review = registry::contract("wr.contracts.review_verdict").unwrap();
        assert_eq!(
            form(review),
            json!({"kind": "wr.review_verdict", "verdict": "<clean | minor | blocking>",
                "confidence": "<high | medium | low>", "summary": "<what was reviewed, how, and the result>",
                "findings": [{"severity": "<critical | major | minor | nit>",
                    "summary": "<what is wrong and what it leads to, with file and line>",
                    "findingCategory":
                        "<correctness | security | architecture | ux | performance | testing | style>"}]})
        );
        let control = registry::contract("wr.contracts.loop_control").unwrap();
        assert_eq!(form(control)["decision"], "<continue | stop>");
        assert_eq!(form(control)["metadata"]["issuesFound"], "<how many problems this pass found>");
    }
}
