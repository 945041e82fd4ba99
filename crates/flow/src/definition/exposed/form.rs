//! Forms of MCP clients for people to fill in: one level of strings, numbers, Booleans and choices.

use serde_json::{Map, Value, json};

/// The maximum number of questions of a form.
pub const MAX_QUESTIONS: usize = 50;
/// The maximum length of a displayed text, in characters.
const MAX_TEXT_CHARACTERS: usize = 4096;
/// The context type of the questions. It marks them as coming from an external client.
pub const CONTEXT: &str = "openwop-mcp-elicitation";

/// A validated form: the questions, and the schema of the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The questions of a clarification.
    pub questions: Value,
    /// The schema of the content.
    pub content: Value,
}

impl Form {
    /// Reads the parameters of `elicitation/create`. Only known keywords of the schema are used.
    ///
    /// # Errors
    /// The problem.
    pub fn read(request: &Value) -> Result<Self, String> {
        let message = short(request.get("message"))
            .ok_or("`message` is required and must be a string of 1 to 4096 characters")?;
        let schema = request.get("requestedSchema").ok_or("`requestedSchema` is required")?;
        let known = Map::new();
        let properties = match schema.get("properties") {
            None => &known,
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err("`requestedSchema.properties` must be an object".to_owned()),
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("`requestedSchema.type` must be `object`".to_owned());
        }
        if properties.len() > MAX_QUESTIONS {
            return Err(format!("the form has {} questions; the limit is {MAX_QUESTIONS}", properties.len()));
        }
        let required: Vec<&str> = match schema.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err("`requestedSchema.required` must be a list of names".to_owned()),
        };
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return Err("`requestedSchema.required` names an unknown property".to_owned());
        }
        let (mut questions, mut fields) = (Vec::new(), Map::new());
        for (name, property) in properties {
            if name.is_empty() || name.chars().count() > 128 {
                return Err("the name of a property must have 1 to 128 characters".to_owned());
            }
            let field = field(property).ok_or_else(|| {
                let name: String = name.chars().take(128).collect();
                format!("`{name}` must be a string, number, Boolean or choice; forms cannot be nested")
            })?;
            let title = short(property.get("title")).or_else(|| short(property.get("description")));
            let question = format!("{message}\n{}", title.unwrap_or(name));
            questions.push(json!({"id": name, "question": question, "schema": field}));
            fields.insert(name.clone(), field);
        }
        if questions.is_empty() {
            questions.push(json!({"id": "confirm", "question": message}));
            fields.insert("confirm".to_owned(), json!(true));
        }
        let content = json!({"type": "object", "properties": fields, "required": required, "additionalProperties": false});
        Ok(Self { questions: questions.into(), content })
    }

    /// The schema of an answer: accepted with content, in the form of an elicitation or of a clarification, or declined or cancelled.
    pub fn answer_schema(&self) -> Value {
        json!({"anyOf": [
            {"type": "object", "required": ["answers"], "properties": {"answers": self.content, "action": false}},
            {
                "type": "object", "required": ["action", "content"],
                "properties": {"action": {"const": "accept"}, "content": self.content}
            },
            {"type": "object", "required": ["action"], "properties": {"action": {"enum": ["decline", "cancel"]}}},
        ]})
    }
}

/// The recorded form of a valid answer: the action, and the content if the form was accepted.
pub fn recorded_answer(value: &Value) -> Value {
    let action = value.get("action").and_then(Value::as_str).unwrap_or("accept");
    let content = value.get("content").or_else(|| value.get("answers")).filter(|_| action == "accept");
    let content = content.cloned().unwrap_or_else(|| json!({}));
    json!({"action": action, "content": content, "answers": content})
}

fn short(text: Option<&Value>) -> Option<&str> {
    let text = text.and_then(Value::as_str)?;
    (!text.is_empty() && text.chars().count() <= MAX_TEXT_CHARACTERS).then_some(text)
}

/// The schema of one field, built from known keywords only. The schema of the client is never used directly.
fn field(property: &Value) -> Option<Value> {
    let kind = property.get("type").and_then(Value::as_str)?;
    let mut field = json!({"type": kind});
    let bounds: &[&str] = match kind {
        "string" => &["minLength", "maxLength"],
        "number" | "integer" => &["minimum", "maximum"],
        "boolean" => &[],
        _ => return None,
    };
    for bound in bounds {
        match property.get(*bound) {
            None => {}
            Some(value) if value.as_u64().is_some() || (value.is_number() && kind != "string") => {
                field[*bound] = value.clone();
            }
            Some(_) => return None,
        }
    }
    match property.get("enum") {
        None => {}
        Some(Value::Array(words)) if kind == "string" && (1..=200).contains(&words.len()) => {
            if words.iter().any(|word| short(Some(word)).is_none()) {
                return None;
            }
            field["enum"] = words.clone().into();
        }
        Some(_) => return None,
    }
    if let Some(format) = property.get("format") {
        if kind != "string" || !["email", "uri", "date", "date-time"].contains(&format.as_str()?) {
            return None;
        }
        field["format"] = format.clone();
    }
    Some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value) -> Result<Form, String> {
        Form::read(
            &json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": properties}}),
        )
    }

    #[test]
    fn a_form_has_one_level_and_only_known_keywords() {
        let read = form(&json!({
            "name": {"type": "string", "title": "Your name", "minLength": 1, "pattern": "(a+)+$", "$ref": "http://x"},
            "age": {"type": "integer", "minimum": 0}, "ok": {"type": "boolean"},
            "color": {"type": "string", "enum": ["red", "green"], "enumNames": ["R", "G"]},
        }))
        .unwrap();
        assert_eq!(read.questions[2]["schema"], json!({"type": "string", "minLength": 1}));
        assert_eq!(read.questions[2]["question"], "Who?\nYour name");
        let schema = crate::definition::schema::compiled(&read.answer_schema()).unwrap();
        for (answer, good) in [
            (json!({"action": "accept", "content": {"name": "a", "color": "red"}}), true),
            (json!({"answers": {"name": "a"}}), true),
            (json!({"action": "decline"}), true),
            (json!({"action": "cancel", "content": {}}), true),
            (json!({"action": "accept"}), false),
            (json!({"action": "accept", "content": {"color": "blue"}}), false),
            (json!({"action": "accept", "content": {"other": 1}}), false),
            (json!({"action": "maybe"}), false),
            (json!({}), false),
        ] {
            assert_eq!(schema.is_valid(&answer), good, "{answer}");
        }
        for bad in [
            json!({"a": {"type": "object"}}),
            json!({"a": {"type": "array", "items": {}}}),
            json!({"a": {}}),
            json!({"a": true}),
            json!([]),
            json!({"a": {"type": "string", "format": "regex"}}),
            json!({"a": {"type": "string", "minLength": -1}}),
            json!({"": {"type": "string"}}),
            json!({"a": {"type": "string", "enum": []}}),
            json!({"a": {"type": "boolean", "enum": [true]}}),
        ] {
            assert!(form(&bad).is_err(), "{bad}");
        }
        let many: Map<_, _> =
            (0..=MAX_QUESTIONS).map(|index| (format!("q{index}"), json!({"type": "string"}))).collect();
        assert!(form(&many.into()).is_err());
        assert!(Form::read(&json!({"message": "m"})).is_err());
        assert!(Form::read(&json!({"requestedSchema": {"type": "object"}})).is_err());
    }

    #[test]
    fn an_answer_is_recorded_with_action_and_content() {
        for (answer, recorded) in [
            (
                json!({"answers": {"a": 1}}),
                json!({"action": "accept", "content": {"a": 1}, "answers": {"a": 1}}),
            ),
            (
                json!({"action": "accept", "content": {"a": 1}}),
                json!({"action": "accept", "content": {"a": 1}, "answers": {"a": 1}}),
            ),
            (
                json!({"action": "decline", "content": {"a": 1}}),
                json!({"action": "decline", "content": {}, "answers": {}}),
            ),
        ] {
            assert_eq!(recorded_answer(&answer), recorded);
        }
    }
}
