//! Messages, as Anthropic serves them: requests to bytes, bytes to replies.
//!
//! A document is asked for as the input of a tool that the model has to call: its schema is the tool's.

use serde_json::{Map, Value, json};

use super::http::{Endpoint, HttpRequest, SendError, failure};
use super::openai::{document, within};
use super::sse::SseReader;
use super::{Delta, Output, ProviderError, Refusal, Reply, Request, StopReason, Usage};
use crate::completion;

/// Where Anthropic serves it.
pub const DEFAULT_BASE: &str = "https://api.anthropic.com";
/// The version of the protocol.
pub const VERSION: &str = "2023-06-01";

/// A request as it is sent.
///
/// # Errors
/// The credential would be sent in the clear.
pub fn request(request: &Request, endpoint: &Endpoint) -> Result<HttpRequest, SendError> {
    let url = endpoint.base.join("/v1", "/messages");
    let mut http = endpoint.post(url, "x-api-key", "", &body(request), request.stream)?;
    http.headers.push(("anthropic-version", VERSION.to_owned()));
    Ok(http)
}

/// Whether a document can be the input of a tool: an object.
fn is_input(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

fn body(request: &Request) -> Value {
    let messages: Vec<Value> = request
        .conversation()
        .map(|message| json!({"role": message.role.as_str(), "content": message.content}))
        .collect();
    let mut body =
        json!({"model": request.model, "max_tokens": request.max_output_tokens, "messages": messages});
    let mut system: Vec<String> = request.system().into_iter().collect();
    match &request.output {
        Output::Json { name, schema } if is_input(schema) => {
            body["tools"] = json!([{
                "name": name, "description": "Gives the document that was asked for.", "input_schema": schema,
            }]);
            body["tool_choice"] = json!({"type": "tool", "name": name});
        }
        output => system.extend(completion::instruction(output)),
    }
    if !system.is_empty() {
        body["system"] = system.join("\n\n").into();
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(top_p) = request.top_p {
        body["top_p"] = top_p.into();
    }
    if !request.stop.is_empty() {
        body["stop_sequences"] = request.stop.clone().into();
    }
    if request.stream {
        body["stream"] = true.into();
    }
    body
}

/// The reply of an answer that came at once.
///
/// # Errors
/// The answer is a failure, or no message.
pub fn reply(
    status: u16,
    header: &dyn Fn(&str) -> Option<String>,
    body: &[u8],
) -> Result<Reply, ProviderError> {
    let document = document(body);
    if !(200..300).contains(&status) {
        let name = document
            .as_ref()
            .ok()
            .and_then(|document| document.pointer("/error/type"))
            .and_then(Value::as_str);
        return Err(failure(status, header, name));
    }
    let document = document?;
    let blocks = document
        .get("content")
        .and_then(Value::as_array)
        .ok_or(ProviderError::invalid("there is no content in it"))?;
    let mut parts = Parts::default();
    for block in blocks {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => parts.text.push_str(text("text")),
            "thinking" => parts.reasoning.push_str(text("thinking")),
            "tool_use" => parts.input = block.get("input").map(Value::to_string),
            _ => {}
        }
    }
    parts.stop = document.get("stop_reason").and_then(Value::as_str).map(stop_reason);
    parts.details = document.get("stop_details").cloned();
    parts.usage = usage(document.get("usage"), Usage::default());
    parts.model = document.get("model").and_then(Value::as_str).map(ToOwned::to_owned);
    Ok(parts.reply(StopReason::Unknown))
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" => StopReason::EndTurn,
        "stop_sequence" => StopReason::StopSequence,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Safety,
        _ => StopReason::Unknown,
    }
}

/// The counters, over those that were there before.
fn usage(usage: Option<&Value>, before: Usage) -> Usage {
    let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    Usage {
        input_tokens: count("input_tokens").unwrap_or(before.input_tokens),
        output_tokens: count("output_tokens").unwrap_or(before.output_tokens),
        cache_read_tokens: count("cache_read_input_tokens").or(before.cache_read_tokens),
        cache_write_tokens: count("cache_creation_input_tokens").or(before.cache_write_tokens),
    }
}

/// What a reply is made of.
#[derive(Clone, Debug, Default)]
struct Parts {
    text: String,
    reasoning: String,
    /// The input of the tool, as text: the document.
    input: Option<String>,
    stop: Option<StopReason>,
    details: Option<Value>,
    usage: Usage,
    model: Option<String>,
}

impl Parts {
    fn reply(self, otherwise: StopReason) -> Reply {
        let stop = self.stop.unwrap_or(otherwise);
        let detail = |name: &str| {
            let details = self.details.as_ref()?;
            details.get(name).and_then(Value::as_str).map(ToOwned::to_owned)
        };
        let refusal = (stop == StopReason::Safety).then(|| Refusal {
            text: detail("explanation").or_else(|| Some(self.text.clone())).filter(|text| !text.is_empty()),
            category: detail("category"),
        });
        // Whoever has to call a tool and does so is done.
        let (text, stop) = match self.input {
            Some(input) if stop == StopReason::ToolUse => (input, StopReason::EndTurn),
            Some(input) => (input, stop),
            None => (self.text, stop),
        };
        Reply {
            text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            stop,
            refusal,
            tool_calls: Vec::new(),
            usage: self.usage,
            model: self.model,
        }
    }
}

/// A reply that comes piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    reader: SseReader,
    parts: Parts,
    ended: bool,
}

impl Stream {
    /// A stream at its beginning.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, and gives the pieces that are in them.
    ///
    /// # Errors
    /// The stream is none of this protocol, is too much, or tells of a failure.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ProviderError> {
        let events = self
            .reader
            .feed(bytes)
            .map_err(|_| ProviderError::invalid("an event of the stream is too long"))?;
        let mut deltas = Vec::new();
        for event in events {
            let document = document(event.data.as_bytes())?;
            let members =
                document.as_object().ok_or(ProviderError::invalid("an event of the stream is no object"))?;
            self.event(members, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn event(&mut self, event: &Map<String, Value>, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let part = |name: &str| event.get(name).unwrap_or(&Value::Null);
        match part("type").as_str().unwrap_or_default() {
            "message_start" => {
                let message = part("message");
                self.parts.usage = usage(message.get("usage"), self.parts.usage);
                self.parts.model = message.get("model").and_then(Value::as_str).map(ToOwned::to_owned);
            }
            "content_block_start"
                if part("content_block").get("type").and_then(Value::as_str) == Some("tool_use") =>
            {
                self.parts.input.get_or_insert_default();
            }
            "content_block_delta" => self.delta(part("delta"), deltas)?,
            "message_delta" => {
                let delta = part("delta");
                self.parts.stop =
                    delta.get("stop_reason").and_then(Value::as_str).map(stop_reason).or(self.parts.stop);
                self.parts.details = delta.get("stop_details").cloned().or(self.parts.details.take());
                self.parts.usage = usage(event.get("usage"), self.parts.usage);
            }
            "message_stop" => self.ended = true,
            "error" => {
                let name = part("error").get("type").and_then(Value::as_str);
                let status = match name {
                    Some("rate_limit_error") => 429,
                    Some("authentication_error" | "permission_error") => 401,
                    Some("invalid_request_error" | "not_found_error" | "request_too_large") => 400,
                    _ => 500,
                };
                return Err(ProviderError { status: None, ..failure(status, &|_| None, name) });
            }
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text_delta" => {
                self.parts.text.push_str(text("text"));
                deltas.push(Delta::Text(text("text").to_owned()));
            }
            "input_json_delta" => {
                self.parts.input.get_or_insert_default().push_str(text("partial_json"));
                deltas.push(Delta::Text(text("partial_json").to_owned()));
            }
            "thinking_delta" => {
                self.parts.reasoning.push_str(text("thinking"));
                deltas.push(Delta::Reasoning(text("thinking").to_owned()));
            }
            _ => {}
        }
        let input = self.parts.input.as_ref().map_or(0, String::len);
        within(self.parts.text.len() + self.parts.reasoning.len() + input)
    }

    /// The reply, when the stream is over.
    ///
    /// # Errors
    /// It ended before the reply did.
    pub fn finish(self) -> Result<Reply, ProviderError> {
        if !self.ended && self.parts.stop.is_none() {
            return Err(ProviderError {
                detail: Some("the stream ended too early"),
                ..ProviderError::unavailable()
            });
        }
        Ok(self.parts.reply(StopReason::Unknown))
    }
}
