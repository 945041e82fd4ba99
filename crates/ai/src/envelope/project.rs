//! The run events that follow from an envelope.
//!
//! Envelopes have no event types of their own: they become clarifications, log lines or failures.

use serde_json::{Map, Value, json};

use super::accept::Verdict;
use super::contract::RefusalMode;
use super::document::Envelope;
use super::kind::Universal;
use super::outcome::EnvelopeOutcome;
use crate::event::{self, EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::trust::Trust;

/// The events and their common attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    pub events: Vec<RunEvent>,
    /// The cause of the events: the correlation id of the envelope.
    pub causation_id: Option<String>,
    pub content_trust: Trust,
}

/// The events of a verdict. A duplicate envelope has none, because they are already recorded.
pub fn project(verdict: &Verdict, node_id: &str, refusal_mode: RefusalMode) -> Projection {
    let envelope = verdict.envelope.as_ref();
    let events = match &verdict.outcome {
        EnvelopeOutcome::Recorded(_) => Vec::new(),
        EnvelopeOutcome::Accepted { .. } => {
            envelope.map(|envelope| accepted(envelope, node_id)).unwrap_or_default()
        }
        EnvelopeOutcome::Gated { reason, .. } if refusal_mode == RefusalMode::DiscardAndWarn => {
            vec![event::log("warn", reason.clone(), Some(node_id), Map::new())]
        }
        EnvelopeOutcome::Gated { reason, allowed_kinds } => {
            let refused = envelope.map(|envelope| envelope.kind.as_str());
            let details = json!({"refusedType": refused, "acceptedTypes": allowed_kinds});
            vec![failed(node_id, FailureCode::EnvelopeContractViolation, reason, &details)]
        }
        EnvelopeOutcome::Invalid { reason, .. } => {
            let details = json!({"reason": reason, "outcome": verdict.outcome.to_value()});
            vec![failed(node_id, FailureCode::EnvelopeValidationFailed, reason, &details)]
        }
        EnvelopeOutcome::Breached { reason, cap, limit, observed } => {
            let details = json!({"capKind": cap.as_str(), "limit": limit, "observed": observed});
            vec![
                event::cap_breached(cap.as_str(), *limit, *observed, Some(node_id)),
                failed(node_id, FailureCode::CapBreached, reason, &details),
            ]
        }
    };
    Projection {
        events,
        causation_id: envelope.map(|envelope| envelope.correlation_id.clone()),
        content_trust: verdict.trust,
    }
}

fn accepted(envelope: &Envelope, node_id: &str) -> Vec<RunEvent> {
    let part = |name: &str| envelope.payload.get(name).cloned().unwrap_or_default();
    let fields = |more: &[(&str, Value)]| {
        let own = [
            ("envelopeType", envelope.kind.as_str().into()),
            ("envelopeId", envelope.envelope_id.as_str().into()),
        ];
        let all = own.into_iter().chain(more.iter().cloned());
        all.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
    };
    let line = |level: &str, message: String, more: &[(&str, Value)]| {
        vec![event::log(level, message, Some(node_id), fields(more))]
    };
    match Universal::parse(&envelope.kind) {
        Some(Universal::ClarificationRequest) => clarification(envelope, node_id),
        Some(Universal::SchemaRequest) => line(
            "debug",
            "the model requested the schema of an envelope kind".to_owned(),
            &[("requestedType", part("envelopeType"))],
        ),
        Some(Universal::SchemaResponse) => line(
            "debug",
            "the model confirmed the schema of an envelope kind".to_owned(),
            &[("requestedType", part("envelopeType"))],
        ),
        Some(Universal::Error) => {
            let message = part("message").as_str().unwrap_or_default().to_owned();
            line("error", message, &[("code", part("code")), ("details", part("details"))])
        }
        None => line(
            "info",
            format!("the model sent `{}`", envelope.kind),
            &[("payload", envelope.payload.clone())],
        ),
    }
}

/// A clarification request becomes an interrupt, with the questions in order.
fn clarification(envelope: &Envelope, node_id: &str) -> Vec<RunEvent> {
    let questions = envelope.payload.get("questions").and_then(Value::as_array).cloned().unwrap_or_default();
    let asked = |question: &Value| {
        let wanted = ["id", "question", "schema"].into_iter();
        let members = wanted.filter_map(|name| Some((name.to_owned(), question.get(name)?.clone())));
        Value::Object(members.collect())
    };
    let mut data = json!({"questions": questions.iter().map(asked).collect::<Vec<_>>()});
    if let Some(context) = envelope.payload.get("contextType") {
        data["contextType"] = context.clone();
    }
    vec![
        RunEvent::new(
            EventKind::ClarificationRequested,
            [("nodeId", node_id.into()), ("questions", questions.into())],
        ),
        RunEvent::new(
            EventKind::InterruptRequested,
            [("kind", "clarification".into()), ("key", envelope.envelope_id.as_str().into()), ("data", data)],
        ),
    ]
}

fn failed(node_id: &str, code: FailureCode, message: &str, details: &Value) -> RunEvent {
    let error = json!({"code": code.as_str(), "message": message, "details": details});
    RunEvent::new(EventKind::NodeFailed, [("nodeId", node_id.into()), ("error", error)])
}
