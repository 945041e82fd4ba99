//! Templates of prompt packs, and what becomes of them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::{Problems, PromptTemplate};

/// The most bytes of a prompt that is made from a template.
pub const MAX_PROMPT_BYTES: usize = 1 << 20;

canon::error_codes! {
    /// Why no prompt is made.
    pub enum PromptErrorCode {
        /// A variable that is required has no value.
        VariableUnresolved => "prompt_variable_unresolved",
        /// The template breaks a rule, or becomes too large.
        TemplateInvalid => "prompt_template_invalid",
    }
}

/// No prompt was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PromptError {
    /// The code.
    pub code: PromptErrorCode,
    /// What is missing or too large.
    pub message: String,
    /// The variable that it is about.
    pub variable: Option<String>,
}

/// Reads one template, as it stands in a pack or is sent to a host.
///
/// # Errors
/// Everything that is wrong with it, with JSON pointers.
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

/// Puts values in the place of `{{name}}`, literally: what is put in is not looked at again. A declared variable without a value has its
/// default; without one it is nothing, unless it is required. What is not declared stays as it is written.
///
/// # Errors
/// `prompt_variable_unresolved` for the first required variable without a value, `prompt_template_invalid` when the prompt would
/// have more than [`MAX_PROMPT_BYTES`].
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
        // Only as far as a name goes, so that a text of nothing but braces is read once.
        let name = after[2..].find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let token = name.and_then(|end| Some((&after[2..2 + end], after[2 + end..].strip_prefix("}}")?)));
        match token.and_then(|(name, behind)| Some((name, words.get(name)?, behind))) {
            Some((name, text, behind)) => {
                prompt.push_str(text);
                rest = behind;
                if prompt.len() > MAX_PROMPT_BYTES {
                    return Err(PromptError {
                        code: PromptErrorCode::TemplateInvalid,
                        message: format!("with `{name}` the prompt has more than {MAX_PROMPT_BYTES} bytes"),
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
    fn variables_are_put_in_literally() {
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
    fn a_prompt_has_a_bound() {
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
    fn a_template_says_where_it_is_wrong() {
        let refused =
            read(&json!({"templateId": "T", "version": "1.0.0", "kind": "user", "text": ""})).unwrap_err();
        assert_eq!(refused.list()[0].pointer, "/templateId");
    }
}
