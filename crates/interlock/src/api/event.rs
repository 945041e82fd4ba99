//! One event of a run, and one readable line for it.

use anstyle::Style;
use serde_json::Value;

use crate::output::{self, BAD, DIM, GOOD, WARNING};

/// The longest value in a line.
const VALUE_CHARACTERS: usize = 60;
/// How many members of an unknown payload are shown.
const SHOWN_MEMBERS: usize = 3;

pub(crate) struct Event(Value);

impl Event {
    pub(crate) const fn new(document: Value) -> Self {
        Self(document)
    }

    pub(crate) const fn document(&self) -> &Value {
        &self.0
    }

    pub(crate) fn sequence(&self) -> Option<u64> {
        self.0["sequence"].as_u64()
    }

    pub(crate) fn kind(&self) -> &str {
        self.0["type"].as_str().unwrap_or_default()
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.0["nodeId"].as_str()
    }

    /// Whether the run cannot continue without a person.
    pub(crate) fn needs_person(&self) -> bool {
        self.kind() == "interrupt.requested"
    }

    pub(crate) fn ends_run(&self) -> bool {
        matches!(self.kind(), "run.completed" | "run.failed" | "run.cancelled")
    }

    pub(crate) fn is_error(&self) -> bool {
        self.kind().ends_with(".failed")
            || self.kind().ends_with(".rejected")
            || self.kind() == "cap.breached"
    }

    pub(crate) fn style(&self) -> Style {
        match self.kind() {
            "run.completed" | "node.completed" | "approval.granted" => GOOD,
            "run.cancelled" => BAD,
            "interrupt.requested" | "node.suspended" | "node.retried" => WARNING,
            _ if self.is_error() => BAD,
            _ => DIM,
        }
    }

    /// `#12  14:02:11.204  node.failed  page  POST timed out`
    pub(crate) fn line(&self) -> String {
        let sequence = self.sequence().map_or_else(|| "-".to_owned(), |sequence| format!("#{sequence}"));
        let time = self.0["timestamp"].as_str().and_then(|time| time.get(11..23)).unwrap_or_default();
        let (kind, node) = (output::clean(self.kind()), output::clean(self.node().unwrap_or_default()));
        let line = format!(
            "{} {}  {}  {}  {}",
            padded(&sequence, 5, DIM),
            padded(time, 12, DIM),
            padded(&kind, 24, self.style()),
            padded(&node, 16, Style::new()),
            self.summary()
        );
        line.trim_end().to_owned()
    }

    /// The payload in a few words, never as raw JSON.
    fn summary(&self) -> String {
        let payload = &self.0["payload"];
        if let Some(message) = payload.pointer("/error/message").and_then(Value::as_str) {
            let code = payload.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
            return format!("{code}: {}", output::clean(message));
        }
        let text = |name: &str| payload[name].as_str().map(|text| output::shortened(text, VALUE_CHARACTERS));
        match self.kind() {
            "run.started" => members(&payload["inputs"]),
            "node.completed" => members(&payload["outputs"]),
            "interrupt.requested" => {
                text("title").or_else(|| pointer(payload, "/data/title")).unwrap_or_default()
            }
            _ => members(payload),
        }
    }
}

/// A text in a column. The spaces are not styled, so that they can be removed at the end of a line.
fn padded(text: &str, width: usize, style: Style) -> String {
    let fill = width.saturating_sub(text.chars().count());
    match text {
        "" => " ".repeat(width),
        text => format!("{style}{text}{style:#}{:fill$}", ""),
    }
}

fn pointer(payload: &Value, at: &str) -> Option<String> {
    Some(output::shortened(payload.pointer(at)?.as_str()?, VALUE_CHARACTERS))
}

/// The first scalar members as `name = value`.
pub(super) fn members(value: &Value) -> String {
    let scalar = |(name, value): (&String, &Value)| {
        let shown = match value {
            Value::String(text) => output::shortened(text, VALUE_CHARACTERS),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(format!("{} = {shown}", output::clean(name)))
    };
    let shown: Vec<_> =
        value.as_object().into_iter().flatten().filter_map(scalar).take(SHOWN_MEMBERS).collect();
    shown.join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(event: Value) -> String {
        anstream::adapter::strip_str(&Event::new(event).line()).to_string()
    }

    #[test]
    fn an_event_is_one_readable_line() {
        let time = "2026-11-16T13:02:11.204Z";
        for (event, expected) in [
            (
                json!({"sequence": 0, "type": "run.started", "timestamp": time, "payload": {"inputs": {"n": 1, "text": "x\ny", "list": []}}}),
                "#0    13:02:11.204  run.started                                 n = 1 · text = x y",
            ),
            (
                json!({"sequence": 12, "type": "node.failed", "nodeId": "page", "timestamp": time, "payload": {"error": {"code": "upstream_timeout", "message": "no answer"}}}),
                "#12   13:02:11.204  node.failed               page              upstream_timeout: no answer",
            ),
            (json!({}), "-"),
            (json!({"type": "é", "timestamp": "2026-11-16T1é"}), "-                   é"),
        ] {
            assert_eq!(plain(event), expected);
        }
    }
}
