//! The stored record of an effect.

use flow::engine::{Cause, Reported};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Map, Value, json};

use super::{Performed, report};

/// The document to store.
pub fn write(performed: &Performed) -> Value {
    let mut document = match &performed.outcome {
        Ok(value) => json!({"value": value}),
        Err(error) => json!({"error": error.to_json()}),
    };
    if !performed.reports.is_empty() {
        document["told"] = performed.reports.iter().map(write_report).collect();
    }
    document
}

fn write_report(reported: &Reported) -> Value {
    let mut document = json!({"type": reported.kind().as_str(), "payload": reported.payload()});
    match &reported.cause {
        None => {}
        Some(Cause::Reported(index)) => document["causedBy"] = (*index).into(),
        Some(Cause::Id(id)) => document["causationId"] = id.as_str().into(),
    }
    document
}

/// Reads a stored document.
pub fn read(bytes: &[u8]) -> Performed {
    let Ok(Value::Object(mut document)) = serde_json::from_slice(bytes) else {
        let message = "the stored record of this effect cannot be read; the effect is not executed again";
        return Performed::plain(Err(RunError::of(FailureCode::EffectOutcomeUnknown, message)));
    };
    let reports = match document.remove("told") {
        Some(Value::Array(reports)) => reports.into_iter().filter_map(read_report).collect(),
        _ => Vec::new(),
    };
    let outcome = match document.get("error") {
        Some(error) => Err(RunError::from_json(error)),
        None => Ok(document.remove("value").unwrap_or_default()),
    };
    Performed { reports, outcome }
}

fn read_report(document: Value) -> Option<Reported> {
    let Value::Object(mut document) = document else { return None };
    let kind = EventKind::parse(document.get("type")?.as_str()?);
    let index =
        document.get("causedBy").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    let id = document.get("causationId").and_then(Value::as_str).map(str::to_owned);
    let payload: Map<String, Value> = match document.remove("payload")? {
        Value::Object(payload) => payload,
        _ => return None,
    };
    Some(Reported {
        cause: index.map(Cause::Reported).or_else(|| id.map(Cause::Id)),
        ..report(kind, payload)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_unchanged() {
        let read_back =
            |kind, payload: Value| Reported::read(kind, payload.as_object().unwrap().clone()).unwrap();
        let call = json!({"agentId": "a", "callId": "c", "toolId": "t", "toolName": "t"});
        let mut returned = call.clone();
        returned["status"] = "ok".into();
        let usage = json!({"model": "m", "provider": "p", "inputTokens": 1, "outputTokens": 2});
        let reports = vec![
            read_back(EventKind::AgentToolCalled, call),
            read_back(EventKind::AgentToolReturned, returned).because(Cause::Reported(0)),
            read_back(EventKind::ProviderUsage, usage).because(Cause::Id("turn".into())),
            read_back(EventKind::VariableChanged, json!({"name": "v", "next": null})),
            read_back(EventKind::ChannelWritten, json!({"channel": "c", "value": 1})),
            read_back(EventKind::InterruptRequested, json!({"kind": "approval"})),
        ];
        let failure = RunError::new("kv_key_too_large", "too large").with(json!({"limit": 3}));
        for outcome in [Ok(json!({"a": 1})), Ok(Value::Null), Err(failure)] {
            for reports in [Vec::new(), reports.clone()] {
                let performed = Performed { reports, outcome: outcome.clone() };
                assert_eq!(read(write(&performed).to_string().as_bytes()), performed);
            }
        }
    }

    #[test]
    fn an_unreadable_record_is_an_unknown_outcome() {
        let read = read(b"\xff");
        assert_eq!(read.outcome.unwrap_err().code, "effect_outcome_unknown");
    }
}
