//! Requests to models and their replies, whoever the provider is.
//!
//! [`openai`] and [`anthropic`] write a [`Request`] as [HTTP](http) and read what came back; [`mock`] answers without
//! asking anybody. None of them sends anything.

use std::fmt;

use serde_json::{Value, json};

use crate::words::words;

pub mod anthropic;
pub mod http;
pub mod mock;
pub mod openai;
pub mod sse;
mod strict;
mod tools;

pub use tools::{Exchange, MAX_TOOL_CALLS, Tool, ToolCall};

/// The most a reply may have, in bytes: text, thoughts, or the body around them.
pub const MAX_REPLY_BYTES: usize = 4 << 20;
/// How much room a reply gets when nobody says otherwise, in tokens.
pub const DEFAULT_OUTPUT_TOKENS: u32 = 4096;

words! {
    /// Whose words a message are.
    pub enum Role {
        /// The author's: how to behave.
        System => "system",
        /// A person's, or whatever speaks for one.
        User => "user",
        /// The model's.
        Assistant => "assistant",
    }
}

/// One message of a conversation. It prints how long it is: a prompt may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Whose words.
    pub role: Role,
    /// The words.
    pub content: String,
    /// What it has to do with tools.
    pub exchange: Exchange,
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} bytes)", self.role, self.content.len())
    }
}

impl Message {
    /// Words of somebody.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), exchange: Exchange::Words }
    }

    /// A message of a person.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// A message of the author.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// A message of the model that wants tools to be called.
    pub fn calls(content: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        Self { exchange: Exchange::Calls(calls), ..Self::new(Role::Assistant, content) }
    }

    /// What came of a call.
    pub fn result(call_id: impl Into<String>, content: impl Into<String>, is_error: bool) -> Self {
        let exchange = Exchange::Result { call_id: call_id.into(), is_error };
        Self { exchange, ..Self::new(Role::User, content) }
    }

    /// What the [cache key](crate::cache_key) of a request has of it.
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

/// What a reply has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Anything.
    Text,
    /// One JSON document.
    Json {
        /// What the document is called: letters, digits, `_` and `-`, at most 64.
        name: String,
        /// What it has to fit.
        schema: Value,
    },
}

impl Output {
    /// A document of this name and schema. Characters that names do not have become `_`.
    pub fn json(name: &str, schema: Value) -> Self {
        let letter =
            |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let name: String = name.chars().take(64).map(letter).collect();
        Self::Json { name: if name.is_empty() { "output".to_owned() } else { name }, schema }
    }
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The model.
    pub model: String,
    /// The conversation, the author's words first.
    pub messages: Vec<Message>,
    /// The tools that the model may want to be called.
    pub tools: Vec<Tool>,
    /// How much the reply may have, in tokens.
    pub max_output_tokens: u32,
    /// How freely the model chooses.
    pub temperature: Option<f64>,
    /// Among how much of what is likely the model chooses.
    pub top_p: Option<f64>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// What the model's choices follow from, where the provider takes it.
    pub seed: Option<u64>,
    /// What the reply has to be.
    pub output: Output,
    /// Whether the reply is wanted piece by piece.
    pub stream: bool,
}

impl Request {
    /// A request with nothing special about it.
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

    /// The author's words, joined.
    pub fn system(&self) -> Option<String> {
        let texts: Vec<&str> =
            self.of(|role| role == Role::System).map(|message| message.content.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The conversation without the author's words.
    pub fn conversation(&self) -> impl Iterator<Item = &Message> {
        self.of(|role| role != Role::System)
    }

    fn of(&self, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| wanted(message.role))
    }

    /// What the [cache key](crate::cache_key) of this request is made of.
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

words! {
    /// Why a model stopped.
    pub enum StopReason {
        /// It was done.
        EndTurn => "end_turn",
        /// It met a text at which it has to stop.
        StopSequence => "stop_sequence",
        /// It wants a tool to be called.
        ToolUse => "tool_use",
        /// It reached the limit that it was given.
        MaxTokens => "max_tokens",
        /// It reached a limit of its own.
        Length => "length",
        /// It was not allowed to go on.
        Safety => "safety",
        /// The provider gives another reason, or none.
        Unknown => "unknown",
    }
}

impl StopReason {
    /// Whether the reply was cut off.
    pub const fn is_truncation(self) -> bool {
        matches!(self, Self::MaxTokens | Self::Length)
    }

    /// The reason as chunks of a stream spell it.
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

/// What a provider counted, as it counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Tokens that were read from a cache of prefixes.
    pub cache_read_tokens: Option<u64>,
    /// Tokens that were written to one.
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// What both counted together.
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

/// That a provider refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// What it said. It may repeat the prompt.
    pub text: Option<String>,
    /// The rule behind it, as the provider calls it.
    pub category: Option<String>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What the model said. For a document, its text.
    pub text: String,
    /// What it thought, where the provider tells.
    pub reasoning: Option<String>,
    /// Why it stopped.
    pub stop: StopReason,
    /// That it refused.
    pub refusal: Option<Refusal>,
    /// The tools that it wants to be called.
    pub tool_calls: Vec<ToolCall>,
    /// What was counted.
    pub usage: Usage,
    /// The model that answered, as it calls itself.
    pub model: Option<String>,
}

impl Reply {
    /// A plain text of a model that was done.
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

    /// Whether the provider refused, in whatever way it says so.
    pub const fn is_refusal(&self) -> bool {
        self.refusal.is_some() || matches!(self.stop, StopReason::Safety)
    }

    /// The reply as it is recorded, so that it is never paid for twice.
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

    /// The reply that was recorded; nothing where the record is none.
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

/// A piece of a reply that comes piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Of what the model says.
    Text(String),
    /// Of what it thinks.
    Reasoning(String),
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The provider wants to be asked less often.
    RateLimited,
    /// It could not be reached, or could not answer.
    Unavailable,
    /// It wants a credential, or another one.
    Unauthorized,
    /// It did not take the request.
    Rejected,
    /// What it sent is not what its protocol says, or is too much.
    InvalidReply,
}

/// Why there is no reply. It holds nothing that a provider said in its own words: those may repeat a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// What kind of failure.
    pub kind: ProviderErrorKind,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// The provider's own name for the failure, where it is one word.
    pub code: Option<String>,
    /// How long to wait, in milliseconds, where the provider says so.
    pub retry_after_ms: Option<u64>,
    /// What is wrong with the reply, where that is the failure.
    pub detail: Option<&'static str>,
}

impl ProviderError {
    /// A failure without an answer: no connection, no time left.
    pub const fn unavailable() -> Self {
        Self {
            kind: ProviderErrorKind::Unavailable,
            status: None,
            code: None,
            retry_after_ms: None,
            detail: None,
        }
    }

    /// A reply that cannot be read.
    pub const fn invalid(detail: &'static str) -> Self {
        Self {
            kind: ProviderErrorKind::InvalidReply,
            status: None,
            code: None,
            retry_after_ms: None,
            detail: Some(detail),
        }
    }

    /// Whether asking again, with the same identity, may help.
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ProviderErrorKind::RateLimited | ProviderErrorKind::Unavailable)
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            ProviderErrorKind::RateLimited => "the provider wants to be asked less often",
            ProviderErrorKind::Unavailable => "the provider could not answer",
            ProviderErrorKind::Unauthorized => "the provider did not accept the credential",
            ProviderErrorKind::Rejected => "the provider did not take the request",
            ProviderErrorKind::InvalidReply => "the reply of the provider cannot be read",
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
