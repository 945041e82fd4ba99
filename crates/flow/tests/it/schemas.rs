//! The published schemas, if they are available.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use flow::event::Event;
use flow::event::wire::RawEvent;
use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/openwop")
}

struct Schemas {
    payloads: BTreeMap<String, Validator>,
    snapshot: Validator,
    conversation: Validator,
}

fn schemas() -> Option<&'static Schemas> {
    static SCHEMAS: OnceLock<Option<Schemas>> = OnceLock::new();
    SCHEMAS.get_or_init(read).as_ref()
}

fn read() -> Option<Schemas> {
    let Ok(files) = std::fs::read_dir(folder().join("schemas")) else {
        eprintln!("NOT CHECKED: there are no schemas at {}", folder().display());
        return None;
    };
    let mut registry = Registry::new();
    let mut payloads = Value::Null;
    let mut snapshot = Value::Null;
    let mut conversation = Value::Null;
    for file in files {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match name.as_str() {
            // The text of the specification allows additional members that its schema refuses.
            "suspend-request.schema.json" => {
                for member in ["runId", "nodeId", "interruptId", "requestedAt"] {
                    schema["properties"][member] = json!({"type": "string"});
                }
            }
            // The reducer `message` is newer than the pattern.
            "channel-written-payload.schema.json" => {
                schema["properties"]["reducer"]["pattern"] =
                    flow::definition::channel::REDUCER_PATTERN.into();
            }
            "run-event-payloads.schema.json" => {
                // These are newer, too.
                let kinds =
                    schema["$defs"]["capBreached"]["properties"]["kind"]["enum"].as_array_mut().unwrap();
                for kind in ["dispatch-iterations", "decision-steps", "run-steps"] {
                    kinds.push(kind.into());
                }
                for kind in ["append-bytes", "run-bytes", "pattern-bytes"] {
                    kinds.push(kind.into());
                }
                let actions =
                    &mut schema["$defs"]["approvalRequested"]["properties"]["actions"]["items"]["enum"];
                actions.as_array_mut().unwrap().push("edit-accept".into());
                payloads = schema.clone();
            }
            "run-snapshot.schema.json" => snapshot = schema.clone(),
            "conversation-event.schema.json" => conversation = schema.clone(),
            _ => {}
        }
        let id = schema["$id"].as_str().map(str::to_owned);
        registry = registry.add(id.unwrap_or_else(|| format!("urn:{name}")), schema).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let build =
        |schema: &Value| jsonschema::options().with_registry(&registry).offline().build(schema).unwrap();
    let kinds = payloads["$defs"]["_typeIndex"]["properties"].as_object().unwrap();
    let payloads = kinds.iter().map(|(kind, at)| {
        let at = at["$ref"].as_str().unwrap();
        (
            kind.clone(),
            build(
                &json!({"$ref": format!("https://openwop.dev/spec/v1/run-event-payloads.schema.json{at}")}),
            ),
        )
    });
    Some(Schemas {
        payloads: payloads.collect(),
        snapshot: build(&snapshot),
        conversation: build(&conversation),
    })
}

pub(crate) fn check_event(event: &Event) {
    check_shown(&RawEvent::from(event));
}

pub(crate) fn check_shown(event: &RawEvent) {
    let Some(schemas) = schemas() else { return };
    let kind = event.kind.as_str();
    let of_conversation = kind.starts_with("conversation.").then_some(&schemas.conversation);
    let payload = Value::Object(event.payload.clone());
    for validator in schemas.payloads.get(kind).into_iter().chain(of_conversation) {
        if let Some(error) = validator.iter_errors(&payload).next() {
            panic!("{kind} at {}: {error}\n{payload:#}", error.instance_path());
        }
    }
}

pub(crate) fn check_snapshot(snapshot: &Value) {
    let Some(schemas) = schemas() else { return };
    if let Some(error) = schemas.snapshot.iter_errors(snapshot).next() {
        panic!("snapshot at {}: {error}\n{snapshot:#}", error.instance_path());
    }
}

/// The event kinds that the protocol defines under its reserved prefixes.
const RESERVED: [&str; 31] = [
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.paused",
    "run.resumed",
    "run.resuming",
    "run.dead_lettered",
    "run.restored-from-snapshot",
    "run.annotated",
    "node.started",
    "node.completed",
    "node.failed",
    "node.suspended",
    "node.suspend-failed",
    "node.resumed",
    "node.retried",
    "node.skipped",
    "node.cancelled",
    "node.dispatched",
    "approval.requested",
    "approval.received",
    "approval.granted",
    "approval.rejected",
    "approval.overridden",
    "clarification.requested",
    "clarification.resolved",
    "channel.written",
    "cap.breached",
    "replay.diverged",
    "replay.divergedAtRefusal",
];

#[test]
fn no_event_kind_uses_a_reserved_prefix() {
    let prefixes = ["run.", "node.", "approval.", "clarification.", "cap.", "channel.", "replay."];
    for kind in flow::event::EventKind::WRITTEN {
        let kind = kind.as_str();
        let reserved = prefixes.iter().any(|prefix| kind.starts_with(prefix));
        assert!(!reserved || RESERVED.contains(&kind), "{kind} is not one of the protocol");
        if let Some(schemas) = schemas().filter(|_| reserved) {
            assert!(schemas.payloads.contains_key(kind), "{kind} has no published payload");
        }
    }
}
