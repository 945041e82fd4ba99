//! The semantic cache key of a model request.
//!
//! SHA-256 of the canonical JSON of every field that affects the reply, computed with the recipe [`RECIPE`]. Fields
//! that only affect how the reply is delivered, such as streaming, are ignored.

use canon::digest::Digest;
use serde_json::{Map, Value};

/// The name of the recipe. It is part of the hashed document.
pub const RECIPE: &str = "openwop-semantic-request-v2";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheKeyError {
    #[error("`{0}` is missing or invalid")]
    InvalidArgument(&'static str),
    #[error("the request has no canonical JSON form")]
    NotCanonical,
}

impl CacheKeyError {
    /// The wire code.
    pub const fn code(&self) -> &'static str {
        "invalid_argument"
    }
}

/// Returns the cache key of a request: 64 hexadecimal digits.
///
/// # Errors
/// `provider`, `model` or `messages` is missing or invalid, or the request has no canonical form.
pub fn cache_key(request: &Value) -> Result<String, CacheKeyError> {
    let semantic = project(request)?;
    Digest::of_canonical(&semantic).map(Digest::to_hex).map_err(|_| CacheKeyError::NotCanonical)
}

/// Keeps only the fields that affect the reply.
fn project(raw: &Value) -> Result<Value, CacheKeyError> {
    let text = |name: &'static str| {
        let given = raw.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        given.map(Value::from).ok_or(CacheKeyError::InvalidArgument(name))
    };
    let messages = raw.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|messages| messages.iter().all(Value::is_object));
    let messages = messages.ok_or(CacheKeyError::InvalidArgument("messages"))?;
    let mut request = Map::new();
    request.insert("messages".to_owned(), messages.clone().into());
    if let Some(tools) = raw.get("tools").and_then(Value::as_array).filter(|tools| !tools.is_empty()) {
        let mut named = Vec::with_capacity(tools.len());
        for tool in tools {
            let name =
                tool.get("name").and_then(Value::as_str).ok_or(CacheKeyError::InvalidArgument("tools"))?;
            named.push((name.encode_utf16().collect::<Vec<u16>>(), tool.clone()));
        }
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        request.insert("tools".to_owned(), named.into_iter().map(|(_, tool)| tool).collect());
    }
    let mut keep = |name: &str, fits: fn(&Value) -> bool| {
        if let Some(value) = raw.get(name).filter(|value| fits(value)) {
            request.insert(name.to_owned(), value.clone());
        }
    };
    for name in ["temperature", "topP", "topK", "maxOutputTokens", "seed"] {
        keep(name, Value::is_number);
    }
    keep("stop", Value::is_array);
    keep("responseFormat", |value| value.is_object() || value.is_array());
    keep("safetySettings", |value| value.is_object() || value.is_array());
    let mut semantic = Map::new();
    semantic.insert("recipe".to_owned(), RECIPE.into());
    semantic.insert("provider".to_owned(), text("provider")?);
    semantic.insert("model".to_owned(), text("model")?);
    semantic.insert("request".to_owned(), Value::Object(request));
    if let Some(options) =
        raw.get("providerOptions").filter(|options| options.is_object() || options.is_array())
    {
        semantic.insert("providerOptions".to_owned(), options.clone());
    }
    Ok(Value::Object(semantic))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn base() -> Value {
        json!({"provider": "openai", "model": "gpt-4", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5})
    }

    fn with(name: &str, value: Value) -> String {
        let mut request = base();
        request[name] = value;
        cache_key(&request).unwrap()
    }

    #[test]
    fn matches_the_reference_digest() {
        let text = r#"{"model":"gpt-4","provider":"openai","recipe":"openwop-semantic-request-v2","request":{"messages":[{"content":"hi","role":"user"}],"temperature":0.5}}"#;
        assert_eq!(cache_key(&base()).unwrap(), Digest::of_bytes(text.as_bytes()).to_hex());
    }

    #[test]
    fn delivery_options_do_not_change_the_key() {
        let key = cache_key(&base()).unwrap();
        for name in ["stream", "metadata", "user", "x-request-id", "traceparent", "tenantId", "timeoutMs"] {
            assert_eq!(with(name, json!("x")), key, "{name}");
        }
        let deciding = [
            ("temperature", json!(1.0)),
            ("seed", json!(42)),
            ("stop", json!(["STOP"])),
            ("maxOutputTokens", json!(100)),
            ("providerOptions", json!({"a": 1})),
            ("responseFormat", json!({"type": "json"})),
        ];
        for (name, value) in deciding {
            assert_ne!(with(name, value), key, "{name}");
        }
        let tools = |names: [&str; 2]| with("tools", json!([{"name": names[0]}, {"name": names[1]}]));
        assert_eq!(tools(["a", "b"]), tools(["b", "a"]));
    }

    #[test]
    fn rejects_incomplete_requests() {
        for name in ["provider", "model", "messages"] {
            let mut request = base();
            request.as_object_mut().unwrap().remove(name);
            assert_eq!(cache_key(&request), Err(CacheKeyError::InvalidArgument(name)));
        }
        assert_eq!(cache_key(&json!(null)), Err(CacheKeyError::InvalidArgument("messages")));
    }
}
