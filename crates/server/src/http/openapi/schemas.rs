//! The bodies, as JSON Schema. Requests are closed where unknown members are refused; answers may grow.

use flow::run::RunStatus;
use host::runs::ApiCode;
use host::runs::bulk::MAX_BULK;
use serde_json::{Map, Value, json};

/// Every schema, by name.
pub(super) fn schemas() -> Map<String, Value> {
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
        ("Workflows", list("workflows", "Registered")),
        ("Registered", object(&["workflowId", "digest"], &json!({"workflowId": text(), "digest": digest()}))),
        ("RunStatus", json!({"enum": RunStatus::ALL.map(RunStatus::as_str)})),
        ("RunRequest", run_request()),
        ("Created", created()),
        ("Run", run()),
        ("Runs", runs()),
        ("Reason", closed(&[], &json!({"reason": reason()}))),
        ("Pause", pause()),
        ("Status", object(&["runId", "status"], &json!({"runId": text(), "status": refer("RunStatus")}))),
        ("Many", many()),
        (
            "Results",
            json!({"type": "object", "required": ["results"], "properties": {"results": array(&result())}}),
        ),
        ("Fork", fork()),
        ("Difference", difference()),
        ("Ancestry", ancestry()),
        ("Event", event()),
        ("Events", events()),
        ("AnnotationRequest", annotation_request()),
        ("Annotation", annotation()),
        ("Annotations", list("annotations", "Annotation")),
        ("Bundle", bundle()),
        ("RunReference", object(&["runId"], &json!({"runId": text()}))),
        ("Resolution", object(&["resumeValue"], &json!({"resumeValue": {"description": "The answer."}}))),
        ("Interrupt", interrupt()),
        ("Webhook", webhook()),
        ("Webhooks", list("webhooks", "Webhook")),
        ("WebhookRequest", webhook_request()),
        ("Subscribed", subscribed()),
        ("Verified", verified()),
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
        // Packs: a registry, and what is installed.
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
        ("Deprecation", closed(&[], &json!({"reason": reason(), "supersededBy": reason()}))),
        (
            "KeyRotation",
            closed(
                &["kid", "publicKey", "validFrom", "rotationProof"],
                &json!({"kid": text(), "publicKey": text(), "validFrom": text(), "rotationProof": text()}),
            ),
        ),
        (
            "SeamError",
            json!({"anyOf": [
                refer("Error"),
                object(&["error"], &json!({"error": object(&["code", "message"], &json!({"code": text(), "message": text()}))})),
                // What an install lacks stands beside the code.
                object(&["error", "message"], &json!({"error": text(), "message": text()})),
            ]}),
        ),
        ("Nothing", closed(&[], &json!({}))),
        ("Variables", closed(&["variables"], &json!({"variables": {"type": "object"}}))),
        (
            "FanOut",
            object(
                &["nextWorkerIds", "config"],
                &json!({"nextWorkerIds": array(&text()), "config": {"type": "object"}}),
            ),
        ),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// A reference to a schema of the document.
pub(super) fn refer(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// An object that has no other members.
fn closed(required: &[&str], properties: &Value) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

fn array(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object with one list in it.
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

fn reason() -> Value {
    json!({"type": ["string", "null"], "maxLength": 1024})
}

fn digest() -> Value {
    json!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
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

fn optional_object() -> Value {
    json!({"type": ["object", "null"]})
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
            "error": {"type": "string", "enum": codes, "description": "A code out of a closed set."},
            "message": {"type": "string", "minLength": 1, "description": "A sentence that says what to do."},
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

fn run_request() -> Value {
    closed(
        &["workflowId"],
        &json!({
            "workflowId": {"type": "string", "minLength": 1},
            "inputs": optional_object(),
            "tenantId": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024, "description": "The tenant of the key, for those who want to be sure."},
            "scopeId": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024},
            "callbackUrl": {"type": ["string", "null"], "format": "uri", "minLength": 1, "maxLength": 1024},
            "configurable": optional_object(),
            "tags": {"type": ["array", "null"], "items": text()},
            "metadata": optional_object(),
        }),
    )
}

fn created() -> Value {
    object(
        &["runId", "status", "eventsUrl"],
        &json!({
            "runId": text(), "status": refer("RunStatus"), "eventsUrl": {"type": "string", "format": "uri"},
            "statusUrl": {"type": "string", "format": "uri"}, "sourceRunId": text(), "fromSeq": count(),
            "mode": {"enum": ["replay", "branch"]},
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

fn pause() -> Value {
    closed(
        &[],
        &json!({"reason": reason(), "drainPolicy": {"enum": ["immediate", "drain-current-node", null]}}),
    )
}

fn many() -> Value {
    object(
        &["runIds"],
        &json!({
            "runIds": {"type": "array", "items": {}, "minItems": 1, "maxItems": MAX_BULK},
            "reason": {"type": ["string", "null"], "maxLength": 4096},
        }),
    )
}

fn result() -> Value {
    object(
        &["runId", "ok"],
        &json!({
            "runId": {"type": ["string", "null"]}, "ok": {"type": "boolean"}, "status": refer("RunStatus"),
            "error": object(&["code", "message"], &json!({"code": text(), "message": text()})),
        }),
    )
}

fn fork() -> Value {
    let overlay = json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "configurable": optional_object(), "metadata": optional_object(),
            "tags": {"type": ["array", "null"], "items": text()},
        },
    });
    // A replay has the options of its source.
    let nothing = json!({"type": ["object", "null"], "maxProperties": 0});
    let from = json!({"type": ["integer", "null"], "minimum": 0});
    json!({"oneOf": [
        closed(
            &["mode"],
            &json!({"mode": {"const": "replay"}, "fromSeq": from, "runOptionsOverlay": nothing}),
        ),
        closed(
            &["mode", "fromSeq"],
            &json!({"mode": {"const": "branch"}, "fromSeq": count(), "runOptionsOverlay": overlay}),
        ),
    ]})
}

fn difference() -> Value {
    object(
        &["a", "b", "divergedAtSeq", "eventDiffs", "stateDiff"],
        &json!({
            "a": text(), "b": text(), "divergedAtSeq": {"type": ["integer", "null"], "minimum": 0},
            "eventDiffs": array(&object(
                &["seq", "op"],
                &json!({"seq": count(), "op": {"enum": ["changed", "removed", "added"]}}),
            )),
            "stateDiff": any_object(), "truncated": {"type": "boolean"},
        }),
    )
}

fn ancestry() -> Value {
    object(
        &["runId", "hostId", "parent"],
        &json!({"runId": text(), "hostId": text(), "parent": {"type": ["object", "null"]}}),
    )
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

fn annotation_request() -> Value {
    let of =
        |kind: &str, value: Value| closed(&["kind", kind], &json!({"kind": {"const": kind}, kind: value}));
    closed(
        &["signal"],
        &json!({
            "target": {
                "type": ["object", "null"], "additionalProperties": false,
                "properties": {"eventId": text_within(256), "nodeId": text_within(256)},
            },
            "signal": {"oneOf": [
                of("rating", json!({"type": "integer", "minimum": 1, "maximum": 5})),
                of("correction", text_within(16 << 10)),
                of("label", text_within(16 << 10)),
                closed(&["kind"], &json!({"kind": {"const": "flag"}})),
            ]},
            "note": {"type": ["string", "null"], "minLength": 1, "maxLength": 16 << 10},
        }),
    )
}

fn annotation() -> Value {
    object(
        &["annotationId", "target", "signal", "actor", "createdAt"],
        &json!({
            "annotationId": text(), "target": object(&["runId"], &json!({"runId": text()})),
            "signal": object(&["kind"], &json!({"kind": text()})),
            "actor": object(&["principalRef"], &json!({"principalRef": text()})),
            "createdAt": moment(), "note": text(),
        }),
    )
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

fn webhook() -> Value {
    object(
        &["webhookId", "url", "events", "tags", "secretFingerprint", "status"],
        &json!({
            "webhookId": text(), "url": text(), "events": array(&text()), "tags": array(&text()),
            "secretFingerprint": text(), "status": {"enum": ["active", "failed"]},
        }),
    )
}

fn webhook_request() -> Value {
    let names = |least: usize| {
        json!({
            "type": "array", "items": text_within(256), "minItems": least, "maxItems": 200,
        })
    };
    object(
        &["url", "events"],
        &json!({
            "url": {"type": "string", "format": "uri", "maxLength": 2048}, "events": names(1), "tags": names(0),
            "secret": {"type": ["string", "null"], "minLength": 16, "maxLength": 256},
            "tenantId": {"type": ["string", "null"]},
        }),
    )
}

fn subscribed() -> Value {
    object(
        &["webhookId", "subscriptionId", "secret", "secretFingerprint", "signatureAlgorithm"],
        &json!({
            "webhookId": text(), "subscriptionId": text(), "secret": text(), "secretFingerprint": text(),
            "signatureAlgorithm": {"const": "v1"}, "url": text(),
            "eventTypes": {"type": "array", "items": text()},
            "createdAt": {"type": "string", "format": "date-time"},
        }),
    )
}

fn verified() -> Value {
    object(
        &["fromSeq", "toSeq", "chainValid", "checkpointsValid", "checkpoints", "anomalies"],
        &json!({
            "fromSeq": count(), "toSeq": count(), "chainValid": {"type": "boolean"},
            "checkpointsValid": {"type": "boolean"}, "checkpoints": array(&any_object()),
            "anomalies": array(&any_object()),
        }),
    )
}
