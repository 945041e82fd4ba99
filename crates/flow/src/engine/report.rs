//! What the host reports to the engine while it executes the effect of a node.

use serde_json::{Map, Value};

use crate::event::data::value::{ChannelWritten, VariableChanged};
use crate::event::{Event, EventData, EventKind, PayloadError};

/// A report, to be recorded before the result of the effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    pub report: Report,
    pub cause: Option<Cause>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// An event that is recorded unchanged.
    Event {
        data: Box<EventData>,
        /// Payload members that this version does not know.
        extra: Map<String, Value>,
    },
    /// The node sets a variable. The engine adds the previous value.
    SetVariable { name: String, value: Value },
    /// The node writes to a channel. The engine applies the reducer and adds the time.
    WriteChannel { channel: String, value: Value },
    /// The node asks a question, given as a configuration of `core.interrupt`, and waits. This is the last report of the effect. A module can
    /// send it, so it is validated when the node is suspended. The host gets the answer in a new effect, as a
    /// [`Resumption`](super::Resumption).
    Ask(Map<String, Value>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Another report of the same effect, by its index.
    Reported(usize),
    /// Something external, by its id.
    Id(String),
}

impl From<Report> for Reported {
    fn from(report: Report) -> Self {
        Self { report, cause: None }
    }
}

impl Reported {
    /// An event without a cause.
    pub fn event(data: impl Into<EventData>) -> Self {
        Report::Event { data: Box::new(data.into()), extra: Map::new() }.into()
    }

    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// The event, if it is one that is recorded unchanged.
    pub const fn data(&self) -> Option<&EventData> {
        match &self.report {
            Report::Event { data, .. } => Some(data),
            Report::SetVariable { .. } | Report::WriteChannel { .. } | Report::Ask(_) => None,
        }
    }

    /// The kind of event that it becomes.
    pub fn kind(&self) -> EventKind {
        match &self.report {
            Report::Event { data, .. } => data.kind(),
            Report::SetVariable { .. } => EventKind::VariableChanged,
            Report::WriteChannel { .. } => EventKind::ChannelWritten,
            Report::Ask(_) => EventKind::InterruptRequested,
        }
    }

    /// Its members as JSON, for storing the report with its effect and for checking limits.
    pub fn payload(&self) -> Map<String, Value> {
        let pair = |(name, of): (&str, &str), (value, is): (&str, &Value)| {
            Map::from_iter([(name.to_owned(), of.into()), (value.to_owned(), is.clone())])
        };
        match &self.report {
            Report::Event { data, extra } => {
                let mut members = data.to_members();
                members.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
                members
            }
            Report::SetVariable { name, value } => pair(("name", name), ("next", value)),
            Report::WriteChannel { channel, value } => pair(("channel", channel), ("value", value)),
            Report::Ask(asked) => asked.clone(),
        }
    }

    /// Reads the result of [`Reported::kind`] and [`Reported::payload`].
    ///
    /// # Errors
    /// A required member is missing, or a member has another type.
    pub fn read(kind: EventKind, mut payload: Map<String, Value>) -> Result<Self, PayloadError> {
        let text = |payload: &Map<String, Value>, name: &'static str| {
            payload.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let report = match kind {
            EventKind::InterruptRequested => Report::Ask(payload),
            EventKind::VariableChanged => {
                let name = text(&payload, "name").ok_or(PayloadError::without(kind, "name"))?;
                Report::SetVariable { name, value: payload.remove("next").unwrap_or_default() }
            }
            EventKind::ChannelWritten => {
                let channel = text(&payload, "channel").ok_or(PayloadError::without(kind, "channel"))?;
                Report::WriteChannel { channel, value: payload.remove("value").unwrap_or_default() }
            }
            kind => {
                let (data, extra) = EventData::read(kind, payload)?;
                Report::Event { data: Box::new(data), extra }
            }
        };
        Ok(report.into())
    }

    /// The report from which an event was recorded.
    pub(super) fn recorded(event: &Event, cause: Option<Cause>) -> Self {
        let report = match &event.data {
            EventData::VariableChanged(VariableChanged { name, next, .. }) => {
                Report::SetVariable { name: name.clone(), value: next.clone().unwrap_or_default() }
            }
            EventData::ChannelWritten(ChannelWritten { channel, value, .. }) => {
                Report::WriteChannel { channel: channel.clone(), value: value.clone() }
            }
            EventData::InterruptRequested(_) => Report::Ask(event.payload()),
            data => Report::Event { data: Box::new(data.clone()), extra: event.extra.clone() },
        };
        Self { report, cause }
    }

    /// Whether it changes what others see. Such a report is recorded only at the end of the effect.
    pub(super) const fn changes_run(&self) -> bool {
        match self.report {
            Report::Event { .. } => false,
            Report::SetVariable { .. } | Report::WriteChannel { .. } | Report::Ask(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read_from_its_kind_and_payload() {
        let usage = json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 2, "newer": [1]});
        let rows = [
            (EventKind::VariableChanged, json!({"name": "a", "next": null})),
            (EventKind::ChannelWritten, json!({"channel": "c", "value": [1]})),
            (EventKind::InterruptRequested, json!({"kind": "anything", "more": 1})),
            (EventKind::ProviderUsage, usage),
            (EventKind::Other("acme.thing".into()), json!({"a": 1})),
        ];
        for (kind, payload) in rows {
            let report = Reported::read(kind.clone(), payload.as_object().unwrap().clone()).unwrap();
            assert_eq!((report.kind(), Value::Object(report.payload())), (kind, payload));
        }
        for (kind, member) in [(EventKind::VariableChanged, "name"), (EventKind::ChannelWritten, "channel")] {
            let error = Reported::read(kind.clone(), Map::new()).unwrap_err();
            assert_eq!(error.to_string(), format!("the payload of `{kind}` has no `{member}`"));
        }
    }
}
