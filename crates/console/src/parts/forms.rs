//! Form fields from a JSON Schema, and values from submitted fields.
//!
//! Simple types get a matching control; everything else is edited as JSON. The engine validates the
//! submitted value; the form only helps to enter it.

use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use serde_json::{Map, Number, Value};

use crate::call::Fields;

const MAX_FIELDS: usize = 60;
const MAX_CHOICES: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Choice,
    YesNo,
    Number,
    Text,
    Json,
}

fn control(schema: &Value) -> Control {
    if schema.get("enum").is_some_and(Value::is_array) {
        return Control::Choice;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => Control::YesNo,
        Some("number" | "integer") => Control::Number,
        Some("string") => Control::Text,
        _ => Control::Json,
    }
}

/// The controls for a value of a schema, under a field name.
pub(crate) fn fields(name: &str, schema: &Value) -> Markup {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) if schema.get("enum").is_none() => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required =
                |member: &str| required.is_some_and(|list| list.iter().any(|known| known == member));
            html! { @for (member, schema) in properties.iter().take(MAX_FIELDS) {
                (field(&format!("{name}.{member}"), title(member, schema), schema, is_required(member)))
            } }
        }
        _ => field(name, title("Answer", schema), schema, true),
    }
}

pub(crate) fn field(name: &str, label: &str, schema: &Value, required: bool) -> Markup {
    let text = |member: &str| schema.get(member).and_then(Value::as_str);
    let default = schema.get("default");
    let value = default.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let id = format!("f-{name}");
    let hint = format!("{id}-hint");
    let described = text("description").map(|_| hint.as_str());
    html! {
        label for=(id) { (label) @if !required { " " span.muted { "(optional)" } } }
        @match control(schema) {
            Control::Choice => select id=(id) name=(name) required[required] aria-describedby=[described] {
                option value="" { "Choose" }
                @for (place, choice) in choices(schema).iter().enumerate() {
                    option value=(place) selected[default == Some(choice)] { (super::json_line(choice)) }
                }
            },
            Control::YesNo => select id=(id) name=(name) required[required] aria-describedby=[described] {
                option value="" { "Choose" }
                option value="true" selected[default == Some(&Value::Bool(true))] { "Yes" }
                option value="false" selected[default == Some(&Value::Bool(false))] { "No" }
            },
            Control::Number => input id=(id) name=(name) type="number" step="any" required[required] value=[value] aria-describedby=[described];,
            Control::Text if text("format").is_none() && !is_long(schema) =>
                textarea id=(id) name=(name) required[required] rows="2" aria-describedby=[described] { (value.unwrap_or_default()) },
            Control::Text => input id=(id) name=(name) required[required] value=[value] aria-describedby=[described];,
            Control::Json => textarea id=(id) name=(name) required[required] spellcheck="false" placeholder="JSON" aria-describedby=[described] { (value.unwrap_or_default()) },
        }
        @if let Some(text) = text("description") { p.hint id=(hint) { (text) } }
    }
}

/// Whether a string field needs a multi-line control.
fn is_long(schema: &Value) -> bool {
    schema.get("maxLength").and_then(Value::as_u64).is_some_and(|most| most <= 80)
}

fn title<'s>(name: &'s str, schema: &'s Value) -> &'s str {
    schema.get("title").and_then(Value::as_str).unwrap_or(name)
}

fn choices(schema: &Value) -> &[Value] {
    let list = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    &list[..list.len().min(MAX_CHOICES)]
}

/// The value submitted for a schema, under a field name.
///
/// # Errors
/// If a number, a choice or JSON is invalid.
pub(crate) fn filled(name: &str, schema: &Value, form: &Fields) -> Result<Value, Refusal> {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) if schema.get("enum").is_none() => {
            let mut members = Map::new();
            for (member, schema) in properties.iter().take(MAX_FIELDS) {
                if let Some(value) = one(&format!("{name}.{member}"), member, schema, form)? {
                    members.insert(member.clone(), value);
                }
            }
            Ok(Value::Object(members))
        }
        _ => Ok(one(name, "the answer", schema, form)?.unwrap_or(Value::Null)),
    }
}

/// The value of one control; `None` if it was left empty.
pub(crate) fn one(name: &str, label: &str, schema: &Value, form: &Fields) -> Result<Option<Value>, Refusal> {
    let Some(text) = form.text(name) else { return Ok(None) };
    let wrong = |what: &str| {
        let message = format!("`{label}` must be {what}. Go back to correct it; your input is still there.");
        Refusal::new(ApiCode::ValidationError, message).detail("field", label)
    };
    let value = match control(schema) {
        Control::Choice => {
            let place = text.parse::<usize>().ok();
            place
                .and_then(|place| choices(schema).get(place))
                .cloned()
                .ok_or_else(|| wrong("one of the choices"))?
        }
        Control::YesNo => Value::Bool(text == "true"),
        Control::Number => {
            let number: Option<Number> = serde_json::from_str(text).ok();
            Value::Number(number.ok_or_else(|| wrong("a number"))?)
        }
        Control::Text => Value::String(form.raw(name).unwrap_or_default().replace("\r\n", "\n")),
        Control::Json => json(text).ok_or_else(|| wrong("valid JSON"))?,
    };
    Ok(Some(value))
}

/// JSON input. Text that is not valid JSON is taken as a string, because that is what people mean
/// by it.
pub(crate) fn json(text: &str) -> Option<Value> {
    let read = canon::json::read(text.as_bytes(), &canon::json::Limits::default());
    match read {
        Ok(value) => Some(value),
        Err(_) if !text.starts_with(['{', '[', '"']) => Some(text.into()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_become_values_of_the_schema() {
        let schema = json!({"type": "object", "required": ["ok"], "properties": {
            "ok": {"type": "boolean"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
            "colour": {"enum": ["red", 2, null]}, "note": {"type": "string"}, "rest": {}, "left": {"type": "string"},
        }});
        let sent = b"a.ok=true&a.count=3&a.ratio=0.5&a.colour=1&a.note=two%0D%0Alines&a.rest=%7B%22x%22%3A1%7D&a.left=";
        let filled = filled("a", &schema, &Fields::read(sent)).unwrap();
        let expected = json!({"ok": true, "count": 3, "ratio": 0.5, "colour": 2, "note": "two\nlines", "rest": {"x": 1}});
        assert_eq!(filled, expected);
    }

    #[test]
    fn invalid_fields_are_rejected_by_label() {
        let cases = [
            ("number", json!({"type": "number"}), "x"),
            ("choice", json!({"enum": [1]}), "7"),
            ("json", json!({}), "{broken"),
        ];
        for (name, schema, text) in cases {
            let form = Fields::read(format!("a={text}").as_bytes());
            let refusal = one("a", name, &schema, &form).unwrap_err();
            assert!(refusal.message.contains(name), "{refusal}");
        }
    }

    #[test]
    fn schema_text_is_escaped() {
        let hostile = "\"><script>alert(1)</script>";
        let schema = json!({"properties": {hostile: {"title": hostile, "description": hostile, "default": hostile, "enum": [hostile]}}});
        assert!(!fields("a", &schema).0.contains("<script"));
        assert!(
            !field("a", hostile, &json!({"type": "string", "default": hostile, "format": "x"}), true)
                .0
                .contains("<script")
        );
    }
}
