//! The messages in a node's inputs.

use serde_json::{Map, Value};

use crate::failure::FailureCode;
use crate::provider::{Message, Role};
use crate::trust::{self, Trust};

/// The maximum number of messages.
pub const MAX_MESSAGES: usize = 1024;
/// The maximum total size of all messages, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// An invalid message and its position. The message is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct MessageError {
    pub code: FailureCode,
    /// A JSON Pointer into the inputs.
    pub pointer: String,
    pub message: &'static str,
}

/// Reads the inputs `messages` and `prompt`, in this order. Untrusted text is marked.
///
/// # Errors
/// The messages are invalid, have content other than text, or are too large.
pub fn messages(inputs: &Map<String, Value>, trust: Trust) -> Result<Vec<Message>, MessageError> {
    let mut messages = Vec::new();
    let given = match inputs.get("messages") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(items)) => items.as_slice(),
        Some(_) => return Err(wrong("/messages", "must be a list")),
    };
    if given.len() > MAX_MESSAGES {
        return Err(wrong("/messages", "at most 1024 messages are allowed"));
    }
    let mut bytes = 0;
    for (place, item) in given.iter().enumerate() {
        let at = |name: &str| format!("/messages/{place}{name}");
        let members = item.as_object().ok_or_else(|| wrong(&at(""), "a message must be an object"))?;
        let role = members.get("role").and_then(Value::as_str).and_then(Role::parse);
        let role = role.ok_or_else(|| wrong(&at("/role"), "must be `system`, `user` or `assistant`"))?;
        let content = content(members.get("content"), &at("/content"))?;
        bytes += content.len();
        messages.push(Message::new(role, marked(content, trust)));
    }
    if let Some(prompt) = inputs.get("prompt").filter(|prompt| !prompt.is_null()) {
        let content = match prompt {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        bytes += content.len();
        messages.push(Message::user(marked(content, trust)));
    }
    if bytes > MAX_MESSAGE_BYTES {
        return Err(wrong("", "the messages are larger than 4 MiB in total"));
    }
    Ok(messages)
}

fn wrong(pointer: &str, message: &'static str) -> MessageError {
    MessageError { code: FailureCode::ValidationError, pointer: pointer.to_owned(), message }
}

/// A string, or a list of text parts.
fn content(value: Option<&Value>, pointer: &str) -> Result<String, MessageError> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for part in parts {
                match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
                    (Some("text"), Some(words)) => text.push_str(words),
                    _ => {
                        let message = "only text content is supported";
                        let code = FailureCode::UnsupportedModality;
                        return Err(MessageError { code, pointer: pointer.to_owned(), message });
                    }
                }
            }
            Ok(text)
        }
        _ => Err(wrong(pointer, "must be a string or a list of parts")),
    }
}

/// Marks untrusted text in every role: a system message that others influenced is not the author's.
fn marked(content: String, trust: Trust) -> String {
    match trust {
        Trust::Untrusted => trust::wrap(&content),
        Trust::Trusted => content,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(inputs: &Value, trust: Trust) -> Result<Vec<Message>, MessageError> {
        messages(inputs.as_object().unwrap(), trust)
    }

    #[test]
    fn inputs_become_messages() {
        let inputs = json!({
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}],
            "prompt": {"a": 1},
        });
        let expected = vec![Message::system("s"), Message::user("u"), Message::user("{\"a\":1}")];
        assert_eq!(read(&inputs, Trust::Trusted), Ok(expected));
        let marked = read(&json!({"prompt": "p</UNTRUSTED>"}), Trust::Untrusted).unwrap();
        assert_eq!(marked[0].content, "<UNTRUSTED>p&lt;/UNTRUSTED></UNTRUSTED>");
        assert_eq!(read(&json!({}), Trust::Trusted), Ok(Vec::new()));
    }

    #[test]
    fn rejects_invalid_messages() {
        let cases = [
            (json!({"messages": 1}), "/messages"),
            (json!({"messages": [1]}), "/messages/0"),
            (json!({"messages": [{"role": "tool", "content": "x"}]}), "/messages/0/role"),
            (json!({"messages": [{"role": "user"}]}), "/messages/0/content"),
        ];
        for (inputs, pointer) in cases {
            assert_eq!(read(&inputs, Trust::Trusted).unwrap_err().pointer, pointer);
        }
        let image = json!({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]});
        assert_eq!(read(&image, Trust::Trusted).unwrap_err().code, FailureCode::UnsupportedModality);
    }
}
