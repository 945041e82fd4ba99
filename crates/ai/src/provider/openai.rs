//! The OpenAI chat completions API, which many servers implement: encodes requests, decodes replies.
//!
//! The base URL is configurable, so a local model server works as well.

use serde_json::{Map, Value, json};

use super::http::{Endpoint, HttpRequest, SendError, failure};
use super::sse::SseReader;
use super::{
    Delta, Exchange, MAX_REPLY_BYTES, MAX_TOOL_CALLS, Message, Output, ProviderError, Refusal, Reply,
    Request, StopReason, Tool, ToolCall, Usage, strict,
};

/// The base URL of OpenAI.
pub const DEFAULT_BASE: &str = "https://api.openai.com/v1";

/// Encodes a request.
///
/// # Errors
/// The credential would be sent without encryption.
pub fn request(request: &Request, endpoint: &Endpoint) -> Result<HttpRequest, SendError> {
    let url = endpoint.base.join("/v1", "/chat/completions");
    endpoint.post(url, "authorization", "Bearer ", &body(request, endpoint.base.host()), request.stream)
}

fn body(request: &Request, host: &str) -> Value {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    let mut body = json!({"model": request.model, "messages": messages});
    if !request.tools.is_empty() {
        let tool = |tool: &Tool| {
            let mut schema = tool.schema.clone();
            // Some servers require an explicit empty `properties`.
            if let Some(members) = schema.as_object_mut() {
                members.entry("properties").or_insert_with(|| json!({}));
            }
            let function = json!({"name": tool.name, "description": tool.description, "parameters": schema});
            json!({"type": "function", "function": function})
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    // OpenAI renamed the limit; other servers use the first name.
    let limit = if host.ends_with("openai.com") { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = request.max_output_tokens.into();
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(top_p) = request.top_p {
        body["top_p"] = top_p.into();
    }
    if let Some(seed) = request.seed {
        body["seed"] = seed.into();
    }
    if !request.stop.is_empty() {
        body["stop"] = request.stop.clone().into();
    }
    if let Output::Json { name, schema } = &request.output {
        let format = json!({"name": name, "schema": schema, "strict": strict::is_strict(schema)});
        body["response_format"] = json!({"type": "json_schema", "json_schema": format});
    }
    if request.stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

fn message(message: &Message) -> Value {
    match &message.exchange {
        Exchange::Words => json!({"role": message.role.as_str(), "content": message.content}),
        Exchange::Calls(calls) => {
            let call = |call: &ToolCall| {
                // Arguments that are not an object were rejected here, and the server would reject them too.
                let is_object = document(call.arguments.as_bytes()).is_ok_and(|read| read.is_object());
                let arguments = if is_object { call.arguments.as_str() } else { "{}" };
                let function = json!({"name": call.name, "arguments": arguments});
                json!({"id": call.id, "type": "function", "function": function})
            };
            let content = Some(message.content.as_str()).filter(|content| !content.is_empty());
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": message.role.as_str(), "content": content, "tool_calls": calls})
        }
        Exchange::Result { call_id, .. } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": message.content})
        }
    }
}

/// Decodes a non-streamed response.
///
/// # Errors
/// The response is an error or invalid.
pub fn reply(
    status: u16,
    header: &dyn Fn(&str) -> Option<String>,
    body: &[u8],
) -> Result<Reply, ProviderError> {
    let document = document(body);
    if !(200..300).contains(&status) {
        let error = document.as_ref().ok().and_then(|document| document.get("error"));
        let name = |member: &str| error.and_then(|error| error.get(member)).and_then(Value::as_str);
        return Err(failure(status, header, name("code").or(name("type"))));
    }
    let document = document?;
    let choice = document.pointer("/choices/0").ok_or(ProviderError::invalid("`choices` is empty"))?;
    let message = choice
        .get("message")
        .and_then(Value::as_object)
        .ok_or(ProviderError::invalid("`message` is missing"))?;
    let text = |name: &str| {
        message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    };
    let refusal = text("refusal");
    let stop = stop_reason(choice.get("finish_reason"));
    Ok(Reply {
        text: text("content").unwrap_or_default(),
        reasoning: text("reasoning_content").or_else(|| text("reasoning")),
        stop,
        refusal: refused(refusal, stop),
        tool_calls: message
            .get("tool_calls")
            .and_then(Value::as_array)
            .map(|calls| tool_calls(calls))
            .unwrap_or_default(),
        usage: usage(document.get("usage")),
        model: document.get("model").and_then(Value::as_str).map(ToOwned::to_owned),
    })
}

pub(super) fn document(body: &[u8]) -> Result<Value, ProviderError> {
    let limits = canon::json::Limits::DEFAULT.max_bytes(MAX_REPLY_BYTES).max_depth(64);
    canon::json::read(body, &limits).map_err(|_| {
        ProviderError::invalid(
            "the body is not valid JSON, or \
        is too large",
        )
    })
}

fn refused(text: Option<String>, stop: StopReason) -> Option<Refusal> {
    match (text, stop) {
        (Some(text), _) => Some(Refusal { text: Some(text), category: None }),
        (None, StopReason::Safety) => {
            Some(Refusal { text: None, category: Some("content_filter".to_owned()) })
        }
        (None, _) => None,
    }
}

fn stop_reason(reason: Option<&Value>) -> StopReason {
    match reason.and_then(Value::as_str) {
        Some("stop") => StopReason::EndTurn,
        // The requested limit: the model's own limit is reported as an error.
        Some("length") => StopReason::MaxTokens,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        Some("content_filter") => StopReason::Safety,
        _ => StopReason::Unknown,
    }
}

fn usage(usage: Option<&Value>) -> Usage {
    let Some(usage) = usage else { return Usage::default() };
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    Usage {
        input_tokens: count("prompt_tokens").unwrap_or(0),
        output_tokens: count("completion_tokens").unwrap_or(0),
        cache_read_tokens: usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64),
        cache_write_tokens: None,
    }
}

fn tool_calls(calls: &[Value]) -> Vec<ToolCall> {
    let call = |call: &Value| {
        let function = call.get("function").unwrap_or(&Value::Null);
        let described = ToolCall::from_record(function);
        ToolCall { id: ToolCall::from_record(call).id, ..described }
    };
    calls.iter().take(MAX_TOOL_CALLS).map(call).collect()
}

#[derive(Clone, Debug, Default)]
pub struct Stream {
    reader: SseReader,
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<ToolCall>,
    stop: Option<StopReason>,
    usage: Usage,
    model: Option<String>,
    ended: bool,
}

impl Stream {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
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
            if event.data.trim() == "[DONE]" {
                self.ended = true;
                continue;
            }
            let chunk = document(event.data.as_bytes())?;
            let chunk = chunk.as_object().ok_or(ProviderError::invalid("a stream event is not an object"))?;
            self.chunk(chunk, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn chunk(&mut self, chunk: &Map<String, Value>, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let code = error.get("code").or(error.get("type")).and_then(Value::as_str);
            return Err(ProviderError { status: None, ..failure(500, &|_| None, code) });
        }
        if let Some(counted) = chunk.get("usage").filter(|counted| counted.is_object()) {
            self.usage = usage(Some(counted));
        }
        if let Some(model) = chunk.get("model").and_then(Value::as_str) {
            self.model.get_or_insert_with(|| model.to_owned());
        }
        let Some(choice) = chunk.get("choices").and_then(|choices| choices.get(0)) else { return Ok(()) };
        if choice.get("finish_reason").is_some_and(|reason| !reason.is_null()) {
            self.stop = Some(stop_reason(choice.get("finish_reason")));
        }
        let piece = |name: &str| {
            choice.pointer(&format!("/delta/{name}")).and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        if let Some(text) = piece("reasoning_content").or_else(|| piece("reasoning")) {
            self.reasoning.push_str(text);
            deltas.push(Delta::Reasoning(text.to_owned()));
        }
        if let Some(text) = piece("content") {
            self.text.push_str(text);
            deltas.push(Delta::Text(text.to_owned()));
        }
        self.refusal.push_str(piece("refusal").unwrap_or_default());
        let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
        for (place, piece) in calls.into_iter().flatten().enumerate() {
            self.call(place, piece)?;
        }
        let size = |call: &ToolCall| call.id.len() + call.name.len() + call.arguments.len();
        let calls: usize = self.calls.iter().map(size).sum();
        within(self.text.len() + self.reasoning.len() + self.refusal.len() + calls)
    }

    /// A part of a tool call: the name is sent once, the arguments in chunks.
    fn call(&mut self, place: usize, piece: &Value) -> Result<(), ProviderError> {
        let index = piece.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(place);
        if index >= MAX_TOOL_CALLS {
            return Err(ProviderError::invalid("the reply has more than 128 tool calls"));
        }
        while self.calls.len() <= index {
            self.calls.push(ToolCall::from_record(&Value::Null));
        }
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let call = &mut self.calls[index];
        call.id.push_str(text("/id"));
        call.name.push_str(text("/function/name"));
        call.arguments.push_str(text("/function/arguments"));
        Ok(())
    }

    /// Returns the reply at the end of the stream.
    ///
    /// # Errors
    /// The stream ended before the reply was complete.
    pub fn finish(self) -> Result<Reply, ProviderError> {
        let Some(stop) = self.stop.or(self.ended.then_some(StopReason::Unknown)) else {
            return Err(ProviderError {
                detail: Some("the stream ended before the reply was complete"),
                ..ProviderError::unavailable()
            });
        };
        let refusal = Some(self.refusal).filter(|text| !text.is_empty());
        Ok(Reply {
            text: self.text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            stop,
            refusal: refused(refusal, stop),
            tool_calls: self.calls,
            usage: self.usage,
            model: self.model,
        })
    }
}

pub(super) fn within(length: usize) -> Result<(), ProviderError> {
    if length > MAX_REPLY_BYTES {
        Err(ProviderError::invalid("the reply is larger than 4 MiB"))
    } else {
        Ok(())
    }
}
