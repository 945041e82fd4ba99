//! Mocks that a test run selects with `configurable.mockProvider`.

use serde_json::{Map, Value, json};

use crate::provider::{Reply, StopReason, Usage};
use crate::wire_enum::wire_enum;

/// The maximum number of chunks.
const MAX_TOKENS: usize = 4096;
/// The maximum size of a reply, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The maximum delay, in milliseconds.
const MAX_WAIT_MS: u64 = 5000;

wire_enum! {
    /// The available mocks.
    pub enum MockId {
        StreamText => "stream-text",
        ToolCalls => "tool-calls",
        Error => "error",
        /// Only usage counters.
        UsageOnly => "usage-only",
    }
}

/// Why a mock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamMockError {
    #[error("unknown mock provider; use `stream-text`, `tool-calls`, `error` or `usage-only`")]
    Unknown,
    /// The configuration is invalid.
    #[error("{pointer}: {message}")]
    Config {
        /// A JSON Pointer.
        pointer: String,
        message: &'static str,
    },
}

/// The reply of a mock and its timing.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamMock {
    pub id: MockId,
    /// The text chunks, in order.
    pub tokens: Vec<String>,
    /// The delay per chunk, in milliseconds.
    pub delay_ms_per_token: u64,
    /// The complete reply; `None` if the mock fails.
    pub reply: Option<Reply>,
    /// The requested tool calls, as configured.
    pub tool_calls: Vec<Value>,
    pub failure: Option<MockFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MockFailure {
    pub code: String,
    pub message: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
    /// The delay before the failure, in milliseconds.
    pub after_ms: u64,
}

impl StreamMock {
    /// Reads `configurable.mockProvider`.
    ///
    /// # Errors
    /// The mock is unknown or its configuration is invalid.
    pub fn read(id: &str, config: &Value) -> Result<Self, StreamMockError> {
        let id = MockId::parse(id).ok_or(StreamMockError::Unknown)?;
        let empty = Map::new();
        let config = match config {
            Value::Null => &empty,
            Value::Object(members) => members,
            _ => return Err(wrong("", "must be an object")),
        };
        let known: &[&str] = match id {
            MockId::StreamText => &["tokens", "delayMsPerToken", "finishReason", "usage", "model"],
            MockId::ToolCalls => &["toolCalls", "usage", "model"],
            MockId::Error => &["code", "message", "retryable", "failAfterMs"],
            MockId::UsageOnly => &["usage", "model"],
        };
        if let Some(name) = config.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(wrong(name, "unknown field"));
        }
        let mut mock = Self {
            id,
            tokens: Vec::new(),
            delay_ms_per_token: 0,
            reply: None,
            tool_calls: Vec::new(),
            failure: None,
        };
        if id == MockId::Error {
            mock.failure = Some(MockFailure {
                code: text(config, "code")?.unwrap_or_else(|| "mock_error".to_owned()),
                message: text(config, "message")?
                    .unwrap_or_else(|| "the mock provider failed as configured".to_owned()),
                retryable: config.get("retryable").and_then(Value::as_bool).unwrap_or(false),
                after_ms: count(config, "failAfterMs")?.unwrap_or(0).min(MAX_WAIT_MS),
            });
            return Ok(mock);
        }
        let mut stop = StopReason::EndTurn;
        match id {
            MockId::StreamText => {
                mock.tokens = tokens(config)?;
                mock.delay_ms_per_token = count(config, "delayMsPerToken")?.unwrap_or(0);
                if mock.delay_ms_per_token > MAX_WAIT_MS {
                    return Err(wrong("delayMsPerToken", "must be at most 5000"));
                }
                stop = match text(config, "finishReason")?.as_deref() {
                    None | Some("stop") => StopReason::EndTurn,
                    Some("length") => StopReason::MaxTokens,
                    Some("tool_calls") => StopReason::ToolUse,
                    Some("content_filter") => StopReason::Safety,
                    Some(_) => {
                        return Err(wrong(
                            "finishReason",
                            "must be `stop`, `length`, `tool_calls` or `content_filter`",
                        ));
                    }
                };
            }
            MockId::ToolCalls => {
                let calls = config.get("toolCalls").and_then(Value::as_array);
                mock.tool_calls = calls.ok_or_else(|| wrong("toolCalls", "must be a list"))?.clone();
                stop = StopReason::ToolUse;
            }
            MockId::UsageOnly | MockId::Error => {}
        }
        let usage = usage(config, mock.tokens.len())?;
        let model = text(config, "model")?.unwrap_or_else(|| format!("mock-{id}-v1"));
        let text = mock.tokens.concat();
        mock.reply = Some(Reply { stop, usage, model: Some(model), ..Reply::text(text) });
        Ok(mock)
    }

    /// The metadata of the last chunk.
    pub fn meta(&self) -> Value {
        let Some(reply) = &self.reply else { return Value::Null };
        let mut meta = json!({
            "usage": {
                "promptTokens": reply.usage.input_tokens, "completionTokens": reply.usage.output_tokens,
                "totalTokens": reply.usage.input_tokens.saturating_add(reply.usage.output_tokens),
            },
        });
        if let Some(reason) = reply.stop.finish_reason() {
            meta["finishReason"] = reason.into();
        }
        if let Some(model) = &reply.model {
            meta["model"] = model.as_str().into();
        }
        if !self.tool_calls.is_empty() {
            meta["toolCalls"] = self.tool_calls.clone().into();
        }
        meta
    }
}

fn wrong(name: &str, message: &'static str) -> StreamMockError {
    let slash = if name.is_empty() { "" } else { "/" };
    StreamMockError::Config { pointer: format!("/config{slash}{name}"), message }
}

fn text(config: &Map<String, Value>, name: &str) -> Result<Option<String>, StreamMockError> {
    match config.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= 1024 => Ok(Some(text.clone())),
        Some(_) => Err(wrong(name, "must be a string of at most 1024 bytes")),
    }
}

fn count(config: &Map<String, Value>, name: &str) -> Result<Option<u64>, StreamMockError> {
    match config.get(name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(name, "must be a non-negative integer")),
    }
}

fn tokens(config: &Map<String, Value>) -> Result<Vec<String>, StreamMockError> {
    let Some(given) = config.get("tokens") else {
        return Ok(vec!["mock".to_owned(), " response".to_owned()]);
    };
    let all = given.as_array().ok_or_else(|| wrong("tokens", "must be a list of strings"))?;
    let tokens: Option<Vec<String>> = all.iter().map(|token| token.as_str().map(ToOwned::to_owned)).collect();
    let tokens = tokens.ok_or_else(|| wrong("tokens", "must be a list of strings"))?;
    if tokens.len() > MAX_TOKENS || tokens.iter().map(String::len).sum::<usize>() > MAX_TEXT_BYTES {
        return Err(wrong("tokens", "at most 4096 tokens and 1 MiB in total are allowed"));
    }
    Ok(tokens)
}

fn usage(config: &Map<String, Value>, tokens: usize) -> Result<Usage, StreamMockError> {
    let given = match config.get("usage") {
        None => &Map::new(),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(wrong("usage", "must be an object")),
    };
    Ok(Usage {
        input_tokens: count(given, "promptTokens")?.unwrap_or(1),
        output_tokens: count(given, "completionTokens")?.unwrap_or(u64::try_from(tokens).unwrap_or(u64::MAX)),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mock_configurations() {
        let mock = StreamMock::read("stream-text", &json!({})).unwrap();
        assert_eq!(mock.tokens, ["mock", " response"]);
        assert_eq!(
            mock.meta(),
            json!({"finishReason": "stop", "model": "mock-stream-text-v1",
                   "usage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3}})
        );
        let tools = StreamMock::read(
            "tool-calls",
            &json!({"toolCalls": [{"id": "1", "name": "t", "arguments": "{}"}]}),
        )
        .unwrap();
        assert_eq!(tools.meta()["finishReason"], "tool_calls");
        let error = StreamMock::read("error", &json!({"code": "boom", "retryable": true})).unwrap();
        assert_eq!(error.failure.unwrap().code, "boom");
    }

    #[test]
    fn rejects_invalid_configurations() {
        assert_eq!(StreamMock::read("other", &Value::Null), Err(StreamMockError::Unknown));
        let cases = [
            ("stream-text", json!({"tokens": [1]}), "/config/tokens"),
            ("stream-text", json!({"delayMsPerToken": 5001}), "/config/delayMsPerToken"),
            ("stream-text", json!({"finishReason": "x"}), "/config/finishReason"),
            ("tool-calls", json!({}), "/config/toolCalls"),
            ("usage-only", json!({"usage": 1}), "/config/usage"),
            ("error", json!({"tokens": []}), "/config/tokens"),
        ];
        for (id, config, at) in cases {
            match StreamMock::read(id, &config) {
                Err(StreamMockError::Config { pointer, .. }) => assert_eq!(pointer, at),
                other => panic!("{id} {config}: {other:?}"),
            }
        }
    }
}
