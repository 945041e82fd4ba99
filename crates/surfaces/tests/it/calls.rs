//! The JSON of every operation, as seen by node types and the conformance suite.

use serde_json::{Value, json};

use crate::helper::{Host, NOW};

/// A placeholder for any value.
const ANY: &str = "ANY";

fn fits(result: &Value, expected: &Value) -> bool {
    match (result, expected) {
        (_, Value::String(any)) if any == ANY => true,
        (Value::Object(result), Value::Object(expected)) => {
            result.len() == expected.len()
                && expected
                    .iter()
                    .all(|(key, value)| result.get(key).is_some_and(|result| fits(result, value)))
        }
        (Value::Array(result), Value::Array(expected)) => {
            result.len() == expected.len()
                && result.iter().zip(expected).all(|(result, expected)| fits(result, expected))
        }
        _ => result == expected,
    }
}

#[tokio::test]
async fn results_match_the_protocol() {
    let host = Host::open();
    let cases = [
        ("kv.set", json!({"key": "k", "value": 1, "ttlSeconds": 60}), json!({"ok": true})),
        ("kv.put", json!({"key": "k", "value": {"a": 1}}), json!({"ok": true})),
        ("kv.get", json!({"key": "k"}), json!({"value": {"a": 1}, "found": true, "ttlRemainingMs": null})),
        ("kv.get", json!({"key": "none"}), json!({"value": null, "found": false, "ttlRemainingMs": null})),
        ("kv.list", json!({"prefix": "k"}), json!({"keys": ["k"], "nextCursor": null})),
        ("kv.delete", json!({"key": "k"}), json!({"ok": true, "existed": true})),
        ("kv.atomicIncrement", json!({"key": "n"}), json!({"value": 1})),
        ("kv.atomicIncrement", json!({"key": "n", "delta": -3}), json!({"value": -2})),
        ("kv.cas", json!({"key": "n", "expect": -2, "set": 7}), json!({"swapped": true, "actual": 7})),
        (
            "kv.compareAndSwap",
            json!({"key": "n", "expect": 1, "set": 2}),
            json!({"swapped": false, "actual": 7}),
        ),
        ("cache.put", json!({"key": "k", "value": [1]}), json!({"ok": true})),
        (
            "cache.get",
            json!({"key": "k"}),
            json!({"hit": true, "found": true, "value": [1], "ttlRemainingMs": 60_000}),
        ),
        (
            "cache.get",
            json!({"key": "n"}),
            json!({"hit": false, "found": false, "value": null, "ttlRemainingMs": null}),
        ),
        ("cache.evict", json!({"key": "k"}), json!({"ok": true, "existed": true})),
        (
            "table.createTable",
            json!({"table": "t", "columns": {"n": "number"}}),
            json!({"ok": true, "created": true}),
        ),
        ("table.insert", json!({"table": "t", "row": {"id": "a", "n": 1}}), json!({"id": "a"})),
        ("table.update", json!({"table": "t", "id": "a", "patch": {"n": 2}}), json!({"updated": true})),
        (
            "table.upsert",
            json!({"table": "t", "row": {"id": "b"}}),
            json!({"upserted": true, "created": true, "id": "b"}),
        ),
        ("table.get", json!({"table": "t", "id": "a"}), json!({"found": true, "row": {"id": "a", "n": 2}})),
        ("table.get", json!({"table": "t", "id": "z"}), json!({"found": false, "row": null})),
        (
            "table.query",
            json!({"table": "t", "limit": 1}),
            json!({"rows": [{"id": "a", "n": 2}], "count": 1, "nextCursor": ANY}),
        ),
        ("table.query", json!({"table": "t"}), json!({"rows": ANY, "count": 2, "nextCursor": null})),
        (
            "table.query",
            json!({"table": "t", "orderBy": ["-n", "id"]}),
            json!({"rows": [{"id": "a", "n": 2}, {"id": "b"}], "count": 2, "nextCursor": null}),
        ),
        ("table.count", json!({"table": "t"}), json!({"count": 2})),
        ("table.delete", json!({"table": "t", "id": "b"}), json!({"deleted": true})),
        (
            "blob.put",
            json!({"key": "k", "contentBase64": "aGk=", "contentType": "text/plain"}),
            json!({"ok": true, "key": "k"}),
        ),
        (
            "blob.get",
            json!({"key": "k"}),
            json!({"found": true, "contentBase64": "aGk=", "contentType": "text/plain", "size": 2}),
        ),
        ("blob.get", json!({"key": "none"}), json!({"found": false})),
        (
            "blob.list",
            json!({}),
            json!({"keys": ["k"], "objects": [{"key": "k", "size": 2, "contentType": "text/plain", "putAtMs": NOW}], "nextCursor": null}),
        ),
        (
            "blob.presign",
            json!({"key": "k", "expiresInSeconds": 2}),
            json!({"found": true, "url": ANY, "token": ANY, "method": "GET", "expiresAt": "2023-11-14T22:13:22Z", "expiresAtMs": NOW + 2000, "expiresInSeconds": 2}),
        ),
        ("blob.presign", json!({"key": "none", "expiresInSeconds": 2}), json!({"found": false})),
        ("blob.delete", json!({"key": "k"}), json!({"deleted": true})),
        (
            "queueBus.publish",
            json!({"subject": "s", "payload": {"n": 1}}),
            json!({"id": ANY, "published": true}),
        ),
        (
            "queueBus.consume",
            json!({"subject": "s"}),
            json!({"found": true, "deliveryToken": ANY, "id": ANY, "subject": "s", "payload": {"n": 1}, "deliveryCount": 1}),
        ),
        ("queueBus.consume", json!({"subject": "s", "durationMs": 1}), json!({"found": false})),
        (
            "queueBus.publish",
            json!({"subject": "later", "payload": 1, "delaySeconds": 60}),
            json!({"id": ANY, "published": true}),
        ),
        ("queueBus.consume", json!({"subject": "later"}), json!({"found": false})),
        (
            "queueBus.ack",
            json!({"deliveryToken": "x"}),
            json!({"acked": false, "reason": "unknown_delivery_token"}),
        ),
        (
            "queueBus.nack",
            json!({"deliveryToken": "x"}),
            json!({"nacked": false, "requeued": false, "reason": "unknown_delivery_token"}),
        ),
        (
            "queueBus.deadLetter",
            json!({"deliveryToken": "x", "reason": "r"}),
            json!({"deadLettered": false, "reason": "unknown_delivery_token"}),
        ),
        (
            "queueBus.streamPublish",
            json!({"stream": "s", "record": 1}),
            json!({"id": ANY, "published": true}),
        ),
        (
            "queueBus.streamSubscribe",
            json!({"stream": "s", "fromBeginning": true}),
            json!({"records": [{"id": ANY, "payload": 1}], "fromBeginningSnapshot": true, "count": 1, "nextCursor": ANY, "more": false}),
        ),
        (
            "queueBus.streamSubscribe",
            json!({"stream": "s"}),
            json!({"records": [], "fromBeginningSnapshot": false, "count": 0, "nextCursor": ANY, "more": false}),
        ),
        ("fs.write", json!({"path": "d/f", "contentBase64": "aGk="}), json!({"ok": true, "path": "d/f"})),
        (
            "fs.write",
            json!({"path": "d/f", "contentBase64": "", "createOnly": true}),
            json!({"ok": false, "reason": "already_exists"}),
        ),
        ("fs.read", json!({"path": "d/f"}), json!({"contentBase64": "aGk=", "size": 2})),
        ("fs.read", json!({"path": "d/f", "encoding": "utf8"}), json!({"content": "hi", "size": 2})),
        ("fs.read", json!({"path": "d/f", "encoding": "base64"}), json!({"content": "aGk=", "size": 2})),
        (
            "fs.stat",
            json!({"path": "d/f"}),
            json!({"found": true, "size": 2, "isFile": true, "isDirectory": false, "mtimeMs": NOW}),
        ),
        ("fs.stat", json!({"path": "d/g"}), json!({"found": false})),
        (
            "fs.list",
            json!({"path": "d"}),
            json!({"entries": [{"name": "f", "isFile": true, "isDirectory": false}], "nextCursor": null}),
        ),
        ("fs.delete", json!({"path": "d/f"}), json!({"deleted": true})),
        ("fs.delete", json!({"path": "d/f"}), json!({"deleted": false})),
    ];
    for (op, args, expected) in cases {
        let result = host.call("acme", op, args.clone()).await;
        assert!(fits(&result, &expected), "{op} {args}\n result {result}\n not  {expected}");
    }
}

#[tokio::test]
async fn rejects_conflicting_arguments() {
    let host = Host::open();
    host.call("acme", "table.insert", json!({"table": "t", "row": {"id": "a"}})).await;
    host.call("acme", "fs.write", json!({"path": "f", "contentBase64": "/w=="})).await;
    let nine = vec!["n"; 9];
    for (op, args) in [
        ("table.query", json!({"table": "t", "orderBy": "n"})),
        ("table.query", json!({"table": "t", "orderBy": [1]})),
        ("table.query", json!({"table": "t", "orderBy": ["-"]})),
        ("table.query", json!({"table": "t", "orderBy": nine})),
        ("queueBus.publish", json!({"subject": "s", "payload": 1, "delaySeconds": -1})),
        ("queueBus.publish", json!({"subject": "s", "payload": 1, "delaySeconds": 43_201})),
        ("queueBus.publish", json!({"subject": "s", "payload": 1, "headers": {}})),
        ("queueBus.consume", json!({"subject": "s", "durationMs": 0})),
        ("queueBus.consume", json!({"subject": "s", "durationMs": 5, "leaseSeconds": 1})),
        ("fs.read", json!({"path": "f", "encoding": "utf8"})),
        ("fs.read", json!({"path": "f", "encoding": "latin1"})),
    ] {
        assert_eq!(host.refused("acme", op, args.clone()).await, "invalid_argument", "{op} {args}");
    }
}

#[tokio::test]
async fn settling_returns_whether_the_token_is_known() {
    let host = Host::open();
    for (op, extra, expected) in [
        ("queueBus.nack", json!({}), json!({"nacked": true, "requeued": true})),
        ("queueBus.nack", json!({"requeue": false}), json!({"nacked": true, "requeued": false})),
        ("queueBus.ack", json!({}), json!({"acked": true})),
        ("queueBus.deadLetter", json!({"reason": "r"}), json!({"deadLettered": true, "dlqSubject": "s.dlq"})),
    ] {
        host.call("acme", "queueBus.publish", json!({"subject": "s", "payload": 1})).await;
        let delivery = host.call("acme", "queueBus.consume", json!({"subject": "s"})).await;
        let mut args = extra;
        args["deliveryToken"] = delivery["deliveryToken"].clone();
        assert_eq!(host.call("acme", op, args).await, expected);
    }
}

#[tokio::test]
async fn advertises_what_is_available() {
    let host = Host::open();
    let result = host.surfaces.advertise();
    let families: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(families, ["blobStorage", "cache", "fs", "kvStorage", "queueBus", "tableStorage"]);
    assert!(result.as_object().unwrap().values().all(|block| block["supported"] == true));
    assert_eq!(result["fs"]["sandboxRoot"], "/", "no path of this machine");
    assert!(!result.to_string().contains(host.folder.path().to_str().unwrap()), "{result}");
    assert_eq!(result["kvStorage"]["atomicIncrement"], true);
    assert_eq!(result["queueBus"]["stream"], json!({"supported": true, "fromBeginning": true}));
}
