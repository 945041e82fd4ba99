//! What happens while the host does the work of a node, as it tells the engine.

use serde_json::{Map, Value};

use crate::event::data::value::{ChannelWritten, VariableChanged};
use crate::event::{Event, EventData, EventKind, PayloadError};

/// Something that happened while the host worked, to be recorded before what came of the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What happened.
    pub report: Report,
    pub cause: Option<Cause>,
}

/// What the host can tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// An event that is recorded as it is.
    Event {
        /// What it says.
        data: Box<EventData>,
        /// The members of its payload that this version does not know.
        extra: Map<String, Value>,
    },
    /// The work sets a variable. What was there before is the run's to say.
    SetVariable { name: String, value: Value },
    /// The work writes to a channel. How that is combined with what is there, and when it was written, is the run's to say.
    WriteChannel { channel: String, value: Value },
    /// The work waits for somebody, and this is the last that it tells: what it asks, as a configuration of `core.interrupt`. It may come from a
    /// module, so it is checked when the node is suspended. The host is asked again with the answer, as a
    /// [`Resumption`](super::Resumption).
    Ask(Map<String, Value>),
}

/// What caused something that happened while the host worked.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Something else that happened then: its place among them.
    Reported(usize),
    /// Something outside, by its id.
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

    /// With its cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// The event, where it is one that is recorded as it is.
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

    /// Its members as JSON: what is kept of an effect, and what is held to the limits.
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

    /// Reads what [`Reported::kind`] and [`Reported::payload`] gave.
    ///
    /// # Errors
    /// When a member that the kind needs is missing, or one is of another type.
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

    /// What the host told, from the event that was recorded of it.
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

    /// Whether it changes what others see, so that it waits for the end of the work.
    pub(super) const fn decides(&self) -> bool {
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
    fn what_is_told_is_read_back_as_itself() {
        let usage = json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 2, "newer": [1]});
        let rows = [
            (EventKind::VariableChanged, json!({"name": "a", "next": null})),
            (EventKind::ChannelWritten, json!({"channel": "c", "value": [1]})),
            (EventKind::InterruptRequested, json!({"kind": "anything", "more": 1})),
            (EventKind::ProviderUsage, usage),
            (EventKind::Other("acme.thing".into()), json!({"a": 1})),
        ];
        for (kind, payload) in rows {
            let told = Reported::read(kind.clone(), payload.as_object().unwrap().clone()).unwrap();
            assert_eq!((told.kind(), Value::Object(told.payload())), (kind, payload));
        }
        for (kind, member) in [(EventKind::VariableChanged, "name"), (EventKind::ChannelWritten, "channel")] {
            let error = Reported::read(kind.clone(), Map::new()).unwrap_err();
            assert_eq!(error.to_string(), format!("the payload of `{kind}` has no `{member}`"));
        }
    }
}
