//! Substitutes `{{params.x}}`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{MAX_EXPANDED_DEPTH, MAX_SUBSTITUTED_BYTES};
use crate::error::{PackError, PackErrorCode};

const OPENING: &str = "{{params.";
const CLOSING: &str = "}}";

/// The parameters and the size substituted so far.
pub(super) struct Substitution<'p> {
    values: &'p Map<String, Value>,
    put_in: usize,
}

impl<'p> Substitution<'p> {
    pub(super) fn new(values: &'p Map<String, Value>) -> Self {
        Self { values, put_in: 0 }
    }

    /// Replaces every token in strings at any depth. Member names are unchanged.
    pub(super) fn apply(&mut self, members: &Map<String, Value>) -> Result<Map<String, Value>, PackError> {
        let mut result = Map::new();
        for (name, value) in members {
            result.insert(name.clone(), self.value(value, 1)?);
        }
        Ok(result)
    }

    /// The recursion is bounded by the strict reader's depth limit.
    fn value(&mut self, value: &Value, depth: usize) -> Result<Value, PackError> {
        Ok(match value {
            Value::String(text) => self.text(text, depth)?,
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.value(value, depth + 1)?)))
                    .collect::<Result<_, PackError>>()?,
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn text(&mut self, text: &str, depth: usize) -> Result<Value, PackError> {
        let Some((before, name, after)) = next_token(text) else { return Ok(Value::String(text.to_owned())) };
        if before.is_empty() && after.is_empty() {
            // Exactly one token: the typed value itself.
            let Some(value) = self.values.get(name) else { return Ok(Value::String(String::new())) };
            self.count(size(value), name)?;
            if !canon::json::within_depth(value, MAX_EXPANDED_DEPTH.saturating_sub(depth)) {
                return Err(too_much(name, "would be nested too deeply at its position"));
            }
            return Ok(value.clone());
        }
        let mut result = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = next_token(rest) {
            result.push_str(before);
            // A missing parameter is empty.
            if let Some(value) = self.values.get(name) {
                let words = words(value);
                self.count(words.len(), name)?;
                result.push_str(&words);
            }
            rest = after;
        }
        result.push_str(rest);
        Ok(Value::String(result))
    }

    fn count(&mut self, bytes: usize, name: &str) -> Result<(), PackError> {
        self.put_in = self.put_in.saturating_add(bytes);
        if self.put_in > MAX_SUBSTITUTED_BYTES {
            return Err(too_much(
                name,
                &format!("would exceed {MAX_SUBSTITUTED_BYTES} bytes of substituted text"),
            ));
        }
        Ok(())
    }
}

fn too_much(name: &str, message: &str) -> PackError {
    PackError::new(PackErrorCode::ChainParameterInvalid, format!("the parameter `{name}` {message}"))
        .detail("path", format!("/{name}"))
}

/// The text before the next token, its name, and the text after it. Substituted text is not searched again.
fn next_token(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let opening = from + text[from..].find(OPENING)?;
        let name_start = opening + OPENING.len();
        let name_length = text[name_start..]
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
            .unwrap_or(text.len() - name_start);
        let name = &text[name_start..name_start + name_length];
        let rest = &text[name_start + name_length..];
        if crate::manifest::grammar::variable(name)
            && let Some(after) = rest.strip_prefix(CLOSING)
        {
            return Some((&text[..opening], name, after));
        }
        from = name_start;
    }
}

/// A value as part of a string.
fn words(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// The approximate serialized size of a value.
fn size(value: &Value) -> usize {
    let mut waiting = vec![value];
    let mut bytes = 0_usize;
    while let Some(value) = waiting.pop() {
        bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                waiting.extend(items);
                items.len() + 2
            }
            Value::Object(members) => {
                waiting.extend(members.values());
                members.keys().map(|name| name.len() + 4).sum::<usize>() + 2
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(text: &str, values: &Value) -> Value {
        let Value::Object(values) = values else { panic!("the parameters are an object") };
        Substitution::new(values).text(text, 1).unwrap()
    }

    #[test]
    fn a_single_token_keeps_its_type() {
        let values = json!({
            "n": 3, "t": "x", "b": true, "z": null, "o": {"a": [1, "{{params.n}}"]}, "l": [1, 2], "_u1": 1.5,
            "self": "{{params.self}}",
        });
        for (text, expected) in [
            ("{{params.n}}", json!(3)),
            ("{{params.t}}", json!("x")),
            ("{{params.b}}", json!(true)),
            ("{{params.z}}", json!(null)),
            // Substituted text is not searched again.
            ("{{params.o}}", json!({"a": [1, "{{params.n}}"]})),
            ("{{params.self}}!", json!("{{params.self}}!")),
            ("{{params.l}}", json!([1, 2])),
            ("{{params._u1}}", json!(1.5)),
            ("{{params.missing}}", json!("")),
            ("a{{params.n}}b{{params.t}}c", json!("a3bxc")),
            ("{{params.n}}{{params.n}}", json!("33")),
            (" {{params.n}}", json!(" 3")),
            ("[{{params.missing}}]", json!("[]")),
            ("<{{params.o}}>", json!("<{\"a\":[1,\"{{params.n}}\"]}>")),
            // Not a token.
            ("{{ params.n }}", json!("{{ params.n }}")),
            ("{{params.9x}}", json!("{{params.9x}}")),
            ("{{params.}}", json!("{{params.}}")),
            ("{{params.a.b}}", json!("{{params.a.b}}")),
            ("{{params.n}", json!("{{params.n}")),
            ("{{params.{{params.n}}", json!("{{params.3")),
            ("{{inputs.n}}", json!("{{inputs.n}}")),
        ] {
            assert_eq!(put(text, &values), expected, "{text}");
        }
    }

    #[test]
    fn substitution_is_limited() {
        let values = json!({"t": "x".repeat(1 << 20)});
        let Value::Object(values) = values else { unreachable!() };
        let members = json!({"many": vec!["{{params.t}}"; 5]});
        let refused = Substitution::new(&values).apply(members.as_object().unwrap()).unwrap_err();
        assert_eq!(refused.code(), PackErrorCode::ChainParameterInvalid);
    }
}
