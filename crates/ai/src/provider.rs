//! Requests to models and their replies, independent of the provider.
//!
//! [`openai`] and [`anthropic`] encode a [`Request`] as [HTTP](http) and decode the response; [`mock`] generates
//! replies locally. None of them does I/O.

use std::fmt;

use serde_json::{Value, json};

use crate::wire_enum::wire_enum;

pub mod anthropic;
pub mod http;
pub mod mock;
pub mod openai;
pub mod sse;
mod strict;
mod tools;

pub use tools::{Exchange, MAX_TOOL_CALLS, Tool, ToolCall};

/// The maximum size of a reply, in bytes: text, reasoning, or HTTP body.
pub const MAX_REPLY_BYTES: usize = 4 << 20;
/// The default output-token limit.
pub const DEFAULT_OUTPUT_TOKENS: u32 = 4096;

wire_enum! {
    /// The author of a message.
    pub enum Role {
        /// The workflow author.
        System => "system",
        /// A person, or a program on behalf of one.
        User => "user",
        /// The model.
        Assistant => "assistant",
    }
}

/// A message of a conversation. `Debug` prints only its length, because a prompt may contain a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub content: String,
    /// Tool calls or a tool result, if the message has any.
    pub exchange: Exchange,
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} bytes)", self.role, self.content.len())
    }
}

impl Message {
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), exchange: Exchange::Words }
    }

    /// A user message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// A system message.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// A model message that requests tool calls.
    pub fn calls(content: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        Self { exchange: Exchange::Calls(calls), ..Self::new(Role::Assistant, content) }
    }

    pub fn result(call_id: impl Into<String>, content: impl Into<String>, is_error: bool) -> Self {
        let exchange = Exchange::Result { call_id: call_id.into(), is_error };
        Self { exchange, ..Self::new(Role::User, content) }
    }

    /// The part of the message in the [cache key](crate::cache_key).
    fn semantic(&self) -> Value {
        let mut message = json!({"role": self.role.as_str(), "content": self.content});
        match &self.exchange {
            Exchange::Words => {}
            Exchange::Calls(calls) => message["toolCalls"] = calls.iter().map(ToolCall::to_record).collect(),
            Exchange::Result { call_id, is_error } => {
                message["role"] = "tool".into();
                message["toolCallId"] = call_id.as_str().into();
                message["isError"] = (*is_error).into();
            }
        }
        message
    }
}

/// The required form of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Text,
    Json {
        /// The document name: letters, digits, `_` and `-`, at most 64.
        name: String,
        schema: Value,
    },
}

impl Output {
    /// A document with this name and schema. Invalid characters of the name become `_`.
    pub fn json(name: &str, schema: Value) -> Self {
        let letter =
            |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let name: String = name.chars().take(64).map(letter).collect();
        Self::Json { name: if name.is_empty() { "output".to_owned() } else { name }, schema }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub model: String,
    /// The conversation, system messages first.
    pub messages: Vec<Message>,
    pub tools: Vec<Tool>,
    /// The maximum number of output tokens.
    pub max_output_tokens: u32,
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// The sampling seed, if the provider supports one.
    pub seed: Option<u64>,
    /// The required form of the reply.
    pub output: Output,
    /// Whether the reply is streamed.
    pub stream: bool,
}

impl Request {
    /// A request with default options.
    pub fn new(model: impl Into<String>, messages: Vec<Message>, output: Output) -> Self {
        Self {
            model: model.into(),
            messages,
            tools: Vec::new(),
            max_output_tokens: DEFAULT_OUTPUT_TOKENS,
            temperature: None,
            top_p: None,
            stop: Vec::new(),
            seed: None,
            output,
            stream: false,
        }
    }

    /// The system messages, joined.
    pub fn system(&self) -> Option<String> {
        let texts: Vec<&str> =
            self.of(|role| role == Role::System).map(|message| message.content.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The conversation without system messages.
    pub fn conversation(&self) -> impl Iterator<Item = &Message> {
        self.of(|role| role != Role::System)
    }

    fn of(&self, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| wanted(message.role))
    }

    /// The part of the request in the [cache key](crate::cache_key).
    pub fn semantic(&self, provider: &str) -> Value {
        let messages: Vec<Value> = self.messages.iter().map(Message::semantic).collect();
        let mut request = json!({
            "provider": provider, "model": self.model, "messages": messages, "maxOutputTokens": self.max_output_tokens,
        });
        let optional = [
            ("tools", (!self.tools.is_empty()).then(|| self.tools.iter().map(Tool::semantic).collect())),
            ("temperature", self.temperature.map(Value::from)),
            ("topP", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("stop", (!self.stop.is_empty()).then(|| self.stop.clone().into())),
            (
                "responseFormat",
                match &self.output {
                    Output::Text => None,
                    Output::Json { schema, .. } => Some(json!({"type": "json", "schema": schema})),
                },
            ),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                request[name] = value;
            }
        }
        request
    }
}

wire_enum! {
    /// Why a model stopped.
    pub enum StopReason {
        /// The reply is complete.
        EndTurn => "end_turn",
        StopSequence => "stop_sequence",
        /// The model requested a tool call.
        ToolUse => "tool_use",
        /// The requested token limit was reached.
        MaxTokens => "max_tokens",
        /// The model's own limit was reached.
        Length => "length",
        /// A safety filter stopped the reply.
        Safety => "safety",
        /// The provider gave an unknown reason or none.
        Unknown => "unknown",
    }
}

impl StopReason {
    /// Whether the reply was truncated.
    pub const fn is_truncation(self) -> bool {
        matches!(self, Self::MaxTokens | Self::Length)
    }

    /// The reason as spelled in stream chunks.
    pub const fn finish_reason(self) -> Option<&'static str> {
        match self {
            Self::EndTurn | Self::StopSequence => Some("stop"),
            Self::ToolUse => Some("tool_calls"),
            Self::MaxTokens | Self::Length => Some("length"),
            Self::Safety => Some("content_filter"),
            Self::Unknown => None,
        }
    }
}

/// Token counts reported by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Tokens read from a prompt cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to a prompt cache.
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        const fn both(all: Option<u64>, one: Option<u64>) -> Option<u64> {
            match (all, one) {
                (None, counted) | (counted, None) => counted,
                (Some(all), Some(one)) => Some(all.saturating_add(one)),
            }
        }
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: both(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: both(self.cache_write_tokens, other.cache_write_tokens),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The provider's text. It may quote the prompt.
    pub text: Option<String>,
    /// The provider's name of the violated rule.
    pub category: Option<String>,
}

/// The reply of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The output text, or the text of the document.
    pub text: String,
    /// The model's reasoning, if the provider returns it.
    pub reasoning: Option<String>,
    pub stop: StopReason,
    pub refusal: Option<Refusal>,
    pub tool_calls: Vec<ToolCall>,
    pub usage: Usage,
    /// The model name reported by the provider.
    pub model: Option<String>,
}

impl Reply {
    /// A complete text reply.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            reasoning: None,
            stop: StopReason::EndTurn,
            refusal: None,
            tool_calls: Vec::new(),
            usage: Usage::default(),
            model: None,
        }
    }

    /// Whether the provider refused, in any of the ways that providers report it.
    pub const fn is_refusal(&self) -> bool {
        self.refusal.is_some() || matches!(self.stop, StopReason::Safety)
    }

    /// The reply as stored, so that it is never billed twice.
    pub fn to_record(&self) -> Value {
        let mut record = json!({
            "text": self.text, "stop": self.stop.as_str(),
            "usage": {
                "inputTokens": self.usage.input_tokens, "outputTokens": self.usage.output_tokens,
                "cacheReadTokens": self.usage.cache_read_tokens, "cacheWriteTokens": self.usage.cache_write_tokens,
            },
            "toolCalls": self.tool_calls.iter().map(ToolCall::to_record).collect::<Vec<_>>(),
        });
        if let Some(reasoning) = &self.reasoning {
            record["reasoning"] = reasoning.as_str().into();
        }
        if let Some(model) = &self.model {
            record["model"] = model.as_str().into();
        }
        if let Some(refusal) = &self.refusal {
            record["refusal"] = json!({"text": refusal.text, "category": refusal.category});
        }
        record
    }

    /// Reads a stored reply; `None` if the record is invalid.
    pub fn from_record(record: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let count = |name: &str| record["usage"].get(name).and_then(Value::as_u64);
        Some(Self {
            text: text(record, "text")?,
            reasoning: text(record, "reasoning"),
            stop: StopReason::parse(record.get("stop")?.as_str()?)?,
            refusal: record
                .get("refusal")
                .map(|refusal| Refusal { text: text(refusal, "text"), category: text(refusal, "category") }),
            tool_calls: record
                .get("toolCalls")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .take(MAX_TOOL_CALLS)
                .map(ToolCall::from_record)
                .collect(),
            usage: Usage {
                input_tokens: count("inputTokens")?,
                output_tokens: count("outputTokens")?,
                cache_read_tokens: count("cacheReadTokens"),
                cache_write_tokens: count("cacheWriteTokens"),
            },
            model: text(record, "model"),
        })
    }
}

/// A chunk of a streamed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
}

/// The kind of a provider failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    RateLimited,
    /// The provider was unreachable or failed.
    Unavailable,
    /// The credential is missing or was rejected.
    Unauthorized,
    /// The provider rejected the request.
    Rejected,
    /// The response violates the protocol or is too large.
    InvalidReply,
}

/// Why there is no reply. It contains no text from the provider, which may quote a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    pub kind: ProviderErrorKind,
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The provider's error code, if it is one word.
    pub code: Option<String>,
    /// The wait requested by the provider, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What is wrong with an invalid response.
    pub detail: Option<&'static str>,
}

impl ProviderError {
    /// A failure without a response: no connection, or a timeout.
    pub const fn unavailable() -> Self {
        Self {
            kind: ProviderErrorKind::Unavailable,
            status: None,
            code: None,
            retry_after_ms: None,
            detail: None,
        }
    }

    pub const fn invalid(detail: &'static str) -> Self {
        Self {
            kind: ProviderErrorKind::InvalidReply,
            status: None,
            code: None,
            retry_after_ms: None,
            detail: Some(detail),
        }
    }

    /// Whether a retry with the same idempotency key may succeed.
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ProviderErrorKind::RateLimited | ProviderErrorKind::Unavailable)
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            ProviderErrorKind::RateLimited => "the provider's rate limit is reached; retry later",
            ProviderErrorKind::Unavailable => "the provider is unavailable; retry later",
            ProviderErrorKind::Unauthorized => "the provider rejected the credential",
            ProviderErrorKind::Rejected => "the provider rejected the request",
            ProviderErrorKind::InvalidReply => "the response of the provider is invalid",
        })?;
        if let Some(detail) = self.detail {
            write!(formatter, ": {detail}")?;
        }
        match (self.status, &self.code) {
            (Some(status), Some(code)) => write!(formatter, " (status {status}, {code})"),
            (Some(status), None) => write!(formatter, " (status {status})"),
            (None, Some(code)) => write!(formatter, " ({code})"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for ProviderError {}
