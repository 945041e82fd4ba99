//! Requests as JSON, and replies in a protocol of these tests.

use canon::time::Timestamp;
use flow::id::{NodeId, WorkflowId};
use flow::run::RunStatus;
use host::runs::annotations::{Annotation, NewAnnotation, Signal};
use host::runs::definitions::RegisteredWorkflow;
use host::runs::fork::{ForkWay, ForkedRun, NewFork, Overlay};
use host::runs::interrupts::{AnsweredInterrupt, PausedRun};
use host::runs::webhooks::{NewWebhook, RegisteredWebhook, SignatureAlgorithm};
use host::runs::{CreatedRun, Keyed, NewRun, Refusal, StoredReply, Written};
use serde_json::{Map, Value, json};

fn object(request: &Value, name: &str) -> Option<Map<String, Value>> {
    request.get(name).map(|member| member.as_object().unwrap().clone())
}

fn text(request: &Value, name: &str) -> Option<String> {
    request.get(name).map(|member| member.as_str().unwrap().to_owned())
}

fn texts(request: &Value, name: &str) -> Option<Vec<String>> {
    let items = request.get(name)?.as_array().unwrap();
    Some(items.iter().map(|item| item.as_str().unwrap().to_owned()).collect())
}

pub(crate) fn new_run(request: &Value) -> NewRun {
    NewRun {
        workflow_id: WorkflowId::new(request["workflowId"].as_str().unwrap()),
        inputs: object(request, "inputs").unwrap_or_default(),
        configurable: object(request, "configurable").unwrap_or_default(),
        tags: texts(request, "tags").unwrap_or_default(),
        metadata: object(request, "metadata").unwrap_or_default(),
        scope_id: text(request, "scopeId"),
        callback_url: text(request, "callbackUrl"),
    }
}

pub(crate) fn new_fork(request: &Value) -> NewFork {
    let overlay = request.get("runOptionsOverlay").unwrap_or(&Value::Null);
    let way = match request["mode"].as_str().unwrap() {
        "replay" => ForkWay::Replay,
        "branch" => ForkWay::Branch(Overlay {
            configurable: object(overlay, "configurable"),
            tags: texts(overlay, "tags"),
            metadata: object(overlay, "metadata"),
        }),
        other => panic!("there is no mode {other}"),
    };
    NewFork { from: request["fromSeq"].as_u64().unwrap_or(0), way }
}

pub(crate) fn new_webhook(request: &Value) -> NewWebhook {
    NewWebhook {
        url: text(request, "url").unwrap(),
        events: texts(request, "events").unwrap(),
        tags: texts(request, "tags").unwrap_or_default(),
        secret: text(request, "secret"),
        algorithms: texts(request, "signatureAlgorithms")
            .map(|listed| listed.iter().map(|name| SignatureAlgorithm::parse(name).unwrap()).collect()),
    }
}

pub(crate) fn new_note(request: &Value) -> NewAnnotation {
    let target = request.get("target").unwrap_or(&Value::Null);
    let signal: Signal = serde_json::from_value(request["signal"].clone()).unwrap();
    NewAnnotation {
        event_id: text(target, "eventId"),
        node_id: text(target, "nodeId").map(NodeId::new),
        signal,
        note: text(request, "note"),
    }
}

/// The reply for a result in the protocol of these tests.
pub(crate) trait Told {
    fn told(self) -> Value;
}

impl Told for CreatedRun {
    fn told(self) -> Value {
        json!({"runId": self.run_id, "status": self.status})
    }
}

impl Told for ForkedRun {
    fn told(self) -> Value {
        json!({"runId": self.run_id, "status": self.status})
    }
}

impl Told for RunStatus {
    fn told(self) -> Value {
        json!({"status": self})
    }
}

impl Told for AnsweredInterrupt {
    fn told(self) -> Value {
        json!({"runId": self.run_id, "nodeId": self.node_id, "status": self.status})
    }
}

impl Told for PausedRun {
    fn told(self) -> Value {
        json!({"at": self.at.map(Timestamp::to_rfc3339), "draining": self.draining})
    }
}

impl Told for Timestamp {
    fn told(self) -> Value {
        json!({"at": self.to_rfc3339()})
    }
}

impl Told for RegisteredWebhook {
    fn told(self) -> Value {
        json!({"webhookId": self.id, "secret": self.secret})
    }
}

impl Told for RegisteredWorkflow {
    fn told(self) -> Value {
        json!({"workflowId": self.workflow_id, "digest": self.digest.to_hex()})
    }
}

impl Told for Annotation {
    fn told(self) -> Value {
        json!(self)
    }
}

impl Told for Vec<Result<RunStatus, Refusal>> {
    fn told(self) -> Value {
        let one = |result: Result<RunStatus, Refusal>| match result {
            Ok(status) => json!({"status": status}),
            Err(refusal) => json!({"error": refusal.code.as_str()}),
        };
        self.into_iter().map(one).collect()
    }
}

fn write<T: Told>(result: T) -> StoredReply {
    StoredReply { status: 200, body: result.told().to_string().into_bytes().into(), replayed: false }
}

/// Writes replies, and records them if there is a key.
pub(crate) fn written<T: Told>(keyed: Option<&Keyed>) -> Written<'_, fn(T) -> StoredReply> {
    Written { keyed, write }
}

/// Writes replies, and records them for a key.
pub(crate) fn recorded<T: Told>(keyed: &Keyed) -> Written<'_, fn(T) -> StoredReply> {
    written(Some(keyed))
}
