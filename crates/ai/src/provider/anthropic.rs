//! The Anthropic Messages API: encodes requests, decodes replies.
//!
//! A document is requested as the input of a tool that the model must call, with the document's schema. If other tools
//! are offered, the model must be free to choose, so the document is requested in the prompt. The meaning of a tool
//! call in a reply therefore depends on the request.

use serde_json::{Map, Value, json};

use super::http::{Endpoint, HttpRequest, SendError, failure};
use super::openai::{document, within};
use super::sse::SseReader;
use super::{
    Delta, Exchange, MAX_TOOL_CALLS, Message, Output, ProviderError, Refusal, Reply, Request, StopReason,
    Tool, ToolCall, Usage,
};
use crate::completion;

/// The base URL of Anthropic.
pub const DEFAULT_BASE: &str = "https://api.anthropic.com";
pub const VERSION: &str = "2023-06-01";

/// Encodes a request.
///
/// # Errors
/// The credential would be sent without encryption.
pub fn request(request: &Request, endpoint: &Endpoint) -> Result<HttpRequest, SendError> {
    let url = endpoint.base.join("/v1", "/messages");
    let mut http = endpoint.post(url, "x-api-key", "", &body(request), request.stream)?;
    http.headers.push(("anthropic-version", VERSION.to_owned()));
    Ok(http)
}

/// Whether the document is requested as a tool input: it is an object, and no tools are offered.
fn is_input(request: &Request) -> bool {
    let Output::Json { schema, .. } = &request.output else { return false };
    request.tools.is_empty() && schema.get("type").and_then(Value::as_str) == Some("object")
}

/// The conversation. The API requires all results of one round in one message.
fn messages(request: &Request) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut results: Vec<Value> = Vec::new();
    for message in request.conversation() {
        if let Exchange::Result { call_id, is_error } = &message.exchange {
            let mut result =
                json!({"type": "tool_result", "tool_use_id": call_id, "content": message.content});
            if *is_error {
                result["is_error"] = true.into();
            }
            results.push(result);
            continue;
        }
        messages.extend(flush_results(&mut results));
        messages.push(encode_message(message));
    }
    messages.extend(flush_results(&mut results));
    messages
}

fn flush_results(results: &mut Vec<Value>) -> Option<Value> {
    let results = std::mem::take(results);
    (!results.is_empty()).then(|| json!({"role": "user", "content": results}))
}

fn encode_message(message: &Message) -> Value {
    let Exchange::Calls(calls) = &message.exchange else {
        return json!({"role": message.role.as_str(), "content": message.content});
    };
    let mut blocks = Vec::new();
    // The API rejects an empty text block.
    if !message.content.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": message.content}));
    }
    let block = |call: &ToolCall| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input()});
    blocks.extend(calls.iter().map(block));
    json!({"role": message.role.as_str(), "content": blocks})
}

fn body(request: &Request) -> Value {
    let mut body = json!({"model": request.model, "max_tokens": request.max_output_tokens, "messages": messages(request)});
    if !request.tools.is_empty() {
        let tool = |tool: &Tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema});
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    let mut system: Vec<String> = request.system().into_iter().collect();
    match &request.output {
        Output::Json { name, schema } if is_input(request) => {
            body["tools"] = json!([{
                "name": name, "description": "Returns the requested document.", "input_schema": schema,
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

/// Decodes a non-streamed response to this request.
///
/// # Errors
/// The response is an error or invalid.
pub fn reply(
    request: &Request,
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
        .ok_or(ProviderError::invalid("`content` is missing"))?;
    let mut parts = Parts::default();
    for block in blocks {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => parts.text.push_str(text("text")),
            "thinking" => parts.reasoning.push_str(text("thinking")),
            "tool_use" if parts.calls.len() < MAX_TOOL_CALLS => {
                let input = block.get("input").map(Value::to_string).unwrap_or_default();
                parts.calls.push(ToolCall { arguments: input, ..ToolCall::from_record(block) });
            }
            _ => {}
        }
    }
    parts.stop = document.get("stop_reason").and_then(Value::as_str).map(stop_reason);
    parts.details = document.get("stop_details").cloned();
    parts.usage = usage(document.get("usage"), Usage::default());
    parts.model = document.get("model").and_then(Value::as_str).map(ToOwned::to_owned);
    Ok(parts.reply(is_input(request)))
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

/// The counters, merged into those received before.
fn usage(usage: Option<&Value>, before: Usage) -> Usage {
    let count = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    Usage {
        input_tokens: count("input_tokens").unwrap_or(before.input_tokens),
        output_tokens: count("output_tokens").unwrap_or(before.output_tokens),
        cache_read_tokens: count("cache_read_input_tokens").or(before.cache_read_tokens),
        cache_write_tokens: count("cache_creation_input_tokens").or(before.cache_write_tokens),
    }
}

/// The parts of a reply.
#[derive(Clone, Debug, Default)]
struct Parts {
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    stop: Option<StopReason>,
    details: Option<Value>,
    usage: Usage,
    model: Option<String>,
}

impl Parts {
    /// Builds the reply. If the document was requested as a tool input, it is the input of the last call.
    fn reply(mut self, is_input: bool) -> Reply {
        let stop = self.stop.unwrap_or(StopReason::Unknown);
        let detail = |name: &str| {
            let details = self.details.as_ref()?;
            details.get(name).and_then(Value::as_str).map(ToOwned::to_owned)
        };
        let refusal = (stop == StopReason::Safety).then(|| Refusal {
            text: detail("explanation").or_else(|| Some(self.text.clone())).filter(|text| !text.is_empty()),
            category: detail("category"),
        });
        let document = if is_input { self.calls.pop().map(|call| call.arguments) } else { None };
        // A model that calls the required tool is done.
        let (text, stop) = match document {
            Some(document) if stop == StopReason::ToolUse => (document, StopReason::EndTurn),
            Some(document) => (document, stop),
            None => (self.text, stop),
        };
        Reply {
            text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            stop,
            refusal,
            tool_calls: if is_input { Vec::new() } else { self.calls },
            usage: self.usage,
            model: self.model,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stream {
    reader: SseReader,
    parts: Parts,
    /// Whether the tool input is the document.
    is_input: bool,
    ended: bool,
}

impl Stream {
    /// A decoder for the response to a request.
    pub fn new(request: &Request) -> Self {
        Self { is_input: is_input(request), ..Self::default() }
    }

    /// Decodes the next bytes and returns the chunks in them.
    ///
    /// # Errors
    /// The stream violates the protocol, is too large, or reports an error.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ProviderError> {
        let events =
            self.reader.feed(bytes).map_err(|_| ProviderError::invalid("a stream event is too long"))?;
        let mut deltas = Vec::new();
        for event in events {
            let document = document(event.data.as_bytes())?;
            let members =
                document.as_object().ok_or(ProviderError::invalid("a stream event is not an object"))?;
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
                if self.parts.calls.len() >= MAX_TOOL_CALLS {
                    return Err(ProviderError::invalid("the reply has more than 128 tool calls"));
                }
                // `input` is empty here; it follows in chunks.
                let begun = ToolCall::from_record(part("content_block"));
                self.parts.calls.push(ToolCall { arguments: String::new(), ..begun });
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
                // Blocks are sent one after another, so a chunk belongs to the last one.
                if let Some(call) = self.parts.calls.last_mut() {
                    call.arguments.push_str(text("partial_json"));
                }
                if self.is_input {
                    deltas.push(Delta::Text(text("partial_json").to_owned()));
                }
            }
            "thinking_delta" => {
                self.parts.reasoning.push_str(text("thinking"));
                deltas.push(Delta::Reasoning(text("thinking").to_owned()));
            }
            _ => {}
        }
        let calls: usize = self.parts.calls.iter().map(|call| call.arguments.len()).sum();
        within(self.parts.text.len() + self.parts.reasoning.len() + calls)
    }

    /// Returns the reply at the end of the stream.
    ///
    /// # Errors
    /// The stream ended before the reply was complete.
    pub fn finish(self) -> Result<Reply, ProviderError> {
        if !self.ended && self.parts.stop.is_none() {
            return Err(ProviderError {
                detail: Some("the stream ended before the reply was complete"),
                ..ProviderError::unavailable()
            });
        }
        Ok(self.parts.reply(self.is_input))
    }
}
