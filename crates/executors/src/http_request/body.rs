//! Request bodies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow::definition::config::{HttpBody, HttpRequestConfig};
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::Value;

use super::Outgoing;

/// Adds the body and its content type, unless the author set one.
pub(super) fn add(
    config: &HttpRequestConfig,
    input: Option<&Value>,
    outgoing: &mut Outgoing,
) -> Result<(), RunError> {
    let kind = match (config.body, input) {
        (Some(kind), _) => kind,
        (None, Some(_)) if !config.method.is_safe() => HttpBody::Json,
        (None, _) => HttpBody::None,
    };
    let (bytes, media) = match (kind, input) {
        (HttpBody::None, _) => return Ok(()),
        (_, None) => {
            return Err(invalid(
                "the node sends a body, but has no input `body`; add it, or set `body` to `none`",
            ));
        }
        (HttpBody::Json, Some(value)) => (value.to_string().into_bytes(), "application/json"),
        (HttpBody::Form, Some(value)) => (form(value)?.into_bytes(), "application/x-www-form-urlencoded"),
        (HttpBody::Text, Some(Value::String(text))) => {
            (text.clone().into_bytes(), "text/plain; charset=utf-8")
        }
        (HttpBody::Text, Some(_)) => return Err(invalid("the input `body` must be a string")),
        (HttpBody::Base64, Some(value)) => {
            let decoded = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            let bytes = decoded.ok_or_else(|| invalid("the input `body` must be a string in Base64"))?;
            (bytes, "application/octet-stream")
        }
    };
    outgoing.body = bytes;
    if !outgoing.headers.iter().any(|(name, _)| name == "content-type") {
        outgoing.headers.push(("content-type".to_owned(), media.to_owned()));
    }
    Ok(())
}

fn form(value: &Value) -> Result<String, RunError> {
    let wanted = "the input `body` of a form must be an object of strings, numbers and booleans";
    let members = value.as_object().ok_or_else(|| invalid(wanted))?;
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in members {
        match value {
            Value::String(text) => form.append_pair(name, text),
            Value::Number(_) | Value::Bool(_) => form.append_pair(name, &value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err(invalid(wanted)),
        };
    }
    Ok(form.finish())
}

fn invalid(message: &str) -> RunError {
    RunError::of(FailureCode::ValidationError, message)
}
