//! The protocol's schemas and fixtures, if they are available.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use ai::event::{EventKind, RunEvent};
use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/openwop")
}

/// A document of the protocol, if available.
pub(crate) fn file(path: &str) -> Option<Value> {
    let path = folder().join(path);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
        Err(_) => {
            eprintln!("NOT CHECKED: {} is missing", path.display());
            None
        }
    }
}

/// The documents of a protocol folder, if available.
pub(crate) fn files(path: &str) -> Vec<Value> {
    let path = folder().join(path);
    let Ok(entries) = std::fs::read_dir(&path) else {
        eprintln!("NOT CHECKED: {} is missing", path.display());
        return Vec::new();
    };
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("json".as_ref()));
    paths.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect()
}

fn payloads() -> Option<&'static BTreeMap<EventKind, Validator>> {
    static PAYLOADS: OnceLock<Option<BTreeMap<EventKind, Validator>>> = OnceLock::new();
    PAYLOADS.get_or_init(compiled).as_ref()
}

fn compiled() -> Option<BTreeMap<EventKind, Validator>> {
    file("schemas/run-event-payloads.schema.json")?;
    let base = "https://openwop.dev/spec/v1/";
    let mut registry = Registry::new();
    for mut schema in files("schemas") {
        let Some(id) = schema.get("$id").and_then(Value::as_str).map(ToOwned::to_owned) else { continue };
        if let Some(members) = schema.as_object_mut() {
            members.remove("$schema");
        }
        registry = registry.add(id, schema).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let names = [
        (EventKind::PromptResolved, "agentPromptResolved"),
        (EventKind::PromptComposed, "promptComposed"),
        (EventKind::ProviderUsage, "providerUsage"),
        (EventKind::RetryAttempted, "envelopeRetryAttempted"),
        (EventKind::RetryExhausted, "envelopeRetryExhausted"),
        (EventKind::Refusal, "envelopeRefusal"),
        (EventKind::Truncated, "envelopeTruncated"),
        (EventKind::NlToFormatEngaged, "envelopeNlToFormatEngaged"),
        (EventKind::RecoveryApplied, "envelopeRecoveryApplied"),
        (EventKind::CapBreached, "capBreached"),
        (EventKind::ReasoningDelta, "agentReasoningDelta"),
        (EventKind::Reasoned, "agentReasoned"),
        (EventKind::ToolCalled, "agentToolCalled"),
        (EventKind::ToolReturned, "agentToolReturned"),
        (EventKind::ModelSubstituted, "modelCapabilitySubstituted"),
        (EventKind::ModelInsufficient, "modelCapabilityInsufficient"),
        (EventKind::ClarificationRequested, "clarificationRequested"),
        (EventKind::InterruptRequested, "interruptRequested"),
        (EventKind::LogAppended, "logAppended"),
        (EventKind::NodeFailed, "nodeFailed"),
        (EventKind::OutputChunk, "outputChunk"),
        (EventKind::DivergedAtRefusal, "replayDivergedAtRefusal"),
    ];
    let validator = |name: &str| {
        let schema = json!({"$ref": format!("{base}run-event-payloads.schema.json#/$defs/{name}")});
        jsonschema::options().with_registry(&registry).build(&schema).unwrap()
    };
    assert_eq!(names.len(), EventKind::ALL.len(), "every event type is checked");
    Some(names.into_iter().map(|(kind, name)| (kind, validator(name))).collect())
}

/// Validates events with the protocol schemas.
#[track_caller]
pub(crate) fn check(events: &[RunEvent]) {
    let Some(payloads) = payloads() else { return };
    for event in events {
        let payload = Value::Object(event.payload.clone());
        let validator = payloads.get(&event.kind).unwrap_or_else(|| panic!("no schema of {}", event.kind));
        let errors: Vec<String> = validator.iter_errors(&payload).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}\n{payload}", event.kind);
    }
}
