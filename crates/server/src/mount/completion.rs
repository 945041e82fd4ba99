//! `completion/complete`: the values that an author declared for an argument of a prompt.

use runs::exposed::Exposed;
use serde_json::{Map, Value, json};

use super::message::RpcError;

/// The maximum number of values in one answer, as the protocol requires.
const MOST: usize = 100;

/// The values of an argument that start with the given prefix.
pub(super) fn complete(exposed: &Exposed, params: &Map<String, Value>) -> Result<Value, RpcError> {
    let text = |of: &str, name: &str| params.get(of).and_then(|of| of.get(name)).and_then(Value::as_str);
    let argument = text("argument", "name").zip(text("argument", "value"));
    let Some((argument, typed)) = argument else {
        return Err(RpcError::invalid("`argument` must be an object with `name` and `value`, both strings"));
    };
    let found = match text("ref", "type") {
        Some("ref/prompt") => {
            let prompt = text("ref", "name").and_then(|name| exposed.prompts.get(name));
            let prompt = prompt.ok_or_else(RpcError::no_prompt)?;
            let declared = prompt.config.get("arguments").and_then(Value::as_array).into_iter().flatten();
            let mut named = declared.filter(|declared| declared["name"] == argument);
            let named = named.next().ok_or_else(|| RpcError::invalid("the prompt has no such argument"))?;
            named["values"].as_array().cloned().unwrap_or_default()
        }
        // The values of a URI template's variables are not declared.
        Some("ref/resource") => match text("ref", "uri") {
            Some(uri) if exposed.templates.contains_key(uri) => Vec::new(),
            _ => return Err(RpcError::no_resource()),
        },
        _ => return Err(RpcError::invalid("`ref.type` must be `ref/prompt` or `ref/resource`")),
    };
    let typed = typed.to_lowercase();
    let begins = |value: &Value| value.as_str().is_some_and(|value| value.to_lowercase().starts_with(&typed));
    let mut values: Vec<Value> = found.into_iter().filter(begins).collect();
    let total = values.len();
    values.truncate(MOST);
    Ok(json!({"completion": {"values": values, "total": total, "hasMore": total > MOST}}))
}
