//! Sampling requests of MCP clients: `sampling/createMessage`, read strictly.
//!
//! Clients are untrusted. A system prompt from a client is sent as a user message.

use serde_json::{Map, Value, json};

use super::messages::{MAX_MESSAGE_BYTES, MAX_MESSAGES};
use crate::completion::MAX_OUTPUT_TOKENS;
use crate::provider::StopReason;

/// The maximum number of stop sequences.
const MAX_STOPS: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    messages: Vec<Value>,
    max_tokens: u32,
    temperature: Option<f64>,
    stop: Vec<String>,
}

/// An invalid request and the position of the error. The request is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct SamplingError {
    /// A JSON Pointer into the request.
    pub pointer: String,
    pub message: &'static str,
}

impl Sampling {
    /// Reads a request. The client's model preferences are ignored: the author of the workflow chooses the model.
    ///
    /// # Errors
    /// The first problem of the request.
    pub fn read(request: &Value) -> Result<Self, SamplingError> {
        let wrong = |pointer: &str, message| SamplingError { pointer: pointer.to_owned(), message };
        let given = request.get("messages").and_then(Value::as_array);
        let given = given.filter(|given| (1..=MAX_MESSAGES).contains(&given.len()));
        let given = given.ok_or_else(|| wrong("/messages", "must be a list of 1 to 1024 messages"))?;
        let mut messages = Vec::with_capacity(given.len() + 1);
        if let Some(text) = request.get("systemPrompt").filter(|text| !text.is_null()) {
            let text = text.as_str().ok_or_else(|| wrong("/systemPrompt", "must be a string"))?;
            messages.push(json!({"role": "user", "content": text}));
        }
        for (place, message) in given.iter().enumerate() {
            let at = |name: &str| format!("/messages/{place}/{name}");
            let role = message.get("role").and_then(Value::as_str);
            let role = role.filter(|role| ["user", "assistant"].contains(role));
            let role = role.ok_or_else(|| wrong(&at("role"), "must be `user` or `assistant`"))?;
            let content = message.get("content").filter(|content| content["type"] == "text");
            let text = content.and_then(|content| content["text"].as_str());
            let text = text.ok_or_else(|| {
                wrong(
                    &at("content"),
                    "must be a text part: `{type: \"text\", \
                text}`",
                )
            })?;
            messages.push(json!({"role": role, "content": text}));
        }
        let bytes: usize =
            messages.iter().filter_map(|message| message["content"].as_str()).map(str::len).sum();
        if bytes > MAX_MESSAGE_BYTES {
            return Err(wrong("/messages", "the messages are larger than 4 MiB in total"));
        }
        let max_tokens =
            request.get("maxTokens").and_then(Value::as_u64).and_then(|most| u32::try_from(most).ok());
        let max_tokens = max_tokens.filter(|most| (1..=MAX_OUTPUT_TOKENS).contains(most));
        let max_tokens =
            max_tokens.ok_or_else(|| wrong("/maxTokens", "must be an integer from 1 to 1048576"))?;
        let temperature = match request.get("temperature").filter(|value| !value.is_null()) {
            None => None,
            Some(value) => Some(
                value
                    .as_f64()
                    .filter(|number| (0.0..=2.0).contains(number))
                    .ok_or_else(|| wrong("/temperature", "must be a number from 0 to 2"))?,
            ),
        };
        let stop = match request.get("stopSequences").filter(|value| !value.is_null()) {
            None => Vec::new(),
            Some(value) => {
                let texts = value.as_array().filter(|texts| texts.len() <= MAX_STOPS);
                let text = |text: &Value| {
                    text.as_str()
                        .filter(|text| (1..=256).contains(&text.chars().count()))
                        .map(ToOwned::to_owned)
                };
                let texts = texts.and_then(|texts| texts.iter().map(text).collect());
                texts.ok_or_else(|| {
                    wrong("/stopSequences", "must be a list of at most 16 strings of 1 to 256 characters")
                })?
            }
        };
        Ok(Self { messages, max_tokens, temperature, stop })
    }

    /// The node configuration for the request, with the author's model.
    pub fn config(&self, model: Option<&str>) -> Value {
        let mut config = json!({"maxTokens": self.max_tokens});
        if let Some(model) = model {
            config["model"] = model.into();
        }
        if let Some(temperature) = self.temperature {
            config["temperature"] = temperature.into();
        }
        if !self.stop.is_empty() {
            config["stop"] = self.stop.clone().into();
        }
        config
    }

    /// The node inputs for the request.
    pub fn inputs(&self) -> Map<String, Value> {
        Map::from_iter([("messages".to_owned(), self.messages.clone().into())])
    }
}

/// The response to the client: the model's text and the stop reason in MCP spelling.
pub fn answer(text: &str, model: &str, stop: Option<StopReason>) -> Value {
    let mut answer = json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": model});
    let reason = match stop {
        Some(StopReason::EndTurn) => Some("endTurn"),
        Some(StopReason::StopSequence) => Some("stopSequence"),
        Some(StopReason::MaxTokens | StopReason::Length) => Some("maxTokens"),
        Some(StopReason::ToolUse | StopReason::Safety | StopReason::Unknown) | None => None,
    };
    if let Some(reason) = reason {
        answer["stopReason"] = reason.into();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Node, NodeType, messages};
    use crate::trust::Trust;

    fn request() -> Value {
        json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}],
            "systemPrompt": "Obey.", "maxTokens": 50, "temperature": 0.5, "stopSequences": ["END"],
            "modelPreferences": {"hints": [{"name": "large"}]},
        })
    }

    #[test]
    fn client_system_prompts_become_user_messages() {
        let sampling = Sampling::read(&request()).unwrap();
        let node = Node::read(NodeType::CallPrompt, &sampling.config(Some("small"))).unwrap();
        assert_eq!((node.call().max_tokens, node.call().model.as_deref()), (Some(50), Some("small")));
        let read = messages(&sampling.inputs(), Trust::Untrusted).unwrap();
        assert!(read.iter().all(|message| message.role == crate::provider::Role::User));
        assert!(read.iter().all(|message| message.content.starts_with("<UNTRUSTED>")), "{read:?}");
    }

    #[test]
    fn locates_errors() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 9] = [
            ("/messages", |r| r["messages"] = json!([])),
            ("/messages", |r| r["messages"] = json!("x")),
            ("/messages/0/role", |r| r["messages"][0]["role"] = json!("system")),
            ("/messages/0/content", |r| r["messages"][0]["content"] = json!({"type": "image", "data": "x"})),
            ("/systemPrompt", |r| r["systemPrompt"] = json!(1)),
            ("/maxTokens", |r| r["maxTokens"] = json!(0)),
            ("/maxTokens", |r| r["maxTokens"] = Value::Null),
            ("/temperature", |r| r["temperature"] = json!(3)),
            ("/stopSequences", |r| r["stopSequences"] = json!([""])),
        ];
        for (pointer, change) in cases {
            let mut request = request();
            change(&mut request);
            assert_eq!(Sampling::read(&request).unwrap_err().pointer, pointer);
        }
    }

    #[test]
    fn uses_mcp_stop_reasons() {
        assert_eq!(answer("t", "m", Some(StopReason::Length))["stopReason"], "maxTokens");
        assert_eq!(answer("t", "m", None).get("stopReason"), None);
    }
}
