//! Requests as JSON, and replies in a protocol of these tests.

use canon::time::Timestamp;
use flow::id::{NodeId, WorkflowId};
use flow::run::RunStatus;
use runs::annotations::{Annotation, NewAnnotation, Signal};
use runs::definitions::RegisteredWorkflow;
use runs::fork::{ForkWay, ForkedRun, NewFork, Overlay};
use runs::interrupts::{AnsweredInterrupt, PausedRun};
use runs::webhooks::{NewWebhook, RegisteredWebhook, SignatureAlgorithm};
use runs::{CreatedRun, Keyed, NewRun, Refusal, StoredReply, Written};
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
        major: openwop::Major::V1,
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
pub(crate) trait WireBody {
    fn reported(self) -> Value;
}

impl WireBody for CreatedRun {
    fn reported(self) -> Value {
        json!({"runId": self.run_id, "status": self.status})
    }
}

impl WireBody for ForkedRun {
    fn reported(self) -> Value {
        json!({"runId": self.run_id, "status": self.status})
    }
}

impl WireBody for RunStatus {
    fn reported(self) -> Value {
        json!({"status": self})
    }
}

impl WireBody for AnsweredInterrupt {
    fn reported(self) -> Value {
        json!({"runId": self.run_id, "nodeId": self.node_id, "status": self.status})
    }
}

impl WireBody for PausedRun {
    fn reported(self) -> Value {
        json!({"at": self.at.map(Timestamp::to_rfc3339), "draining": self.draining})
    }
}

impl WireBody for Timestamp {
    fn reported(self) -> Value {
        json!({"at": self.to_rfc3339()})
    }
}

impl WireBody for RegisteredWebhook {
    fn reported(self) -> Value {
        json!({"webhookId": self.id, "secret": self.secret})
    }
}

impl WireBody for RegisteredWorkflow {
    fn reported(self) -> Value {
        json!({"workflowId": self.workflow_id, "digest": self.digest.to_hex()})
    }
}

impl WireBody for Annotation {
    fn reported(self) -> Value {
        json!(self)
    }
}

impl WireBody for Vec<Result<RunStatus, Refusal>> {
    fn reported(self) -> Value {
        let one = |result: Result<RunStatus, Refusal>| match result {
            Ok(status) => json!({"status": status}),
            Err(refusal) => json!({"error": refusal.code.as_str()}),
        };
        self.into_iter().map(one).collect()
    }
}

fn write<T: WireBody>(result: T) -> StoredReply {
    StoredReply { status: 200, body: result.reported().to_string().into_bytes().into(), replayed: false }
}

/// Writes replies, and records them if there is a key.
pub(crate) fn written<T: WireBody>(keyed: Option<&Keyed>) -> Written<'_, fn(T) -> StoredReply> {
    Written { keyed, write }
}

/// Writes replies, and records them for a key.
pub(crate) fn recorded<T: WireBody>(keyed: &Keyed) -> Written<'_, fn(T) -> StoredReply> {
    written(Some(keyed))
}
