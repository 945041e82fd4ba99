//! Tool results: for the model, for run events, and for the record.

use canon::digest::Digest;
use serde_json::{Value, json};

use super::arguments::{self, RejectedCall};
use super::toolbox::Transport;
use super::{PendingToolCall, marked};
use crate::event::{EventKind, RunEvent};
use crate::redact::Redactor;
use crate::wire_enum::wire_enum;

/// The maximum size of a result in an event, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 10;

wire_enum! {
    /// The status of a tool call.
    pub enum Status {
        Ok => "ok",
        /// The call failed or was invalid.
        Error => "error",
        /// The agent is not allowed to use the tool.
        Forbidden => "forbidden",
    }
}

/// A tool result. The text is untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub status: Status,
    /// The tool's output, or the reason why there is none.
    pub text: String,
    /// The host's error code, if the host failed the call.
    pub code: Option<String>,
    /// The duration, if the call was executed.
    pub duration_ms: Option<u64>,
    /// The original size in bytes, if the text was shortened.
    pub cut_from: Option<usize>,
}

impl ToolResult {
    /// The result of a call that is no longer allowed.
    pub fn forbidden() -> Self {
        Self {
            status: Status::Forbidden,
            text: "the agent is not allowed to use this tool".to_owned(),
            code: Some("forbidden".to_owned()),
            duration_ms: None,
            cut_from: None,
        }
    }

    /// Redacts the result. Idempotent.
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        self.text = redactor.clean(&self.text);
        self
    }

    /// The result as stored, so that the call is never executed twice.
    pub fn to_record(&self, due: &PendingToolCall) -> Value {
        let mut record = json!({
            "tool": due.tool, "argsHash": due.args_hash, "status": self.status.as_str(), "text": self.text,
        });
        if let Some(code) = &self.code {
            record["code"] = code.as_str().into();
        }
        if let Some(took) = self.duration_ms {
            record["durationMs"] = took.into();
        }
        if let Some(size) = self.cut_from {
            record["size"] = size.into();
        }
        record
    }

    /// Shortens the text to what is shown, so that records are bounded.
    #[must_use]
    pub fn cut(mut self, limit: usize) -> Self {
        let size = self.text.len();
        let kept = cut(&self.text, limit).len();
        if kept < size {
            self.text.truncate(kept);
            self.cut_from = Some(size);
        }
        self
    }

    /// Reads the stored result of this call; `None` if it belongs to another call or is invalid.
    pub fn from_record(record: &Value, due: &PendingToolCall) -> Option<Self> {
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        let same = text("tool") == Some(&due.tool) && text("argsHash") == Some(&due.args_hash);
        Self::read(record).filter(|_| same)
    }

    /// Reads a stored result of any call.
    pub fn read(record: &Value) -> Option<Self> {
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        Some(Self {
            status: Status::parse(text("status")?)?,
            text: text("text")?.to_owned(),
            code: text("code").map(str::to_owned),
            duration_ms: record.get("durationMs").and_then(Value::as_u64),
            cut_from: record.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok()),
        })
    }

    /// The text for the model: the visible part, marked as untrusted.
    pub(super) fn for_model(&self, tool: &str, limit: usize) -> String {
        if self.status == Status::Forbidden {
            return json!({"error": "forbidden", "message": self.text}).to_string();
        }
        let text = match &self.code {
            None => self.text.clone(),
            Some(code) => json!({"error": code, "message": self.text}).to_string(),
        };
        let (shown, size) = (cut(&text, limit), self.cut_from.unwrap_or(text.len()));
        if shown.len() >= size {
            return marked(tool, shown);
        }
        format!("{}\n[the result is {size} bytes; the first {} are shown]", marked(tool, shown), shown.len())
    }
}

/// Builds the two events of a call.
#[derive(Clone, Debug)]
pub(super) struct CallEvents {
    agent_id: String,
    pub(super) tool: String,
    transport: Option<Transport>,
    pub(super) call_id: String,
    inputs: Value,
    pub(super) args_hash: String,
}

impl CallEvents {
    /// Creates the events of a call. The arguments are already redacted; arguments over the limit are left out.
    pub(super) fn new(
        agent_id: &str,
        tool: String,
        transport: Option<Transport>,
        call_id: String,
        arguments: &str,
        limit: usize,
    ) -> Self {
        let read = arguments::read(arguments, limit);
        let hashed = read.clone().unwrap_or_else(|| Value::from(arguments));
        let hash = Digest::of_canonical(&hashed);
        let args_hash = hash.unwrap_or_else(|_| Digest::of_bytes(arguments.as_bytes())).to_hex();
        let agent_id = agent_id.to_owned();
        Self { agent_id, tool, transport, call_id, inputs: read.unwrap_or_default(), args_hash }
    }

    pub(super) fn called(&self) -> RunEvent {
        RunEvent::new(
            EventKind::ToolCalled,
            [
                ("agentId", self.agent_id.as_str().into()),
                ("toolName", self.tool.as_str().into()),
                ("toolId", self.tool.as_str().into()),
                ("callId", self.call_id.as_str().into()),
                ("transport", self.transport.map_or(Value::Null, Value::from)),
                ("inputs", self.inputs.clone()),
                ("argsHash", self.args_hash.as_str().into()),
            ],
        )
    }

    pub(super) fn returned(&self, returned: &ToolResult) -> RunEvent {
        let failure = returned.code.as_ref();
        let error = failure.map_or(
            Value::Null,
            |code| json!({"code": code, "message": cut(&returned.text, MAX_EVENT_BYTES)}),
        );
        let outcome = match failure {
            Some(_) => Value::Null,
            None => marked(&self.tool, cut(&returned.text, MAX_EVENT_BYTES)).into(),
        };
        self.end(returned.status, outcome, error, returned.duration_ms)
    }

    pub(super) fn refused(&self, unfit: &RejectedCall) -> RunEvent {
        let error = json!({"code": unfit.code, "message": unfit.message});
        self.end(unfit.status, Value::Null, error, None)
    }

    fn end(&self, status: Status, outcome: Value, error: Value, took: Option<u64>) -> RunEvent {
        RunEvent::new(
            EventKind::ToolReturned,
            [
                ("agentId", self.agent_id.as_str().into()),
                ("toolName", self.tool.as_str().into()),
                ("toolId", self.tool.as_str().into()),
                ("callId", self.call_id.as_str().into()),
                ("transport", self.transport.map_or(Value::Null, Value::from)),
                ("status", status.into()),
                ("outcome", outcome),
                ("error", error),
                ("durationMs", took.into()),
                ("contentTrust", "untrusted".into()),
            ],
        )
    }
}

fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
