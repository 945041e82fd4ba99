//! Prompt templates in packs and their rendering.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::{Problems, PromptTemplate};

/// The maximum size of a rendered prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 1 << 20;

canon::error_codes! {
    /// Why a prompt cannot be rendered.
    pub enum PromptErrorCode {
        /// A required variable has no value.
        VariableUnresolved => "prompt_variable_unresolved",
        /// The template is invalid or the prompt too large.
        TemplateInvalid => "prompt_template_invalid",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PromptError {
    pub code: PromptErrorCode,
    pub message: String,
    /// The variable, if the error is about one.
    pub variable: Option<String>,
}

/// Reads one template from a pack or a request.
///
/// # Errors
/// Every problem, with JSON Pointers.
pub fn read(value: &Value) -> Result<PromptTemplate, Problems> {
    use serde::Deserialize as _;

    use crate::manifest::problem::Pointer;
    let mut problems = Problems::default();
    crate::manifest::prompt::check_template(value, &Pointer::Root, &mut problems);
    if problems.is_empty() {
        match PromptTemplate::deserialize(value) {
            Ok(template) => return Ok(template),
            Err(error) => problems.invalid(&Pointer::Root, crate::name::shown(&error.to_string())),
        }
    }
    Err(problems)
}

/// Replaces `{{name}}` with values literally; inserted text is not searched again. A declared variable without a value
/// gets its default; otherwise it is empty, or an error if required. Undeclared placeholders are unchanged.
///
/// # Errors
/// `prompt_variable_unresolved` for the first required variable without a value; `prompt_template_invalid` if the
/// prompt exceeds [`MAX_PROMPT_BYTES`].
pub fn render(template: &PromptTemplate, values: &BTreeMap<String, Value>) -> Result<String, PromptError> {
    let mut words = BTreeMap::new();
    for variable in &template.variables {
        let value = values.get(&variable.name).or(variable.default_value.as_ref());
        let text = match value {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None if variable.required => {
                return Err(PromptError {
                    code: PromptErrorCode::VariableUnresolved,
                    message: format!(
                        "the variable `{}` of `{}` has no value",
                        variable.name, template.template_id
                    ),
                    variable: Some(variable.name.clone()),
                });
            }
            None => String::new(),
        };
        words.insert(variable.name.as_str(), text);
    }
    let mut prompt = String::with_capacity(template.text.len());
    let mut rest = template.text.as_str();
    while let Some(opening) = rest.find("{{") {
        let (before, after) = rest.split_at(opening);
        prompt.push_str(before);
        // Reads only the length of a name, so a text of braces takes linear time.
        let name = after[2..].find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let token = name.and_then(|end| Some((&after[2..2 + end], after[2 + end..].strip_prefix("}}")?)));
        match token.and_then(|(name, behind)| Some((name, words.get(name)?, behind))) {
            Some((name, text, behind)) => {
                prompt.push_str(text);
                rest = behind;
                if prompt.len() > MAX_PROMPT_BYTES {
                    return Err(PromptError {
                        code: PromptErrorCode::TemplateInvalid,
                        message: format!("with `{name}` the prompt exceeds {MAX_PROMPT_BYTES} bytes"),
                        variable: Some(name.to_owned()),
                    });
                }
            }
            None => {
                prompt.push_str("{{");
                rest = &after[2..];
            }
        }
    }
    prompt.push_str(rest);
    Ok(prompt)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inserts_values_literally() {
        let template = read(&json!({
            "templateId": "t", "version": "1.0.0", "kind": "user", "text": "{{a}} {{b}} {{c}} {{d}} {{ a }} {{{a}} {{",
            "variables": [
                {"name": "a", "type": "string", "required": true},
                {"name": "b", "type": "number", "required": false, "defaultValue": 7},
                {"name": "c", "type": "string", "required": false},
            ],
        }))
        .unwrap();
        let values = BTreeMap::from([("a".to_owned(), json!("{{b}}"))]);
        assert_eq!(render(&template, &values).unwrap(), "{{b}} 7  {{d}} {{ a }} {{{a}} {{");
        let refused = render(&template, &BTreeMap::new()).unwrap_err();
        assert_eq!(
            (refused.code, refused.variable.as_deref()),
            (PromptErrorCode::VariableUnresolved, Some("a"))
        );
    }

    #[test]
    fn prompt_size_is_limited() {
        let text = "{{a}}".repeat(1000);
        let template = read(&json!({
            "templateId": "t", "version": "1.0.0", "kind": "user", "text": text,
            "variables": [{"name": "a", "type": "string", "required": true}],
        }))
        .unwrap();
        let values = BTreeMap::from([("a".to_owned(), json!("x".repeat(100_000)))]);
        assert_eq!(render(&template, &values).unwrap_err().code, PromptErrorCode::TemplateInvalid);
    }

    #[test]
    fn problems_have_positions() {
        let refused =
            read(&json!({"templateId": "T", "version": "1.0.0", "kind": "user", "text": ""})).unwrap_err();
        assert_eq!(refused.list()[0].pointer, "/templateId");
    }
}
