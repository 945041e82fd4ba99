//! What came of the work of a node, as the store keeps it.

use flow::engine::{Cause, Reported};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Map, Value, json};

use super::{Performed, told};

/// The document that is kept.
pub(crate) fn write(performed: &Performed) -> Value {
    let mut document = match &performed.outcome {
        Ok(value) => json!({"value": value}),
        Err(error) => json!({"error": error.to_json()}),
    };
    if !performed.told.is_empty() {
        document["told"] = performed.told.iter().map(write_told).collect();
    }
    document
}

fn write_told(told: &Reported) -> Value {
    let mut document = json!({"type": told.kind().as_str(), "payload": told.payload()});
    match &told.cause {
        None => {}
        Some(Cause::Reported(place)) => document["causedBy"] = (*place).into(),
        Some(Cause::Id(id)) => document["causationId"] = id.as_str().into(),
    }
    document
}

/// What was kept.
pub(crate) fn read(bytes: &[u8]) -> Performed {
    let Ok(Value::Object(mut document)) = serde_json::from_slice(bytes) else {
        let message = "what the store keeps of this effect cannot be read; it is not made again";
        return Performed::plain(Err(RunError::of(FailureCode::EffectOutcomeUnknown, message)));
    };
    let told = match document.remove("told") {
        Some(Value::Array(told)) => told.into_iter().filter_map(read_told).collect(),
        _ => Vec::new(),
    };
    let outcome = match document.get("error") {
        Some(error) => Err(RunError::from_json(error)),
        None => Ok(document.remove("value").unwrap_or_default()),
    };
    Performed { told, outcome }
}

fn read_told(document: Value) -> Option<Reported> {
    let Value::Object(mut document) = document else { return None };
    let kind = EventKind::parse(document.get("type")?.as_str()?);
    let place =
        document.get("causedBy").and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
    let id = document.get("causationId").and_then(Value::as_str).map(str::to_owned);
    let payload: Map<String, Value> = match document.remove("payload")? {
        Value::Object(payload) => payload,
        _ => return None,
    };
    Some(Reported { cause: place.map(Cause::Reported).or_else(|| id.map(Cause::Id)), ..told(kind, payload) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_happened() {
        let read_back =
            |kind, payload: Value| Reported::read(kind, payload.as_object().unwrap().clone()).unwrap();
        let call = json!({"agentId": "a", "callId": "c", "toolId": "t", "toolName": "t"});
        let mut returned = call.clone();
        returned["status"] = "ok".into();
        let usage = json!({"model": "m", "provider": "p", "inputTokens": 1, "outputTokens": 2});
        let told = vec![
            read_back(EventKind::AgentToolCalled, call),
            read_back(EventKind::AgentToolReturned, returned).because(Cause::Reported(0)),
            read_back(EventKind::ProviderUsage, usage).because(Cause::Id("turn".into())),
            read_back(EventKind::VariableChanged, json!({"name": "v", "next": null})),
            read_back(EventKind::ChannelWritten, json!({"channel": "c", "value": 1})),
            read_back(EventKind::InterruptRequested, json!({"kind": "approval"})),
        ];
        let failure = RunError::new("kv_key_too_large", "too large").with(json!({"limit": 3}));
        for outcome in [Ok(json!({"a": 1})), Ok(Value::Null), Err(failure)] {
            for told in [Vec::new(), told.clone()] {
                let performed = Performed { told, outcome: outcome.clone() };
                assert_eq!(read(write(&performed).to_string().as_bytes()), performed);
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_done_again() {
        let read = read(b"\xff");
        assert_eq!(read.outcome.unwrap_err().code, "effect_outcome_unknown");
    }
}
