//! Converts the questions of a run to a form that MCP clients can show: one level of strings, numbers,
//! booleans and enums.
//!
//! A question that such a form cannot express becomes a string field: its description says what is expected,
//! and the answer is read as JSON. This module does not validate answers; the run does.

use canon::json::{self, Limits};
use serde_json::{Map, Value, json};

/// The maximum number of questions in a form. A clarification has no more.
const MAX_QUESTIONS: usize = 100;
/// The maximum length of a shown text and of a title, in characters.
const MAX_TEXT_CHARACTERS: usize = 4096;
const MAX_TITLE_CHARACTERS: usize = 200;
/// How many characters of a schema are shown as the expected value.
const MAX_EXPECTED_CHARACTERS: usize = 1000;
/// The maximum number of values of an enum.
const MAX_CHOICES: usize = 200;
/// The string formats that forms support.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];
/// The maximum depth of a value that was entered as JSON.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// The message above the form.
    pub(super) message: String,
    pub(super) schema: Value,
    /// The fields that are entered as JSON.
    written: Vec<String>,
}

impl Form {
    /// The form for questions. All are required, unless `required` lists some. `None` if there is no
    /// question, if one is invalid, or if there are too many.
    pub(super) fn of(about: &str, questions: &Value, required: Option<&Value>) -> Option<Self> {
        let questions =
            questions.as_array().filter(|questions| (1..=MAX_QUESTIONS).contains(&questions.len()))?;
        let (mut properties, mut written, mut ids) = (Map::new(), Vec::new(), Vec::new());
        for question in questions {
            let id = question.get("id").and_then(Value::as_str).filter(|id| !id.is_empty())?;
            let asked = question.get("question").and_then(Value::as_str)?;
            let field = Field::of(question.get("schema"));
            if field.is_written {
                written.push(id.to_owned());
            }
            properties.insert(id.to_owned(), field.shown(asked));
            ids.push(id);
        }
        let message = match questions.as_slice() {
            [only] => short(only["question"].as_str().unwrap_or_default(), MAX_TEXT_CHARACTERS),
            all => format!("{} asks {} questions.", short(about, MAX_TITLE_CHARACTERS), all.len()),
        };
        let required = required.cloned().unwrap_or_else(|| json!(ids));
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Some(Self { message, schema, written })
    }

    /// The answers of a completed form, by question.
    pub(super) fn answers(&self, mut content: Map<String, Value>) -> Map<String, Value> {
        let limits = Limits::default().max_depth(MAX_DEPTH);
        for name in &self.written {
            let Some(field) = content.get_mut(name) else { continue };
            // A string that is not JSON stays unchanged: it may be valid.
            if let Some(read) = field.as_str().and_then(|text| json::read(text.as_bytes(), &limits).ok()) {
                *field = read;
            }
        }
        content
    }
}

struct Field {
    schema: Value,
    /// What the schema of the field cannot express.
    expected: Option<String>,
    is_written: bool,
}

impl Field {
    fn of(schema: Option<&Value>) -> Self {
        let plain = |schema: Value| Self { schema, expected: None, is_written: false };
        let Some(wanted) =
            schema.filter(|schema| schema.as_object().is_some_and(|schema| !schema.is_empty()))
        else {
            return plain(json!({"type": "string"}));
        };
        let known: &[&str] = match wanted.get("type").and_then(Value::as_str) {
            None | Some("string") if wanted.get("enum").is_some() => return Self::choice(wanted),
            Some("string") => &["minLength", "maxLength", "format"],
            Some("number" | "integer") if wanted.get("enum").is_none() => &["minimum", "maximum"],
            Some("boolean") if wanted.get("enum").is_none() => &[],
            _ => return Self::written(wanted),
        };
        let mut field = json!({"type": wanted["type"]});
        let mut says_all = true;
        for (name, value) in wanted.as_object().into_iter().flatten() {
            let says = match name.as_str() {
                "type" | "title" | "description" | "default" | "examples" => true,
                "format" => {
                    known.contains(&"format")
                        && value.as_str().is_some_and(|format| FORMATS.contains(&format))
                }
                "minLength" | "maxLength" => known.contains(&name.as_str()) && value.is_u64(),
                "minimum" | "maximum" => known.contains(&name.as_str()) && value.is_number(),
                _ => false,
            };
            if says && known.contains(&name.as_str()) {
                field[name] = value.clone();
            }
            says_all &= says;
        }
        let expected = (!says_all).then(|| expected(wanted));
        Self { schema: field, expected, is_written: false }
    }

    /// An enum field.
    fn choice(wanted: &Value) -> Self {
        let words = wanted["enum"].as_array().filter(|words| (1..=MAX_CHOICES).contains(&words.len()));
        let is_word = |word: &Value| {
            word.as_str().is_some_and(|word| !word.is_empty() && word.chars().count() <= MAX_TITLE_CHARACTERS)
        };
        match words {
            Some(words) if words.iter().all(is_word) => {
                let schema = json!({"type": "string", "enum": words});
                Self { schema, expected: None, is_written: false }
            }
            // Too many or too long values become a string field.
            _ if wanted["enum"].as_array().is_some_and(|words| words.iter().all(Value::is_string)) => Self {
                schema: json!({"type": "string"}),
                expected: Some(expected(wanted)),
                is_written: false,
            },
            _ => Self::written(wanted),
        }
    }

    /// Any other schema: a string that is read as JSON.
    fn written(wanted: &Value) -> Self {
        let expected = format!("Write it as JSON. {}", expected(wanted));
        Self { schema: json!({"type": "string"}), expected: Some(expected), is_written: true }
    }

    fn shown(self, question: &str) -> Value {
        let Self { schema: mut shown, expected, .. } = self;
        shown["title"] = short(question.lines().next().unwrap_or_default(), MAX_TITLE_CHARACTERS).into();
        let question = short(question, MAX_TEXT_CHARACTERS);
        let description = match expected {
            Some(expected) => format!("{question}\n{expected}"),
            None => question,
        };
        shown["description"] = description.into();
        shown
    }
}

fn expected(schema: &Value) -> String {
    format!("Expected, as JSON Schema: {}", short(&schema.to_string(), MAX_EXPECTED_CHARACTERS))
}

/// A text, truncated for display.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(schema: &Value) -> (Value, bool) {
        let form = Form::of("W", &json!([{"id": "q", "question": "What?", "schema": schema}]), None).unwrap();
        let mut field = form.schema["properties"]["q"].clone();
        assert_eq!(field["title"], "What?");
        let described = field["description"].as_str().unwrap().len() > "What?".len();
        field.as_object_mut().unwrap().retain(|name, _| !["title", "description"].contains(&name.as_str()));
        (field, described)
    }

    #[test]
    fn a_flat_form_describes_what_it_cannot_express() {
        for (schema, shown, described) in [
            (json!({}), json!({"type": "string"}), false),
            (
                json!({"type": "string", "minLength": 1, "maxLength": 9}),
                json!({"type": "string", "minLength": 1, "maxLength": 9}),
                false,
            ),
            (
                json!({"type": "string", "format": "email"}),
                json!({"type": "string", "format": "email"}),
                false,
            ),
            (json!({"type": "string", "format": "uuid"}), json!({"type": "string"}), true),
            (json!({"type": "string", "pattern": "^a"}), json!({"type": "string"}), true),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!({"type": "string", "enum": ["a", "b"]}),
                false,
            ),
            (json!({"enum": ["a", "b"]}), json!({"type": "string", "enum": ["a", "b"]}), false),
            (json!({"enum": [1, "b"]}), json!({"type": "string"}), true),
            (json!({"type": "integer", "minimum": 1}), json!({"type": "integer", "minimum": 1}), false),
            (
                json!({"type": "number", "maximum": 2.5, "exclusiveMinimum": 0}),
                json!({"type": "number", "maximum": 2.5}),
                true,
            ),
            (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "string"}), true),
            (json!({"type": "boolean"}), json!({"type": "boolean"}), false),
            (json!({"type": ["string", "null"]}), json!({"type": "string"}), true),
            (json!({"type": "array", "items": {"type": "string"}}), json!({"type": "string"}), true),
            (json!({"anyOf": [{"type": "string"}]}), json!({"type": "string"}), true),
        ] {
            assert_eq!(field(&schema), (shown, described), "{schema}");
        }
    }

    #[test]
    fn json_answers_are_parsed_and_other_strings_are_kept() {
        let questions = json!([
            {"id": "list", "question": "Which?", "schema": {"type": "array"}},
            {"id": "word", "question": "What?"},
            {"id": "object", "question": "How?", "schema": {"type": "object"}},
        ]);
        let form = Form::of("The workflow", &questions, None).unwrap();
        assert_eq!(form.message, "The workflow asks 3 questions.");
        assert_eq!(form.schema["required"], json!(["list", "word", "object"]));
        let given = json!({"list": "[1, 2]", "word": "[1, 2]", "object": "{\"a\":", "more": 1});
        let answers = form.answers(given.as_object().unwrap().clone());
        let read = json!({"list": [1, 2], "word": "[1, 2]", "object": "{\"a\":", "more": 1});
        assert_eq!(Value::Object(answers), read);
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let answers = form.answers(Map::from_iter([("list".to_owned(), deep.clone().into())]));
        assert_eq!(answers["list"], deep);
    }

    #[test]
    fn invalid_questions_have_no_form() {
        for questions in [
            json!(null),
            json!([]),
            json!({}),
            json!([{"question": "?"}]),
            json!([{"id": "", "question": "?"}]),
            json!([{"id": "a"}]),
            json!(vec![json!({"id": "a", "question": "?"}); MAX_QUESTIONS + 1]),
        ] {
            assert_eq!(Form::of("W", &questions, None), None, "{questions}");
        }
        let long = json!([{"id": "a", "question": "é".repeat(10_000)}]);
        let form = Form::of("W", &long, Some(&json!([]))).unwrap();
        assert!(form.schema.to_string().len() < 20_000);
        assert_eq!(form.schema["required"], json!([]));
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!("string")),
            Just(json!("integer")),
            Just(json!("boolean")),
            Just(json!("array")),
            Just(json!(["a", "b"])),
            Just(json!([1])),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        let name = prop_oneof![
            Just("type"),
            Just("enum"),
            Just("format"),
            Just("minLength"),
            Just("maximum"),
            Just("items"),
            Just("const"),
        ];
        let name = name.prop_map(str::to_owned);
        prop::collection::btree_map(name, leaf, 0..5).prop_map(|members| json!(members))
    }

    proptest! {
        #[test]
        fn every_form_is_flat(schema in schemas(), question in ".*") {
            let form = Form::of("W", &json!([{"id": "q", "question": question, "schema": schema}]), None).unwrap();
            let field = form.schema["properties"]["q"].as_object().unwrap();
            let kind = field["type"].as_str().unwrap();
            prop_assert!(["string", "number", "integer", "boolean"].contains(&kind));
            for (name, value) in field {
                let fits = match name.as_str() {
                    "type" | "title" | "description" => value.is_string(),
                    "format" => kind == "string" && FORMATS.contains(&value.as_str().unwrap()),
                    "minLength" | "maxLength" => kind == "string" && value.is_u64(),
                    "minimum" | "maximum" => ["number", "integer"].contains(&kind) && value.is_number(),
                    "enum" => kind == "string" && value.as_array().unwrap().iter().all(Value::is_string),
                    _ => false,
                };
                prop_assert!(fits, "{name}: {value}");
            }
        }
    }
}
