//! What came of a call of a tool: for the model, for the events of the run, and for the record.

use canon::digest::Digest;
use serde_json::{Value, json};

use super::arguments::{self, Unfit};
use super::toolbox::Transport;
use super::{Due, marked};
use crate::event::{EventKind, RunEvent};
use crate::redact::Redactor;
use crate::words::words;

/// The longest text of a result that an event holds, in bytes.
const TOLD_BYTES: usize = 16 << 10;

words! {
    /// How a call ended.
    pub enum Status {
        /// It was made.
        Ok => "ok",
        /// It failed, or could not be made as it was wanted.
        Error => "error",
        /// It was not made: the agent may not use the tool.
        Forbidden => "forbidden",
    }
}

/// What came of a call. The text is from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// How it ended.
    pub status: Status,
    /// What the tool said; why there is nothing, where it said nothing.
    pub text: String,
    /// The name of the failure, where it is the host's.
    pub code: Option<String>,
    /// How long it took, where it was made.
    pub duration_ms: Option<u64>,
    /// How many bytes the text had, where some of it was left out.
    pub cut_from: Option<usize>,
}

impl Returned {
    /// A call that is not made, although it was due.
    pub fn forbidden() -> Self {
        Self {
            status: Status::Forbidden,
            text: "the agent may not use this tool".to_owned(),
            code: Some("forbidden".to_owned()),
            duration_ms: None,
            cut_from: None,
        }
    }

    /// Without secrets. A second time changes nothing.
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        self.text = redactor.clean(&self.text);
        self
    }

    /// What is recorded, so that the call is never made twice.
    pub fn to_record(&self, due: &Due) -> Value {
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

    /// Without what nobody is shown of it: what is recorded is bounded, whatever a tool says.
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

    /// What was recorded of this very call; nothing where it is of another one, or no record.
    pub fn from_record(record: &Value, due: &Due) -> Option<Self> {
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        let same = text("tool") == Some(&due.tool) && text("argsHash") == Some(&due.args_hash);
        Self::read(record).filter(|_| same)
    }

    /// What was recorded of a call, whichever it was.
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

    /// What the model is told: all that it may see of it, between marks.
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
        format!(
            "{}\n[the result has {size} bytes, and the first {} are shown]",
            marked(tool, shown),
            shown.len()
        )
    }
}

/// The two events of a call.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    agent_id: String,
    pub(super) tool: String,
    transport: Option<Transport>,
    pub(super) call_id: String,
    inputs: Value,
    pub(super) args_hash: String,
}

impl Pair {
    /// The events of a call with these arguments, which are without secrets already. Those that are too many are not
    /// repeated.
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

    pub(super) fn returned(&self, returned: &Returned) -> RunEvent {
        let failure = returned.code.as_ref();
        let error = failure
            .map_or(Value::Null, |code| json!({"code": code, "message": cut(&returned.text, TOLD_BYTES)}));
        let outcome = match failure {
            Some(_) => Value::Null,
            None => marked(&self.tool, cut(&returned.text, TOLD_BYTES)).into(),
        };
        self.end(returned.status, outcome, error, returned.duration_ms)
    }

    pub(super) fn refused(&self, unfit: &Unfit) -> RunEvent {
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
