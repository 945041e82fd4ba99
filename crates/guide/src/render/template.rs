//! `{{name}}` and `{{name.path}}` in titles and prompts.

use serde_json::{Map, Value};

use crate::interpret::value_at;

/// Replaces placeholders in a text with context values. A missing value becomes `[unset: name]`, so that it
/// cannot be mistaken for an empty one. Objects and lists become canonical JSON, and text of several lines
/// becomes a quotation.
pub fn resolve(text: &str, context: &Map<String, Value>) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let name = rest[start + 2..start + length].trim();
        resolved.push_str(&rest[..start]);
        if is_path(name) {
            match value_at(context, name) {
                Some(value) => push_value(&mut resolved, value),
                None => resolved.extend(["[unset: ", name, "]"]),
            }
        } else {
            // Not a placeholder of ours: perhaps an example of another template language.
            resolved.push_str(&rest[start..start + length + 2]);
        }
        rest = &rest[start + length + 2..];
    }
    resolved.push_str(rest);
    resolved
}

fn is_path(name: &str) -> bool {
    !name.is_empty()
        && name.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        })
}

fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => out.push_str(&super::quote::inline(text)),
        other => out.push_str(&canon::canonical::string_of(other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_become_values() {
        let Value::Object(context) = json!({"goal": "ship", "n": 2, "item": {"id": "x", "tags": [1]}, "a.b": "flat", "lines": "a\n---"})
        else {
            unreachable!("an object literal")
        };
        for (text, expected) in [
            ("no names", "no names"),
            ("{{goal}}!", "ship!"),
            ("{{ n }} of {{n}}", "2 of 2"),
            ("{{item.id}} {{item.tags}}", "x [1]"),
            ("{{item}}", r#"{"id":"x","tags":[1]}"#),
            ("{{a.b}}", "flat"),
            ("{{absent}}", "[unset: absent]"),
            ("{{item.id.deeper}}", "[unset: item.id.deeper]"),
            ("{{#if x}}", "{{#if x}}"),
            ("Say: {{lines}}", "Say: \n> a\n> ---\n"),
            ("{{open", "{{open"),
            ("{{}}", "{{}}"),
        ] {
            assert_eq!(resolve(text, &context), expected, "{text}");
        }
    }
}
