//! All schemas of the document: those derived from the types of bodies, and those of documents that are passed through unchanged.
//! Requests are closed if unknown fields are refused; replies may get more fields.

use std::sync::LazyLock;

use runs::ApiCode;
use serde_json::{Map, Value, json};

use super::super::routes::{Gates, served};
use super::shapes;
use super::source::{Derived, PATH};

/// Every schema, by name.
pub(super) fn schemas() -> &'static Map<String, Value> {
    // They are constant for the life of the process, and deriving them is expensive.
    static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        let mut derived = Derived::new();
        for shape in served(Gates::ALL).filter_map(|route| shapes::of(route.operation)) {
            shape.request.into_iter().for_each(|request| derived.add_request(request));
            shape.answer.into_iter().for_each(|reply| derived.add_reply(reply));
        }
        let mut schemas = derived.into_schemas();
        schemas.extend(documents());
        schemas
    });
    &SCHEMAS
}

fn documents() -> impl Iterator<Item = (String, Value)> {
    let all = [
        ("Error", error()),
        ("Document", json!({"type": "object", "description": "Any JSON object."})),
        ("Capabilities", capabilities()),
        ("Health", object(&["status"], &json!({"status": {"enum": ["ok", "ready"]}}))),
        ("Workflow", workflow()),
        ("Tools", list("tools", "Tool")),
        (
            "Tool",
            object(
                &["toolId", "source", "safetyTier"],
                &json!({
                    "toolId": text(), "source": {"enum": ["workflow", "mcp"]},
                    "safetyTier": {"enum": ["pure", "read", "write"]}, "inputSchema": {"type": "object"},
                }),
            ),
        ),
        ("Run", run()),
        ("Runs", runs()),
        ("Event", event()),
        ("Events", events()),
        ("Bundle", bundle()),
        ("Interrupt", interrupt()),
        (
            "Message",
            object(
                &["jsonrpc", "method"],
                &json!({"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer"]}, "method": text()}),
            ),
        ),
        (
            "SurfaceCall",
            object(
                &["tenantId", "surface", "op"],
                &json!({"tenantId": text(), "surface": text(), "op": text(), "args": {"type": "object"}}),
            ),
        ),
        ("SurfaceFile", object(&["path"], &json!({"path": text(), "tenantId": text()}))),
        ("PluginCall", object(&["message"], &json!({"message": plugin_message()}))),
        // Packs: the registry and installed packs.
        (
            "Pack",
            object(
                &["name", "latest", "versions"],
                &json!({"name": text(), "latest": text(), "versions": any_object()}),
            ),
        ),
        (
            "PackManifest",
            object(
                &["name", "version", "integrity"],
                &json!({"name": text(), "version": text(), "integrity": integrity()}),
            ),
        ),
        (
            "PublishedPack",
            object(
                &["name", "version", "integrity"],
                &json!({"name": text(), "version": text(), "integrity": integrity()}),
            ),
        ),
        (
            "Packs",
            object(
                &["packs"],
                &json!({
                    "packs": array(&object(&["name", "version", "agents"], &json!({"name": text(), "version": text(), "agents": array(&refer("Agent")), "degraded": array(&text())}))),
                    "unserved": array(&object(&["pack", "code", "message"], &json!({"pack": text(), "code": text(), "message": text()}))),
                }),
            ),
        ),
        (
            "Agents",
            object(&["agents", "total"], &json!({"agents": array(&refer("Agent")), "total": count()})),
        ),
        (
            "Agent",
            object(
                &["agentId", "persona", "modelClass", "packName", "packVersion"],
                &json!({"agentId": text(), "persona": text(), "modelClass": text(), "packName": text(), "packVersion": text()}),
            ),
        ),
        (
            "SeamError",
            json!({"anyOf": [
                refer("Error"),
                object(&["error"], &json!({"error": object(&["code", "message"], &json!({"code": text(), "message": text()}))})),
                // The missing requirements of an install are beside the code.
                object(&["error", "message"], &json!({"error": text(), "message": text()})),
            ]}),
        ),
        (
            "FanOut",
            object(
                &["nextWorkerIds", "config"],
                &json!({"nextWorkerIds": array(&text()), "config": {"type": "object"}}),
            ),
        ),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema))
}

/// A reference to a schema of the document.
fn refer(name: &str) -> Value {
    json!({"$ref": format!("{PATH}{name}")})
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// An object without other fields.
fn closed(required: &[&str], properties: &Value) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

fn array(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object with one list.
fn list(name: &str, of: &str) -> Value {
    object(&[name], &json!({name: array(&refer(of))}))
}

fn text() -> Value {
    json!({"type": "string"})
}

fn text_within(most: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most})
}

fn plugin_message() -> Value {
    let id = json!({"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64});
    closed(
        &["openwop", "type", "id", "method"],
        &json!({
            "openwop": {"const": "ui-plugin/1"}, "type": {"const": "request"}, "id": id, "method": text(),
            "params": {"type": "object"},
        }),
    )
}

fn integrity() -> Value {
    json!({"type": "string", "pattern": "^sha256-[A-Za-z0-9+/]{43}=$"})
}

fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn error() -> Value {
    let mut codes: Vec<&str> = ApiCode::ALL.iter().map(|code| code.as_str()).collect();
    codes.extend(packs::publish::PublishErrorCode::ALL.iter().map(|code| code.as_str()));
    codes.extend(packs::registry::RegistryErrorCode::ALL.iter().map(|code| code.as_str()));
    codes.extend(packs::PackErrorCode::ALL.iter().map(|code| code.as_str()));
    codes.extend(super::super::handlers::OWN_CODES);
    codes.sort_unstable();
    codes.dedup();
    closed(
        &["error", "message"],
        &json!({
            "error": {"type": "string", "enum": codes, "description": "The error code, from a closed set."},
            "message": {"type": "string", "minLength": 1, "description": "What happened and what to do."},
            "details": any_object(),
        }),
    )
}

fn capabilities() -> Value {
    object(
        &["protocolVersion", "implementation", "limits", "capabilities"],
        &json!({
            "protocolVersion": text(), "implementation": any_object(), "limits": any_object(),
            "capabilities": any_object(),
        }),
    )
}

fn workflow() -> Value {
    object(
        &["id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings"],
        &json!({
            "id": {"type": "string", "maxLength": 128, "pattern": "^[a-z][a-z0-9_-]*$"},
            "name": text_within(256), "version": text_within(256),
            "nodes": {"type": "array", "minItems": 1, "items": object(
                &["id", "typeId", "name", "position", "config", "inputs"],
                &json!({
                    "id": text_within(128), "typeId": text_within(256), "name": text(),
                    "position": object(&["x", "y"], &json!({"x": {"type": "number"}, "y": {"type": "number"}})),
                    "config": any_object(), "inputs": any_object(),
                }),
            )},
            "edges": array(&object(
                &["sourceNodeId", "targetNodeId"],
                &json!({"sourceNodeId": text(), "targetNodeId": text()}),
            )),
            "triggers": array(&any_object()), "variables": array(&any_object()), "metadata": any_object(),
            "settings": any_object(),
        }),
    )
}

fn run() -> Value {
    object(
        &["runId", "workflowId", "status", "owner", "inputs", "variables", "nodeStates", "tags", "metadata"],
        &json!({
            "runId": text(), "workflowId": text(), "status": refer("RunStatus"),
            "owner": object(&["tenant", "principal"], &json!({"tenant": text(), "principal": text()})),
            "engineVersion": text(), "eventLogSchemaVersion": {"type": "integer"},
            "inputs": any_object(), "variables": any_object(), "configurable": any_object(),
            "channels": any_object(), "metadata": any_object(), "tags": array(&text()),
            "nodeStates": {"type": "object", "additionalProperties": object(
                &["status", "attempt"],
                &json!({"status": text(), "attempt": count(), "iteration": count(), "startedAt": moment(),
                    "completedAt": moment(), "outputs": any_object(), "error": any_object()}),
            )},
            "startedAt": moment(), "completedAt": moment(), "pausedAt": moment(), "currentNodeId": text(),
            "interrupt": object(
                &["kind", "nodeId", "interruptId", "requestedAt"],
                &json!({"kind": text(), "nodeId": text(), "interruptId": text(), "requestedAt": moment(),
                    "deadline": moment(), "interruptToken": text(), "callbackUrl": text()}),
            ),
            "error": object(&["code", "message"], &json!({"code": text(), "message": text()})),
            "parentRunId": text(), "parentNodeId": text(), "sourceRunId": text(), "parentSeq": count(),
            "forkMode": {"enum": ["replay", "branch"]},
            "childRuns": array(&object(
                &["runId", "workflowId", "nodeId", "status"],
                &json!({"runId": text(), "workflowId": text(), "nodeId": text(), "status": refer("RunStatus")}),
            )),
        }),
    )
}

fn runs() -> Value {
    object(&["runs"], &json!({"runs": array(&refer("Run")), "nextCursor": text()}))
}

fn event() -> Value {
    object(
        &["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        &json!({
            "eventId": text(), "runId": text(), "type": text(), "payload": any_object(), "timestamp": moment(),
            "sequence": count(), "nodeId": text(), "causationId": text(),
        }),
    )
}

fn events() -> Value {
    object(&["events"], &json!({"events": array(&refer("Event")), "isComplete": {"type": "boolean"}}))
}

fn bundle() -> Value {
    object(
        &["bundleVersion", "generatedAt", "host", "run", "events", "truncated"],
        &json!({
            "bundleVersion": text(), "generatedAt": moment(), "host": any_object(), "run": any_object(),
            "events": array(&refer("Event")), "truncated": {"type": "boolean"}, "truncatedReason": text(),
            "redactionApplied": {"type": "boolean"},
        }),
    )
}

fn interrupt() -> Value {
    object(
        &["kind", "key", "resolved", "expiresAt"],
        &json!({"kind": text(), "key": text(), "resolved": {"type": "boolean"}, "expiresAt": moment()}),
    )
}
