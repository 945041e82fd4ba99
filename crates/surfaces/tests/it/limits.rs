//! Limits and hostile input.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::helper::{Host, NOW};

fn base64(bytes: usize) -> String {
    base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes])
}

#[tokio::test]
async fn every_limit_is_enforced_and_named() {
    let host = Host::with(|limits| {
        limits.key_bytes = 8;
        limits.value_bytes = 100;
        limits.kv_keys = 2;
        limits.cache_bytes = 100;
        limits.tables = 2;
        limits.table_rows = 2;
        limits.table_columns = 3;
        limits.row_bytes = 100;
        limits.table_bytes = 150;
        limits.object_bytes = 100;
        limits.objects = 2;
        limits.blob_bytes = 150;
        limits.message_bytes = 100;
        limits.messages = 2;
        limits.stream_bytes = 250;
        limits.file_bytes = 100;
        limits.files = 2;
        limits.fs_bytes = 150;
    });
    let long = "x".repeat(101);
    for op in ["kv.set", "kv.set"] {
        host.call("t", op, json!({"key": "a", "value": 1})).await;
    }
    for (op, args) in [
        ("kv.set", json!({"key": "b", "value": 1})),
        ("table.insert", json!({"table": "t", "row": {"id": "a"}})),
        ("table.insert", json!({"table": "t", "row": {"id": "b"}})),
        ("table.insert", json!({"table": "u", "row": {"id": "a", "s": "x".repeat(60)}})),
        ("blob.put", json!({"key": "a", "contentBase64": base64(50)})),
        ("queueBus.publish", json!({"subject": "s", "payload": 1})),
        ("queueBus.publish", json!({"subject": "s", "payload": 1})),
        ("queueBus.streamPublish", json!({"stream": "s", "record": "x".repeat(90)})),
        ("queueBus.streamPublish", json!({"stream": "s", "record": "x".repeat(90)})),
        ("fs.write", json!({"path": "a", "contentBase64": base64(100)})),
    ] {
        host.call("t", op, args).await;
    }
    let cases = [
        ("kv.set", json!({"key": "too long!", "value": 1}), "kv_key_too_large", "8"),
        ("kv.set", json!({"key": "a", "value": long}), "kv_value_too_large", "100"),
        ("kv.set", json!({"key": "a", "value": 1, "ttlSeconds": 1e12}), "kv_ttl_exceeds_max", "315360000"),
        ("kv.set", json!({"key": "c", "value": 1}), "kv_quota_exhausted", "2 keys"),
        ("kv.cas", json!({"key": "c", "expect": null, "set": 1}), "kv_quota_exhausted", "2 keys"),
        ("kv.atomicIncrement", json!({"key": "c"}), "kv_quota_exhausted", "2 keys"),
        ("cache.put", json!({"key": "a", "value": long}), "cache_value_too_large", "100"),
        (
            "cache.put",
            json!({"key": "a", "value": 1, "ttlSeconds": 604_801}),
            "cache_ttl_exceeds_max",
            "604800",
        ),
        ("table.insert", json!({"table": "t", "row": {"id": "c"}}), "table_row_limit_reached", "2 rows"),
        ("table.insert", json!({"table": "v", "row": {"id": "a"}}), "table_row_limit_reached", "2 tables"),
        (
            "table.insert",
            json!({"table": "u", "row": {"id": "b", "s": "x".repeat(80)}}),
            "table_row_limit_reached",
            "150",
        ),
        (
            "table.upsert",
            json!({"table": "t", "row": {"id": "a", "b": 1, "c": 1, "d": 1}}),
            "table_schema_violation",
            "3",
        ),
        (
            "table.upsert",
            json!({"table": "t", "row": {"id": "a", "b": null, "c": null, "d": null}}),
            "table_schema_violation",
            "3",
        ),
        (
            "table.upsert",
            json!({"table": "t", "row": {"id": "a", "s": long}}),
            "table_schema_violation",
            "100",
        ),
        ("blob.put", json!({"key": "b", "contentBase64": base64(101)}), "blob_object_too_large", "100"),
        ("blob.put", json!({"key": "b", "contentBase64": base64(2000)}), "blob_object_too_large", "100"),
        ("queueBus.publish", json!({"subject": "s", "payload": long}), "invalid_argument", "100"),
        (
            "queueBus.publish",
            json!({"subject": "s", "payload": 1}),
            "queue_backend_unavailable",
            "2 waiting messages",
        ),
        (
            "queueBus.streamPublish",
            json!({"stream": "s", "record": "x".repeat(90)}),
            "queue_backend_unavailable",
            "250",
        ),
        ("queueBus.consume", json!({"subject": "s", "leaseSeconds": 1e9}), "invalid_argument", "43200"),
        ("fs.write", json!({"path": "b", "contentBase64": base64(101)}), "file_too_large", "100"),
        ("fs.write", json!({"path": "b", "contentBase64": base64(51)}), "file_too_large", "150"),
        ("fs.write", json!({"path": "d/b", "contentBase64": ""}), "file_too_large", "2 files"),
    ];
    for (op, args, code, bound) in cases {
        let shown = format!("{op} {args}");
        let refused = host.try_at(NOW, "t", op, args).await.unwrap_err();
        assert_eq!(refused.code.as_str(), code, "{shown}");
        assert!(refused.message.contains(bound), "{shown}: {}", refused.message);
    }
    host.call("t", "blob.put", json!({"key": "b", "contentBase64": base64(100)})).await;
    for key in ["b", "c"] {
        let refused = host.refused("t", "blob.put", json!({"key": "c", "contentBase64": base64(1)})).await;
        assert_eq!(refused, "blob_object_too_large", "{key}");
    }
    // A smaller replacement always fits, and a deletion frees space.
    host.call("t", "fs.write", json!({"path": "a", "contentBase64": base64(10)})).await;
    host.call("t", "fs.write", json!({"path": "b", "contentBase64": base64(100)})).await;
    host.call("t", "fs.delete", json!({"path": "a"})).await;
    host.call("t", "fs.write", json!({"path": "a", "contentBase64": base64(50)})).await;
    host.call("t", "kv.delete", json!({"key": "b"})).await;
    host.call("t", "kv.set", json!({"key": "c", "value": 1})).await;
    host.call("other", "queueBus.publish", json!({"subject": "s", "payload": 1})).await;
}

#[tokio::test]
async fn a_full_cache_evicts_the_earliest_expiry_first() {
    for host in [Host::with(|limits| limits.cache_bytes = 20), Host::with(|limits| limits.cache_keys = 2)] {
        for (key, seconds) in [("a", 30), ("b", 10), ("c", 20)] {
            host.call("t", "cache.put", json!({"key": key, "value": "12345", "ttlSeconds": seconds})).await;
        }
        for (key, expected) in [("a", true), ("b", false), ("c", true)] {
            assert_eq!(host.call("t", "cache.get", json!({"key": key})).await["hit"], expected, "{key}");
        }
    }
}

#[tokio::test]
async fn a_put_evicts_a_limited_number() {
    let host = Host::with(|limits| limits.cache_bytes = 6_000);
    let put = async |key: String, value: String| {
        host.call("t", "cache.put", json!({"key": key, "value": value, "ttlSeconds": 60})).await;
    };
    // Six bytes each, so a large value displaces many hundreds of them.
    for n in 0..1000 {
        put(format!("{n:03}"), "x".to_owned()).await;
    }
    let mut puts = 0;
    while host.call("t", "cache.get", json!({"key": "large"})).await["hit"] == false {
        put("large".to_owned(), "x".repeat(4_000)).await;
        puts += 1;
        assert!(puts < 10, "each evicts for the next");
    }
    assert_eq!(puts, 3, "each put evicts 256, and 668 are needed");
    let mut left = 0;
    for n in 0..1000 {
        let result = host.call("t", "cache.get", json!({"key": format!("{n:03}")})).await;
        left += usize::from(result["hit"] == true);
    }
    assert_eq!(left, 332);
}

/// Every file in a folder.
fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn rejected_objects_leave_no_files() {
    let host = Host::with(|limits| limits.blob_bytes = 150);
    host.call("t", "blob.put", json!({"key": "a", "contentBase64": base64(100)})).await;
    let blobs = host.folder.path().join("surfaces/blobs");
    for size in 51..60 {
        let refused = host.refused("t", "blob.put", json!({"key": "b", "contentBase64": base64(size)})).await;
        assert_eq!(refused, "blob_object_too_large");
    }
    // Concurrent puts are all announced, but not all fit.
    let both = [40, 41].map(|size| {
        host.try_at(NOW, "t", "blob.put", json!({"key": size.to_string(), "contentBase64": base64(size)}))
    });
    let result = futures_util::future::join_all(both).await;
    assert_eq!(result.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(files_below(&blobs).len(), 2);
}

#[tokio::test]
async fn stream_records_are_limited_per_tenant() {
    let host = Host::with(|limits| limits.records = 2);
    for stream in ["a", "b"] {
        host.call("t", "queueBus.streamPublish", json!({"stream": stream, "record": 1})).await;
    }
    let refused = host.try_at(NOW, "t", "queueBus.streamPublish", json!({"stream": "c", "record": 1})).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code.as_str(), "queue_backend_unavailable");
    assert!(refused.message.contains("2 records"), "{}", refused.message);
}

#[tokio::test]
async fn replacing_a_record_fits_after_limits_shrink() {
    let host = Host::with(|limits| limits.stream_records = 3);
    let publish = async |host: &Host, stream: &str, record: Value| {
        host.try_at(NOW, "t", "queueBus.streamPublish", json!({"stream": stream, "record": record})).await
    };
    for n in 0..3 {
        publish(&host, "s", json!(n)).await.unwrap();
    }
    let host = host.reopened_with(|limits| limits.records = 2);
    publish(&host, "s", json!(3)).await.unwrap();
    for (stream, record) in [("s", json!("longer")), ("new", json!(1))] {
        let refused = publish(&host, stream, record).await.unwrap_err();
        assert!(refused.message.contains("2 records"), "{stream}: {}", refused.message);
    }
}

#[tokio::test]
async fn a_stream_keeps_its_newest_records() {
    let host = Host::with(|limits| limits.stream_records = 3);
    let first =
        host.call("t", "queueBus.streamSubscribe", json!({"stream": "s", "fromBeginning": true})).await;
    for n in 0..10 {
        host.call("t", "queueBus.streamPublish", json!({"stream": "s", "record": n})).await;
    }
    let all = host.call("t", "queueBus.streamSubscribe", json!({"stream": "s", "fromBeginning": true})).await;
    let payloads: Vec<&Value> =
        all["records"].as_array().unwrap().iter().map(|record| &record["payload"]).collect();
    assert_eq!(payloads, [7, 8, 9]);
    let behind = json!({"stream": "s", "cursor": first["nextCursor"]});
    assert_eq!(
        host.call("t", "queueBus.streamSubscribe", behind).await["count"],
        3,
        "a cursor may point to removed records"
    );
}

#[tokio::test]
async fn hostile_input_is_rejected() {
    let host = Host::open();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let huge = "k".repeat(1 << 20);
    let cases = [
        ("kv.set", json!({"key": "a\u{0}b", "value": 1}), "invalid_argument"),
        ("kv.set", json!({"key": "", "value": 1}), "invalid_argument"),
        ("kv.set", json!({"key": huge, "value": 1}), "kv_key_too_large"),
        ("kv.set", json!({"key": "k", "value": deep}), "invalid_argument"),
        ("kv.set", json!({"key": "k"}), "invalid_argument"),
        ("kv.set", json!({"key": 1, "value": 1}), "invalid_argument"),
        ("kv.set", json!({"key": "k", "value": 1, "ttlSeconds": 0}), "invalid_argument"),
        ("kv.set", json!({"key": "k", "value": 1, "ttlSeconds": -1}), "invalid_argument"),
        ("kv.set", json!({"key": "k", "value": 1, "ttlSeconds": "1"}), "invalid_argument"),
        ("kv.atomicIncrement", json!({"key": "k", "delta": 1.5}), "invalid_argument"),
        ("kv.cas", json!({"key": "k", "expect": 1}), "invalid_argument"),
        ("kv.cas", json!({"key": "k", "expect": 1, "expected": 1, "set": 1}), "invalid_argument"),
        ("kv.list", json!({"limit": 0}), "invalid_argument"),
        ("kv.list", json!({"limit": u64::MAX}), "invalid_argument"),
        ("table.insert", json!({"table": "", "row": {"id": "a"}}), "invalid_argument"),
        ("table.insert", json!({"table": "t\u{0}", "row": {"id": "a"}}), "invalid_argument"),
        ("table.insert", json!({"table": "t", "row": {"id": "a", "": 1}}), "invalid_argument"),
        ("table.insert", json!({"table": "t", "row": [1]}), "invalid_argument"),
        ("table.createTable", json!({"table": "t", "columns": {"a": "blob"}}), "invalid_argument"),
        ("table.createTable", json!({"table": "t", "columns": {}, "schema": {}}), "invalid_argument"),
        ("table.createTable", json!({"table": "t", "columns": [{"type": "string"}]}), "invalid_argument"),
        ("queueBus.publish", json!({"subject": huge, "payload": 1}), "invalid_argument"),
        ("queueBus.publish", json!({"subject": "s", "topic": "s", "payload": 1}), "invalid_argument"),
        ("queueBus.streamSubscribe", json!({"stream": "s", "cursor": "s-1"}), "invalid_argument"),
        (
            "queueBus.streamSubscribe",
            json!({"stream": "s", "cursor": "s1", "fromBeginning": true}),
            "invalid_argument",
        ),
        ("blob.put", json!({"key": "k", "contentBase64": "not base64"}), "invalid_argument"),
        (
            "blob.put",
            json!({"key": "k", "contentBase64": "", "contentType": "a/b\r\nX-Evil: 1"}),
            "invalid_argument",
        ),
        ("blob.presign", json!({"key": "k", "expiresInSeconds": 1, "method": "DELETE"}), "invalid_argument"),
        ("fs.write", json!({"path": "a", "contentBase64": "YQ"}), "invalid_argument"),
        ("fs.read", json!({"path": "../../etc/passwd"}), "path_outside_sandbox"),
        ("fs.read", json!({"path": "/etc/passwd"}), "path_outside_sandbox"),
        ("fs.list", json!({"path": ".."}), "path_outside_sandbox"),
        ("fs.write", json!({"path": ".", "contentBase64": ""}), "invalid_argument"),
    ];
    for (op, args, code) in cases {
        let shown: String = format!("{op} {args}").chars().take(200).collect();
        assert_eq!(host.refused("t", op, args).await, code, "{shown}");
    }
    assert_eq!(host.call("t", "kv.list", json!({})).await["keys"], json!([]));
    assert_eq!(host.refused("t", "table.count", json!({"table": "t"})).await, "table_not_found");
    assert_eq!(host.call("t", "fs.list", json!({})).await["entries"], json!([]));
}

#[tokio::test]
async fn similar_names_are_suggested() {
    let host = Host::open();
    let cases = [
        ("kv.sett", json!({}), "did you mean `set`?"),
        ("kv.nothing like it", json!({}), "the operations are get, set, put"),
        ("queueBus.publsh", json!({}), "did you mean `publish`?"),
        ("kv.get", json!({"kye": "k"}), "did you mean `key`?"),
        ("kv.get", json!({"wholly different": "k"}), "the arguments are key"),
        (&format!("kv.{}", "x".repeat(1 << 20)), json!({}), "the operations are get"),
    ];
    for (op, args, expected) in cases {
        let refused = host.try_at(NOW, "t", op, args).await.unwrap_err();
        assert_eq!(refused.code.as_str(), "invalid_argument");
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert!(refused.message.len() < 300);
    }
    let missing = host.try_at(NOW, "t", "sql.query", json!({})).await.unwrap_err();
    assert_eq!(missing.code.as_str(), "host_capability_missing");
    assert_eq!(missing.capability.as_deref(), Some("host.sql"));
}
