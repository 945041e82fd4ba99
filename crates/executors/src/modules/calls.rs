//! The host calls of a module.

use flow::channel::ChannelView;
use flow::engine::{Report, Reported};
use flow::event::data::value::LogAppended;
use flow::failure::FailureCode;
use sandbox::{HostCalls, InterruptAnswer, LogLevel, Status};
use serde_json::{Map, Value};

use super::super::NodeRequest;

/// The maximum number of recorded log messages per call.
const MAX_LOGS: usize = 100;

/// The host side of a module call.
pub(super) struct Calls {
    variables: Map<String, Value>,
    channels: ChannelView,
    now_ms: i64,
    /// What the module did, in order.
    pub(super) reports: Vec<Reported>,
    /// The answer to the next question.
    answer: Option<Value>,
    /// Whether the module asked a question that is not answered yet.
    pub(super) waits: bool,
    logged: usize,
}

impl Calls {
    pub(super) fn new(asked: NodeRequest<'_>, answer: Option<Value>) -> Self {
        Self {
            variables: readable(asked),
            channels: asked.call.channels.clone(),
            now_ms: i64::try_from(asked.now.0).unwrap_or(i64::MAX),
            reports: Vec::new(),
            answer,
            waits: false,
            logged: 0,
        }
    }
}

/// The variables that a node may read. `core.channelWrite` copies a channel to a variable; the copy is hidden if the node may not read the channel.
pub(super) fn readable(asked: NodeRequest<'_>) -> Map<String, Value> {
    let open = asked.call.variables.iter().filter(|(name, _)| !asked.call.channels.hides(name));
    open.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl HostCalls for Calls {
    fn channel_read(&mut self, name: &str) -> Option<Value> {
        self.channels.read(name)
    }

    /// A run is pinned to one definition and one engine, so a write always has the current schema version.
    fn channel_write(&mut self, name: &str, value: Value) -> Status {
        match self.channels.write(name, &value) {
            Ok(()) => {
                self.reports.push(Report::WriteChannel { channel: name.to_owned(), value }.into());
                Status::Ok
            }
            Err(error) if error.has_code(FailureCode::ChannelAccessDenied) => Status::ChannelAccessDenied,
            Err(_) => Status::ValidationError,
        }
    }

    fn variable_get(&mut self, key: &str) -> Option<Value> {
        self.variables.get(key).cloned()
    }

    fn variable_set(&mut self, key: &str, value: Value) -> Status {
        // Channels can only be written through their reducers.
        if self.channels.declares(key) {
            return Status::ValidationError;
        }
        self.variables.insert(key.to_owned(), value.clone());
        self.reports.push(Report::SetVariable { name: key.to_owned(), value }.into());
        Status::Ok
    }

    fn interrupt(&mut self, _payload: &Value) -> InterruptAnswer {
        match self.answer.take() {
            Some(answer) => InterruptAnswer::Resume(answer),
            None => {
                self.waits = true;
                InterruptAnswer::Suspend
            }
        }
    }

    fn now_ms(&mut self) -> Option<i64> {
        Some(self.now_ms)
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        if self.logged < MAX_LOGS {
            self.logged += 1;
            let level = match level {
                LogLevel::Trace | LogLevel::Debug => "debug",
                LogLevel::Info => "info",
                LogLevel::Warn => "warn",
                LogLevel::Error => "error",
            };
            self.reports.push(Reported::event(LogAppended {
                content_trust: None,
                fields: None,
                level: level.into(),
                message: message.to_owned(),
                node_id: None,
            }));
        }
    }
}
