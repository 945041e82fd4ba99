//! Every node type that uses a surface, in real runs on embedded stores, with all configuration members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use executors::{Executors, Options};
use flow::definition::{CalledType, Family};
use flow::id::NodeId;
use runs::Direct;
use serde_json::{Value, json};
use surfaces::search::{EmbeddedSearch, SearchLimits, ServedSearch};
use surfaces::sql::sqlite::SqliteFiles;
use surfaces::sql::{Datasource, ServedSql, SqlLimits, Tenants};
use surfaces::vector::{EmbeddedVectors, ServedVectors, VectorLimits};
use surfaces::{Surface, Surfaces};
use system::ManualClock;

use super::{Host, Setup, begin, caller, keep_time, open, snapshot, to_the_end, workflow};

const NOW: u64 = 1_700_000_000_000;
/// A value that is not known in advance.
const ANY: &str = "ANY";

/// The surfaces of `serve` if the settings name no server.
fn everything(folder: &Path) -> Surfaces {
    let folder = folder.join("surfaces");
    let mut surfaces = Surfaces::open(&surfaces::Options::new(&folder)).unwrap();
    let database = Arc::new(SqliteFiles::new(folder.join("sql"), SqlLimits::default()));
    let sql = ServedSql::new([Datasource { name: "default".into(), tenants: Tenants::All, database }]);
    surfaces.serve(Surface::Sql, Arc::new(sql));
    let vectors = Arc::new(EmbeddedVectors::open(&folder, VectorLimits::default()).unwrap());
    surfaces.serve(Surface::Vector, Arc::new(ServedVectors::new(vectors, VectorLimits::default())));
    let texts = Arc::new(EmbeddedSearch::open(&folder, SearchLimits::default()).unwrap());
    surfaces.serve(Surface::Search, Arc::new(ServedSearch::new(texts, SearchLimits::default())));
    surfaces
}

fn executors(surfaces: Surfaces) -> Executors {
    Executors::new(Options { surfaces: Some(Arc::new(surfaces)), ..Options::default() })
}

async fn host() -> (Host, Arc<ManualClock>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(NOW));
    let setup = Setup {
        clock: clock.clone(),
        executors: Some(executors(everything(folder.path()))),
        ..Setup::default()
    };
    (Host::with(setup).await, clock, folder)
}

/// One node: its id, its type without `core.`, its configuration, its inputs, and its expected outputs.
type Step = (&'static str, &'static str, Value, Value, Value);

/// Nodes that are executed sequentially in one run, with a delay in milliseconds after the previous run.
struct Scene {
    name: &'static str,
    after_ms: u64,
    steps: Vec<Step>,
}

/// An input from the output of another node of the scene.
fn of(node: &str, output: &str) -> Value {
    json!({"from": [node, output]})
}

fn document(name: &str, steps: &[Step]) -> Value {
    let input = |value: &Value| match value.get("from") {
        Some(from) => json!({"type": "connection", "nodeId": from[0], "outputKey": from[1]}),
        None => json!({"type": "static", "value": value}),
    };
    let nodes: Vec<Value> = steps
        .iter()
        .map(|(id, kind, config, inputs, _)| {
            let inputs: BTreeMap<_, _> =
                inputs.as_object().unwrap().iter().map(|(name, value)| (name, input(value))).collect();
            json!([id, format!("core.{kind}"), config, inputs])
        })
        .collect();
    let edge = |pair: &[Step]| json!({"id": pair[1].0, "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0});
    let edges: Vec<Value> = steps.windows(2).map(edge).collect();
    let mut document = workflow(name, &json!(nodes), &json!(edges), &json!([]));
    // Only triggers can have a consumer group, so such a node belongs to a trigger that does not listen.
    for (id, _, config, ..) in steps {
        if config.get("consumerGroup").is_some() {
            let trigger = json!({"id": id, "type": "event", "nodeId": id, "enabled": false});
            document["triggers"].as_array_mut().unwrap().push(trigger);
        }
    }
    document
}

fn fits(reported: &Value, expected: &Value) -> bool {
    match (reported, expected) {
        (_, Value::String(any)) if any == ANY => true,
        (Value::Object(reported), Value::Object(expected)) => {
            reported.len() == expected.len()
                && expected
                    .iter()
                    .all(|(key, value)| reported.get(key).is_some_and(|reported| fits(reported, value)))
        }
        (Value::Array(reported), Value::Array(expected)) => {
            reported.len() == expected.len()
                && reported.iter().zip(expected).all(|(reported, expected)| fits(reported, expected))
        }
        _ => reported == expected,
    }
}

fn keys_and_caches() -> Vec<Scene> {
    let orders = || json!({"namespace": "orders"});
    let key = |key: &str| json!({"key": key});
    vec![
        Scene {
            name: "kv",
            after_ms: 0,
            steps: vec![
                (
                    "set",
                    "storage.kv-set",
                    json!({"namespace": "orders", "ttlSeconds": 60}),
                    json!({"key": "a", "value": {"n": 1}}),
                    json!({"ok": true}),
                ),
                (
                    "get",
                    "storage.kv-get",
                    orders(),
                    key("a"),
                    json!({"value": {"n": 1}, "found": true, "ttlRemainingMs": 60_000}),
                ),
                (
                    "elsewhere",
                    "storage.kv-get",
                    json!({"namespace": "order"}),
                    key("a"),
                    json!({"value": null, "found": false, "ttlRemainingMs": null}),
                ),
                (
                    "add",
                    "storage.kv-atomic-increment",
                    json!({"namespace": "orders", "delta": 5}),
                    key("n"),
                    json!({"value": 5}),
                ),
                ("one", "storage.kv-atomic-increment", orders(), key("n"), json!({"value": 6})),
                (
                    "swap",
                    "storage.kv-cas",
                    orders(),
                    json!({"key": "n", "expect": 6, "set": 7}),
                    json!({"swapped": true, "actual": 7}),
                ),
                (
                    "keep",
                    "storage.kv-cas",
                    orders(),
                    json!({"key": "n", "expect": 6, "set": 8}),
                    json!({"swapped": false, "actual": 7}),
                ),
                (
                    "page",
                    "storage.kv-list",
                    json!({"namespace": "orders", "limit": 1}),
                    json!({}),
                    json!({"keys": ["a"], "nextCursor": ANY}),
                ),
                (
                    "rest",
                    "storage.kv-list",
                    json!({"namespace": "orders", "limit": 1000}),
                    json!({"cursor": of("page", "nextCursor")}),
                    json!({"keys": ["n"], "nextCursor": null}),
                ),
                (
                    "some",
                    "storage.kv-list",
                    json!({"namespace": "orders", "prefix": "n"}),
                    json!({}),
                    json!({"keys": ["n"], "nextCursor": null}),
                ),
                ("delete", "storage.kv-delete", orders(), key("n"), json!({"ok": true, "existed": true})),
            ],
        },
        Scene {
            name: "kv-later",
            after_ms: 60_000,
            steps: vec![(
                "get",
                "storage.kv-get",
                orders(),
                key("a"),
                json!({"value": null, "found": false, "ttlRemainingMs": null}),
            )],
        },
        Scene {
            name: "cache",
            after_ms: 0,
            steps: vec![
                (
                    "put",
                    "storage.cache-put",
                    json!({"namespace": "pages", "ttlSeconds": 5}),
                    json!({"key": "a", "value": [1]}),
                    json!({"ok": true}),
                ),
                (
                    "get",
                    "storage.cache-get",
                    json!({"namespace": "pages"}),
                    key("a"),
                    json!({"hit": true, "found": true, "value": [1], "ttlRemainingMs": 5000}),
                ),
                (
                    "evict",
                    "storage.cache-evict",
                    json!({"namespace": "pages"}),
                    key("a"),
                    json!({"ok": true, "existed": true}),
                ),
                (
                    "miss",
                    "storage.cache-get",
                    json!({"namespace": "pages"}),
                    key("a"),
                    json!({"hit": false, "found": false, "value": null, "ttlRemainingMs": null}),
                ),
            ],
        },
    ]
}

fn tables() -> Vec<Scene> {
    let table = || json!({"table": "t"});
    let row = |id: &str, n: i64| json!({"row": {"id": id, "n": n}});
    let by_number = || json!({"table": "t", "limit": 2, "orderBy": ["-n", "id"]});
    vec![Scene {
        name: "table",
        after_ms: 0,
        steps: vec![
            ("a", "storage.table-insert", table(), row("a", 1), json!({"id": "a"})),
            ("b", "storage.table-insert", table(), row("b", 3), json!({"id": "b"})),
            (
                "c",
                "storage.table-upsert",
                json!({"table": "t", "keyColumns": ["id"]}),
                row("c", 2),
                json!({"upserted": true, "created": true, "id": "c"}),
            ),
            (
                "again",
                "storage.table-upsert",
                table(),
                row("c", 5),
                json!({"upserted": true, "created": false, "id": "c"}),
            ),
            (
                "update",
                "storage.table-update",
                table(),
                json!({"id": "a", "update": {"n": 3}}),
                json!({"updated": true}),
            ),
            (
                "first",
                "storage.table-query",
                by_number(),
                json!({}),
                json!({"rows": [{"id": "c", "n": 5}, {"id": "a", "n": 3}], "count": 2, "nextCursor": ANY}),
            ),
            (
                "second",
                "storage.table-query",
                by_number(),
                json!({"cursor": of("first", "nextCursor")}),
                json!({"rows": [{"id": "b", "n": 3}], "count": 1, "nextCursor": null}),
            ),
            (
                "some",
                "storage.table-query",
                table(),
                json!({"filter": {"n": 3}}),
                json!({"rows": [{"id": "a", "n": 3}, {"id": "b", "n": 3}], "count": 2, "nextCursor": null}),
            ),
            ("count", "storage.table-count", table(), json!({"filter": {"n": 3}}), json!({"count": 2})),
            ("delete", "storage.table-delete", table(), json!({"id": "b"}), json!({"deleted": true})),
            ("left", "storage.table-count", table(), json!({}), json!({"count": 2})),
        ],
    }]
}

fn blobs() -> Vec<Scene> {
    let signed = |method: &str, seconds: u64, at: &str| {
        json!({
            "found": true, "url": ANY, "token": ANY, "method": method, "expiresAt": at,
            "expiresAtMs": NOW + 60_000 + seconds * 1000, "expiresInSeconds": seconds,
        })
    };
    vec![Scene {
        name: "blob",
        after_ms: 0,
        steps: vec![
            (
                "put",
                "storage.blob-put",
                json!({"bucket": "default", "contentType": "text/plain"}),
                json!({"key": "k", "contentBase64": "aGk="}),
                json!({"ok": true, "key": "k"}),
            ),
            (
                "get",
                "storage.blob-get",
                json!({"bucket": "default"}),
                json!({"key": "k"}),
                json!({"found": true, "contentBase64": "aGk=", "contentType": "text/plain", "size": 2}),
            ),
            (
                "read",
                "storage.blob-presign",
                json!({"bucket": "default", "ttlSeconds": 20, "operation": "get"}),
                json!({"key": "k"}),
                signed("GET", 20, "2023-11-14T22:14:40Z"),
            ),
            (
                "write",
                "storage.blob-presign",
                json!({"operation": "put"}),
                json!({"key": "new"}),
                signed("PUT", 900, "2023-11-14T22:29:20Z"),
            ),
        ],
    }]
}

fn delivery(payload: &Value, subject: &str, count: u64) -> Value {
    json!({
        "found": true, "deliveryToken": ANY, "messageId": ANY, "id": ANY, "subject": subject,
        "payload": payload, "deliveryCount": count,
    })
}

fn queues() -> Vec<Scene> {
    let five = || json!({"queue": "q", "durationMs": 5000});
    let published = || json!({"id": ANY, "published": true});
    let none = || json!({"found": false});
    vec![
        Scene {
            name: "queue",
            after_ms: 0,
            steps: vec![
                (
                    "later",
                    "storage.queue-enqueue",
                    json!({"queue": "q", "delaySeconds": 60}),
                    json!({"payload": "later"}),
                    published(),
                ),
                (
                    "now",
                    "storage.queue-enqueue",
                    json!({"queue": "q"}),
                    json!({"payload": "now"}),
                    published(),
                ),
                ("take", "storage.queue-dequeue", five(), json!({}), delivery(&json!("now"), "q", 1)),
                ("none", "storage.queue-dequeue", five(), json!({}), none()),
            ],
        },
        Scene {
            name: "queue-its-lease-is-over",
            after_ms: 5000,
            steps: vec![
                ("take", "storage.queue-dequeue", five(), json!({}), delivery(&json!("now"), "q", 2)),
                (
                    "ack",
                    "messaging.ack",
                    json!({}),
                    json!({"messageId": of("take", "messageId")}),
                    json!({"acked": true}),
                ),
            ],
        },
        Scene {
            name: "queue-a-moment-too-early",
            after_ms: 54_999,
            steps: vec![("none", "storage.queue-dequeue", json!({"queue": "q"}), json!({}), none())],
        },
        Scene {
            name: "queue-its-delay-is-over",
            after_ms: 1,
            steps: vec![(
                "take",
                "storage.queue-dequeue",
                five(),
                json!({}),
                delivery(&json!("later"), "q", 1),
            )],
        },
    ]
}

fn messages() -> Vec<Scene> {
    let topic = || json!({"topic": "t"});
    let reported = |node: &str| json!({"messageId": of(node, "messageId")});
    let published = || json!({"id": ANY, "published": true});
    let letter = json!({"original": {"n": 1}, "deadLetterReason": "no good"});
    vec![
        Scene {
            name: "messages",
            after_ms: 0,
            steps: vec![
                ("publish", "messaging.publish", topic(), json!({"payload": {"n": 1}}), published()),
                (
                    "one",
                    "messaging.consume",
                    json!({"topic": "t", "consumerGroup": "g"}),
                    json!({}),
                    delivery(&json!({"n": 1}), "t", 1),
                ),
                (
                    "back",
                    "messaging.nack",
                    json!({"requeue": true}),
                    reported("one"),
                    json!({"nacked": true, "requeued": true}),
                ),
                ("two", "messaging.consume", topic(), json!({}), delivery(&json!({"n": 1}), "t", 2)),
                (
                    "aside",
                    "messaging.dead-letter",
                    json!({}),
                    json!({"messageId": of("two", "messageId"), "reason": "no good"}),
                    json!({"deadLettered": true, "dlqSubject": "t.dlq"}),
                ),
                (
                    "dead",
                    "messaging.consume",
                    json!({"topic": "t.dlq"}),
                    json!({}),
                    delivery(&letter, "t.dlq", 1),
                ),
                (
                    "drop",
                    "messaging.nack",
                    json!({"requeue": false}),
                    reported("dead"),
                    json!({"nacked": true, "requeued": false}),
                ),
                (
                    "gone",
                    "messaging.ack",
                    json!({}),
                    reported("dead"),
                    json!({"acked": false, "reason": "unknown_delivery_token"}),
                ),
            ],
        },
        Scene {
            name: "streams",
            after_ms: 0,
            steps: vec![
                (
                    "publish",
                    "messaging.stream-publish",
                    json!({"stream": "s"}),
                    json!({"record": {"n": 1}}),
                    published(),
                ),
                (
                    "all",
                    "messaging.stream-subscribe",
                    json!({"stream": "s", "fromBeginning": true, "consumerGroup": "g"}),
                    json!({}),
                    json!({
                        "records": [{"id": ANY, "payload": {"n": 1}}], "fromBeginningSnapshot": true,
                        "count": 1, "nextCursor": ANY, "more": false,
                    }),
                ),
                (
                    "new",
                    "messaging.stream-subscribe",
                    json!({"stream": "s"}),
                    json!({}),
                    json!({
                        "records": [], "fromBeginningSnapshot": false, "count": 0, "nextCursor": ANY,
                        "more": false,
                    }),
                ),
            ],
        },
    ]
}

fn databases() -> Vec<Scene> {
    let default = || json!({"datasource": "default"});
    let changed = |rows: u64| json!({"changes": rows, "rowsAffected": rows, "lastInsertRowid": ANY});
    let insert = "INSERT INTO o (item) VALUES (?)";
    vec![
        Scene {
            name: "sql",
            after_ms: 0,
            steps: vec![
                (
                    "make",
                    "db.sql-execute",
                    default(),
                    json!({"sql": "CREATE TABLE o (number INTEGER PRIMARY KEY, item TEXT)"}),
                    changed(0),
                ),
                (
                    "insert",
                    "db.sql-execute",
                    default(),
                    json!({"sql": insert, "params": ["lamp"]}),
                    changed(1),
                ),
                (
                    "both",
                    "db.sql-transaction",
                    default(),
                    json!({"statements": [{"sql": insert, "params": ["bed"]}, {"sql": insert, "params": ["box"]}]}),
                    json!({"ok": true, "committed": true, "results": [changed(1), changed(1)]}),
                ),
                (
                    "read",
                    "db.sql-query",
                    default(),
                    json!({"sql": "SELECT item FROM o WHERE number > ? ORDER BY number", "params": [1]}),
                    json!({"rows": [{"item": "bed"}, {"item": "box"}], "count": 2, "rowCount": 2}),
                ),
            ],
        },
        Scene {
            name: "search",
            after_ms: 0,
            steps: vec![
                (
                    "one",
                    "db.search-index",
                    json!({"index": "i"}),
                    json!({"id": "a", "document": {"text": "a lamp for the desk"}}),
                    json!({"indexed": 1}),
                ),
                (
                    "two",
                    "db.search-index",
                    json!({"index": "i"}),
                    json!({"id": "b", "document": {"text": "lamp lamp"}}),
                    json!({"indexed": 1}),
                ),
                (
                    "find",
                    "db.search-query",
                    json!({"index": "i", "limit": 1}),
                    json!({"query": "lamp"}),
                    json!({"hits": [{"id": "b", "score": ANY, "fields": {"text": "lamp lamp"}}]}),
                ),
            ],
        },
        Scene {
            name: "vector",
            after_ms: 0,
            steps: vec![
                (
                    "put",
                    "db.vector-upsert",
                    json!({"collection": "c"}),
                    json!({"records": [{"id": "x", "vector": [1, 0], "metadata": {"n": 1}}, {"id": "y", "vector": [0, 1]}]}),
                    json!({"upserted": 2}),
                ),
                (
                    "near",
                    "db.vector-query",
                    json!({"collection": "c", "topK": 1}),
                    json!({"vector": [0.9, 0.1]}),
                    json!({"matches": [{"id": "x", "score": ANY, "metadata": {"n": 1}}]}),
                ),
                (
                    "delete",
                    "db.vector-delete",
                    json!({"collection": "c"}),
                    json!({"ids": ["x", "z"]}),
                    json!({"deleted": 1}),
                ),
            ],
        },
    ]
}

fn files() -> Vec<Scene> {
    let at = |path: &str| json!({"path": path});
    let encoded = |encoding: &str| json!({"encoding": encoding});
    vec![Scene {
        name: "files",
        after_ms: 0,
        steps: vec![
            (
                "write",
                "files.write",
                json!({"encoding": "utf8", "mode": "overwrite"}),
                json!({"path": "d/f", "content": "hü"}),
                json!({"ok": true, "path": "d/f"}),
            ),
            (
                "create",
                "files.write",
                json!({"encoding": "base64", "mode": "create"}),
                json!({"path": "d/g", "content": "/w=="}),
                json!({"ok": true, "path": "d/g"}),
            ),
            (
                "exists",
                "files.write",
                json!({"encoding": "utf-8", "mode": "create"}),
                json!({"path": "d/g", "content": ""}),
                json!({"ok": false, "reason": "already_exists"}),
            ),
            ("text", "files.read", encoded("utf8"), at("d/f"), json!({"content": "hü", "size": 3})),
            ("same", "files.read", encoded("utf-8"), at("d/f"), json!({"content": "hü", "size": 3})),
            ("bytes", "files.read", encoded("base64"), at("d/g"), json!({"content": "/w==", "size": 1})),
            ("plain", "files.read", json!({}), at("d/g"), json!({"contentBase64": "/w==", "size": 1})),
            (
                "stat",
                "files.stat",
                json!({}),
                at("d/f"),
                json!({"found": true, "size": 3, "isFile": true, "isDirectory": false, "mtimeMs": ANY}),
            ),
            (
                "list",
                "files.list",
                json!({}),
                at("d"),
                json!({
                    "entries": [
                        {"name": "f", "isFile": true, "isDirectory": false},
                        {"name": "g", "isFile": true, "isDirectory": false},
                    ],
                    "nextCursor": null,
                }),
            ),
            ("delete", "files.delete", json!({}), at("d/f"), json!({"deleted": true})),
            ("gone", "files.stat", json!({}), at("d/f"), json!({"found": false})),
        ],
    }]
}

fn scenes() -> Vec<Scene> {
    [keys_and_caches(), tables(), blobs(), queues(), messages(), databases(), files()]
        .into_iter()
        .flatten()
        .collect()
}

/// A node with an `output`: its type, its configuration, its inputs, and the answer of a person if it waits for one.
type Source = (&'static str, Value, Value, Option<Value>);

/// The kinds of nodes that typically precede a node that stores something: gates, questions, variables, conditions.
fn sources() -> Vec<Source> {
    let named = || json!({"name": "v", "value": 1});
    let external = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {}}});
    let question = json!({"questions": [{"id": "q", "question": "Which?"}]});
    let accept = || Some(json!({"action": "accept"}));
    vec![
        ("core.approvalGate", json!({}), json!({}), accept()),
        ("core.openwop.governance.approvalGate", json!({}), json!({}), accept()),
        ("core.clarificationGate", question, json!({}), Some(json!({"answers": {"q": "this"}}))),
        ("core.interrupt", external, json!({}), Some(json!({"paid": true}))),
        (
            "core.interrupt",
            json!({"kind": "custom", "data": {"customKind": "x"}}),
            json!({}),
            Some(json!("x")),
        ),
        ("core.setVariable", named(), json!({}), None),
        ("core.getVariable", json!({"name": "v"}), json!({}), None),
        ("core.conditional", json!({"expression": "1 == 1"}), json!({}), None),
        ("core.loop", json!({"items": ["a"]}), json!({}), None),
        ("core.identity", json!({}), json!({"output": {"type": "static", "value": 1}}), None),
    ]
}

/// Adds a node before every step, with plain edges.
fn behind(source: &Source, steps: &[Step], mut document: Value) -> Value {
    let (kind, config, inputs, _) = source;
    let node = json!({
        "id": "source", "typeId": kind, "name": "source", "position": {"x": 0, "y": 0}, "config": config,
        "inputs": inputs,
    });
    document["nodes"].as_array_mut().unwrap().push(node);
    document["variables"] = json!([{"name": "v", "type": "number", "defaultValue": 1}]);
    for (id, ..) in steps {
        let edge = json!({"id": format!("source-{id}"), "sourceNodeId": "source", "targetNodeId": id});
        document["edges"].as_array_mut().unwrap().push(edge);
    }
    document
}

/// Plays every scene on its own stores, after such a node if there is one.
async fn play(source: Option<&Source>) {
    let (host, clock, _folder) = host().await;
    for Scene { name, after_ms, steps } in scenes() {
        clock.advance(after_ms);
        let document = document(name, &steps);
        let document = source.map_or(document.clone(), |source| behind(source, &steps, document));
        let what = format!("{:?} {name}", source.map(|source| source.0));
        let registered = host.runs.definitions().register(&caller("acme"), &document).await;
        registered.unwrap_or_else(|refusal| panic!("{what}: {refusal:?}"));
        let run_id = begin(&host.runs, name).await;
        if let Some((_, _, _, Some(answer))) = source {
            host.runs
                .commands()
                .resolve(&caller("acme"), &run_id, &NodeId::new("source"), answer.clone(), Direct)
                .await
                .unwrap();
        }
        let events = to_the_end(&host.runs, &run_id).await;
        for (id, _, config, _, expected) in steps {
            let reported =
                events.iter().find(|event| event["type"] == "node.completed" && event["nodeId"] == id);
            let reported = reported.unwrap_or_else(|| panic!("{what}/{id} {config}: {:#?}", events.last()));
            let reported = &reported["payload"]["outputs"];
            assert!(
                fits(reported, &expected),
                "{what}/{id} {config}\n reported {reported}\n not  {expected}"
            );
        }
        assert_eq!(events.last().unwrap()["type"], "run.completed", "{what}");
    }
}

#[tokio::test]
async fn the_outputs_of_a_surface_node_are_the_result_of_its_surface() {
    play(None).await;
}

/// Finding A1: an edge without ports passed an argument that no surface declares, so a run failed after a person had approved.
#[tokio::test]
async fn every_node_of_a_surface_may_follow_a_gate_a_variable_or_a_condition() {
    for source in sources() {
        play(Some(&source)).await;
    }
}

/// Finding A1: a port that a node does not declare is refused before a person is asked.
#[tokio::test]
async fn a_port_that_a_surface_does_not_declare_is_refused_at_registration() {
    let (host, _clock, _folder) = host().await;
    let document = |inputs: Value, edge: Value| {
        let nodes = json!([["gate", "core.approvalGate", {}], ["set", "core.storage.kv-set", {}, inputs]]);
        let mut ends = json!({"id": "e", "sourceNodeId": "gate", "targetNodeId": "set"});
        ends.as_object_mut().unwrap().extend(edge.as_object().unwrap().clone());
        workflow("ports", &nodes, &json!([ends]), &json!([]))
    };
    let port = |name: &str| json!({name: {"type": "static", "value": "x"}});
    let refused = [
        (document(json!({}), json!({"targetInput": "input"})), "/edges/0/targetInput", "key, value"),
        (
            document(json!({}), json!({"targetInput": "vlue"})),
            "/edges/0/targetInput",
            "did you mean `value`?",
        ),
        (document(port("input"), json!({})), "/nodes/1/inputs/input", "key, value"),
    ];
    for (document, path, advice) in refused {
        let refusal = host.runs.definitions().register(&caller("acme"), &document).await.unwrap_err();
        let fields = &refusal.details["fields"];
        assert_eq!(fields[0]["path"], path);
        assert!(fields[0]["message"].as_str().unwrap().contains(advice), "{fields}");
    }
    for edge in [json!({"targetInput": "value"}), json!({"targetInput": "ttlSeconds"}), json!({})] {
        host.runs.definitions().register(&caller("acme"), &document(port("key"), edge)).await.unwrap();
    }
}

/// The configuration members that the scenes use, by type, and the used values of enumerations.
fn configured() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut seen: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (_, kind, config, ..) in scenes().into_iter().flat_map(|scene| scene.steps) {
        let members = seen.entry(format!("core.{kind}")).or_default();
        for (name, value) in config.as_object().unwrap() {
            members.entry(name.clone()).or_default().extend(value.as_str().map(str::to_owned));
        }
    }
    seen
}

#[test]
fn every_node_of_a_surface_is_run_with_every_member_of_its_configuration() {
    let seen = configured();
    for called in CalledType::ALL {
        if !matches!(called.family(), Family::Surface { .. }) {
            continue;
        }
        let members = seen.get(called.as_str()).unwrap_or_else(|| panic!("`{called}` is run by no scene"));
        for (name, schema) in called.config_schema()["properties"].as_object().unwrap() {
            let words = members.get(name).unwrap_or_else(|| panic!("`{called}` is never reported `{name}`"));
            for word in schema["enum"].as_array().into_iter().flatten() {
                assert!(
                    words.contains(word.as_str().unwrap()),
                    "`{called}` is never reported {name}: {word}"
                );
            }
        }
    }
}

#[tokio::test]
async fn configuration_that_a_surface_would_ignore_is_refused_at_registration() {
    let (host, _clock, _folder) = host().await;
    let nine = vec!["n"; 9];
    let cases = [
        ("storage.kv-list", json!({"limit": 0})),
        ("storage.kv-set", json!({"ttlSeconds": 0})),
        ("storage.kv-set", json!({"ttlSeconds": 315_360_001})),
        ("storage.cache-put", json!({"ttlSeconds": 604_801})),
        ("storage.blob-presign", json!({"ttlSeconds": 604_801})),
        ("storage.table-query", json!({"table": "t", "orderBy": ["-"]})),
        ("storage.table-query", json!({"table": "t", "orderBy": "n"})),
        ("storage.table-query", json!({"table": "t", "orderBy": [{"column": "n"}]})),
        ("storage.table-query", json!({"table": "t", "orderBy": nine})),
        ("storage.table-query", json!({"table": "t", "limit": 1001})),
        ("storage.table-upsert", json!({"table": "t", "keyColumns": ["n"]})),
        ("storage.table-upsert", json!({"table": "t", "keyColumns": ["id", "n"]})),
        ("storage.queue-enqueue", json!({"queue": "q", "delaySeconds": -1})),
        ("storage.queue-enqueue", json!({"queue": "q", "delaySeconds": 43_201})),
        ("storage.queue-dequeue", json!({"queue": "q", "durationMs": 0})),
        ("storage.queue-dequeue", json!({"queue": "q", "durationMs": 43_200_001})),
        ("db.vector-query", json!({"collection": "c", "topK": 0})),
        ("files.read", json!({"encoding": "latin1"})),
        ("messaging.publish", json!({"topic": "t", "partitionKey": "k"})),
        ("messaging.consume", json!({"topic": "t", "consumerGroup": "g"})),
        ("messaging.stream-subscribe", json!({"stream": "s", "consumerGroup": "g"})),
    ];
    for (kind, config) in cases {
        let nodes = json!([["n", format!("core.{kind}"), config]]);
        let refused = host
            .runs
            .definitions()
            .register(&caller("acme"), &workflow("w", &nodes, &json!([]), &json!([])))
            .await;
        let refusal = refused.err().unwrap_or_else(|| panic!("{kind} {config}"));
        assert_eq!(refusal.code.as_str(), "validation_error", "{kind} {config}");
    }
}

#[test]
fn valid_configurations_are_those_that_the_surfaces_accept() {
    let limits = surfaces::Limits::default();
    let expected = [
        ("core.storage.kv-set", "ttlSeconds", limits.kv_ttl_seconds),
        ("core.storage.kv-list", "limit", surfaces::kv::MAX_LISTED as u64),
        ("core.storage.table-query", "limit", surfaces::table::MAX_PAGE as u64),
        ("core.storage.cache-put", "ttlSeconds", limits.cache_ttl_seconds),
        ("core.storage.blob-presign", "ttlSeconds", surfaces::blob::MAX_PRESIGN_SECONDS),
        ("core.storage.queue-enqueue", "delaySeconds", surfaces::queue::MAX_DELAY_MS / 1000),
        ("core.storage.queue-dequeue", "durationMs", surfaces::queue::MAX_LEASE_MS),
        ("core.db.search-query", "limit", SearchLimits::default().hits as u64),
        ("core.db.vector-query", "topK", VectorLimits::default().matches as u64),
    ];
    let mut found = Vec::new();
    for called in CalledType::ALL.iter().filter(|called| matches!(called.family(), Family::Surface { .. })) {
        for (name, schema) in called.config_schema()["properties"].as_object().unwrap() {
            if let Some(most) = schema["maximum"].as_u64() {
                found.push((called.as_str(), name.clone(), most));
            }
        }
    }
    assert_eq!(found, expected.map(|(called, name, most)| (called, name.to_owned(), most)));
}

#[tokio::test]
async fn an_input_that_a_surface_would_ignore_is_refused_at_registration() {
    let (host, _clock, _folder) = host().await;
    let cases = [
        ("messaging.publish", json!({"topic": "t"}), json!({"payload": 1, "headers": {"a": "b"}})),
        ("messaging.stream-publish", json!({"stream": "s"}), json!({"record": 1, "partitionKey": "k"})),
        ("files.write", json!({}), json!({"path": "f", "content": "x", "owner": "me"})),
    ];
    for (kind, config, inputs) in cases {
        let document = document("w", &[("n", kind, config, inputs, json!({}))]);
        let refusal = host.runs.definitions().register(&caller("acme"), &document).await.unwrap_err();
        assert_eq!(refusal.code.as_str(), "validation_error", "{kind}");
        let path = refusal.details["fields"][0]["path"].as_str().unwrap();
        assert!(path.starts_with("/nodes/0/inputs/"), "{kind}: {path}");
    }
}

#[tokio::test]
async fn a_surface_that_is_unavailable_when_it_is_called_is_named_in_the_failure() {
    let (host, _clock, folder) = host().await;
    let sql = json!({"sql": {"type": "static", "value": "SELECT 1"}});
    let document = workflow("sql", &json!([["ask", "core.db.sql-query", {}, sql]]), &json!([]), &json!([]));
    host.runs.definitions().register(&caller("acme"), &document).await.unwrap();
    // Another host on the same store, without databases.
    let less = Surfaces::open(&surfaces::Options::new(folder.path().join("less"))).unwrap();
    let (runs, _store) =
        open(host.folder.path(), Setup { executors: Some(executors(less)), ..Setup::default() });
    keep_time(&runs);
    let refusal = runs.definitions().register(&caller("acme"), &document).await.unwrap_err();
    assert_eq!(refusal.code.as_str(), "capability_required");
    assert_eq!(refusal.details["requiredCapability"], "sql.supported");

    let run_id = begin(&runs, "sql").await;
    let events = to_the_end(&runs, &run_id).await;
    for kind in ["node.failed", "run.failed"] {
        let error = &events.iter().find(|event| event["type"] == kind).unwrap()["payload"]["error"];
        assert_eq!(error["code"], "host_capability_missing", "{kind}");
        assert_eq!(error["capability"], "host.sql", "{kind}: {error}");
    }
    // Snapshots have it only in the details.
    let shown = &snapshot(&runs, &caller("acme"), &run_id)["error"];
    let members: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(members, ["code", "details", "message"]);
    assert_eq!(shown["details"], json!({"capability": "host.sql"}));
}
