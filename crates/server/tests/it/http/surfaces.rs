//! The node stores, one operation per request, as conformance suites use them.

use serde_json::{Value, json};
use server::http::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::Answer;
use super::logs::log;
use super::service::{Host, OTHER, READER};

async fn ask(host: &Host, tenant: &str, call: (&str, &str), args: Value) -> Answer {
    let body = json!({"tenantId": tenant, "surface": call.0, "op": call.1, "args": args});
    host.post("/v1/host/sample/test/surface", &body).await
}

/// Asserts an error in the nested form.
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{}", answer.text());
}

#[tokio::test]
async fn a_surface_call_uses_the_tenant_of_its_arguments() {
    let host = Host::start_equipped(&[]).await;
    let set = ask(&host, "acme", ("kv", "set"), json!({"key": "k", "value": {"a": 1}})).await;
    assert_eq!(set.expect(200), json!({"ok": true}));
    let get = async |tenant| ask(&host, tenant, ("kv", "get"), json!({"key": "k"})).await.expect(200);
    assert_eq!(get("acme").await["value"], json!({"a": 1}));
    assert_eq!(get("other").await, json!({"value": null, "found": false, "ttlRemainingMs": null}));
    for (call, args) in [
        (("table", "insert"), json!({"table": "t", "row": {"id": "a"}})),
        (("cache", "put"), json!({"key": "k", "value": 1})),
        (("blob", "put"), json!({"key": "k", "contentBase64": "aGk="})),
        (("queueBus", "publish"), json!({"subject": "s", "payload": 1})),
        (("fs", "write"), json!({"path": "d/f", "contentBase64": "aGk="})),
    ] {
        ask(&host, "acme", call, args).await.expect(200);
    }
    let read = async |body: Value| host.post("/v1/host/sample/fs/read", &body).await;
    assert_eq!(
        read(json!({"path": "d/f", "tenantId": "acme"})).await.expect(200),
        json!({"contentBase64": "aGk=", "size": 2})
    );
    refused(&read(json!({"path": "d/f"})).await, 400, "file_not_found");
    refused(&read(json!({"path": "/etc/passwd", "tenantId": "acme"})).await, 400, "path_outside_sandbox");
    refused(&read(json!({"path": "../other/f", "tenantId": "acme"})).await, 400, "path_outside_sandbox");
}

#[tokio::test]
async fn an_invalid_surface_call_gets_a_flat_error_and_a_surface_error_is_nested() {
    let host = Host::start_equipped(&[]).await;
    let body =
        |tenant: Value, surface: &str, op: Value| json!({"tenantId": tenant, "surface": surface, "op": op});
    for wrong in [
        json!({"surface": "kv", "op": "get"}),
        body(json!(" "), "kv", json!("get")),
        body(json!(7), "kv", json!("get")),
        body(json!("../acme"), "kv", json!("get")),
        body(json!("acme"), "nosql", json!("find")),
        body(json!("acme"), "kv", json!(" ")),
        body(json!("acme"), "kv", json!("getAll")),
        body(json!("acme"), "webhooks", json!("read")),
        json!({"tenantId": "acme", "surface": "kv", "op": "get", "args": []}),
    ] {
        host.post("/v1/host/sample/test/surface", &wrong).await.refused(400, "invalid_argument");
    }
    let long = "k".repeat(2000);
    for (call, args, code) in [
        (("kv", "set"), json!({"key": long, "value": 1}), "kv_key_too_large"),
        (("fs", "write"), json!({"path": "../x", "contentBase64": ""}), "path_outside_sandbox"),
        (("table", "query"), json!({"table": "none"}), "table_not_found"),
        (("blob", "get"), json!({"bucket": "none", "key": "k"}), "blob_bucket_not_found"),
    ] {
        refused(&ask(&host, "acme", call, args).await, 400, code);
    }
}

#[tokio::test]
async fn a_missing_surface_is_named_in_the_error() {
    let without = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    ask(&without, "acme", ("kv", "get"), json!({"key": "k"})).await.refused(503, "host_capability_missing");
    let host = Host::start_equipped(&[]).await;
    let missing = ask(&host, "acme", ("sql", "query"), json!({"sql": "SELECT a FROM t"})).await;
    assert_eq!(missing.refused(503, "host_capability_missing")["details"]["capability"], "host.sql");
    let found = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(found.get("sql"), None, "what is not served is not said");
    assert_eq!(found["kvStorage"]["supported"], true);
    for family in ["fs", "kvStorage", "tableStorage", "cache", "blobStorage", "queueBus"] {
        assert_eq!(found[family], found["capabilities"][family], "{family} is in both places");
    }
}

#[tokio::test]
async fn the_surfaces_of_any_tenant_are_for_administrators_alone() {
    let host = Host::start_equipped(&[]).await;
    let reader = format!("Bearer {READER}");
    let body = json!({"tenantId": "a", "surface": "kv", "op": "get", "args": {"key": "k"}});
    for path in ["/v1/host/sample/test/surface", "/v1/host/sample/fs/read"] {
        let turned_away = host.post_with(path, &[("authorization", &reader)], &body).await;
        assert_eq!(turned_away.refused(403, "forbidden")["details"]["scopeRequired"], "host:admin");
    }
}

#[tokio::test]
async fn a_presigned_url_returns_the_object_until_it_expires() {
    let host = Host::start_equipped(&[]).await;
    let html = json!({"key": "k", "contentBase64": "PGI+", "contentType": "text/html"});
    ask(&host, "acme", ("blob", "put"), html).await.expect(200);
    let presign = async |seconds: f64| {
        let args = json!({"key": "k", "expiresInSeconds": seconds});
        ask(&host, "acme", ("blob", "presign"), args).await.expect(200)
    };
    let signed = presign(60.0).await;
    let (url, token) = (signed["url"].as_str().unwrap(), signed["token"].as_str().unwrap());
    for path in [url.to_owned(), format!("/v1/blobs/{token}")] {
        let got = host.send("GET", &path, &[], None).await;
        assert_eq!((got.status, got.body.as_slice()), (200, &b"<b>"[..]), "{path}");
        assert_eq!(got.header("content-type"), Some("text/html"));
        // Untrusted content: a browser must neither execute nor cache it.
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert!(got.header("content-security-policy").unwrap().contains("sandbox"));
        assert_eq!(got.header("cache-control"), Some("private, no-store"));
    }
    let short = presign(0.001).await;
    let over = loop {
        let got = host.send("GET", short["url"].as_str().unwrap(), &[], None).await;
        if got.status != 200 {
            break got;
        }
    };
    over.refused(403, "blob_presign_expired");
    let key = format!("Bearer {}", super::service::KEY);
    let with_key = host.send("GET", short["url"].as_str().unwrap(), &[("authorization", &key)], None).await;
    with_key.refused(403, "blob_presign_expired");
    for wrong in [format!("{token}x"), "none".to_owned(), token.replacen('.', "", 1)] {
        let unknown = host.send("GET", &format!("/v1/blobs/{wrong}"), &[], None).await;
        unknown.refused(404, "blob_presign_not_found");
    }
    assert!(!log().text().contains(token), "an address is a secret");
}

#[tokio::test]
async fn an_object_is_stored_only_with_its_presigned_url() {
    let host = Host::start_equipped(&[]).await;
    let presign = async |method: &str, seconds: f64| {
        let args = json!({"key": "k", "method": method, "expiresInSeconds": seconds});
        ask(&host, "acme", ("blob", "presign"), args).await.expect(200)["token"].as_str().unwrap().to_owned()
    };
    let put = async |token: &str, kind: &[(&str, &str)], body: &[u8]| {
        host.send("PUT", &format!("/v1/blobs/{token}"), kind, Some(body)).await
    };
    let token = presign("PUT", 60.0).await;
    put(&token, &[("content-type", "text/plain")], b"from outside").await.expect(200);
    let got = ask(&host, "acme", ("blob", "get"), json!({"key": "k"})).await.expect(200);
    assert_eq!(
        (&got["contentBase64"], &got["contentType"]),
        (&json!("ZnJvbSBvdXRzaWRl"), &json!("text/plain"))
    );
    assert_eq!(ask(&host, "other", ("blob", "get"), json!({"key": "k"})).await.expect(200)["found"], false);
    // A URL for one method is invalid for the other.
    put(&presign("GET", 60.0).await, &[], b"evil").await.refused(404, "blob_presign_not_found");
    let crossed = host.send("GET", &format!("/v1/blobs/{token}"), &[], None).await;
    crossed.refused(404, "blob_presign_not_found");
    put("none", &[], b"evil").await.refused(404, "blob_presign_not_found");
    let short = presign("PUT", 0.001).await;
    let over = loop {
        let answer = put(&short, &[], b"late").await;
        if answer.status != 200 {
            break answer;
        }
    };
    over.refused(403, "blob_presign_expired");
    put(&token, &[("content-type", "none")], b"x").await.refused(400, "invalid_argument");
    // Refused by its `Content-Length`, before any byte is received.
    let large = format!(
        "PUT /v1/blobs/{token} HTTP/1.1\r\nhost: host.test\r\ncontent-length: {}\r\nconnection: \
         close\r\n\r\n",
        65 << 20
    );
    let answer = super::client::raw(host.address, large.as_bytes()).await.unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    let got = ask(&host, "acme", ("blob", "get"), json!({"key": "k"})).await.expect(200);
    assert_ne!(got["contentBase64"], "ZXZpbA==", "nothing else was written");
}

#[tokio::test]
async fn objects_that_are_received_at_once_are_bounded() {
    let host = Host::start_equipped(&[]).await;
    let args = json!({"key": "k", "method": "PUT", "expiresInSeconds": 600});
    let signed = ask(&host, "acme", ("blob", "presign"), args).await.expect(200);
    let path = format!("/v1/blobs/{}", signed["token"].as_str().unwrap());
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: host.test\r\ncontent-length: 3\r\nexpect: \
         100-continue\r\nconnection: close\r\n\r\n"
    );
    let mut sending = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(host.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // Sent when the host begins to receive.
        let mut said = [0; 25];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
        sending.push(stream);
    }
    let refused = host.send("PUT", &path, &[], Some(b"one")).await;
    assert_eq!(refused.refused(429, "rate_limited")["details"]["scope"], "global");
    assert!(refused.header("retry-after").is_some());
    // An invalid URL takes no permit and is reported.
    host.send("PUT", "/v1/blobs/none", &[], Some(b"x")).await.refused(404, "blob_presign_not_found");
    let mut first = sending.remove(0);
    first.write_all(b"end").await.unwrap();
    let mut received = Vec::new();
    first.read_to_end(&mut received).await.unwrap();
    super::client::parse(&received).unwrap().expect(200);
    host.send("PUT", &path, &[], Some(b"one")).await.expect(200);
    let got = ask(&host, "acme", ("blob", "get"), json!({"key": "k"})).await.expect(200);
    assert_eq!(got["contentBase64"], "b25l");
}

#[tokio::test]
async fn subscriptions_of_a_tenant_are_kept_listed_and_ended_through_the_seam() {
    let host = Host::start_equipped(&[]).await;
    let hook = async |tenant, op, args| ask(&host, tenant, ("webhooks", op), args).await;
    let address = json!({"url": "https://hooks.example/in", "events": ["run.completed"]});
    let made = hook("acme", "register", address).await.expect(200);
    assert_eq!(made.as_object().unwrap().len(), 1, "the secret is not for suites: {made}");
    let listed = hook("acme", "list", json!({})).await.expect(200);
    assert_eq!(listed["webhooks"][0]["webhookId"], made["webhookId"]);
    assert_eq!(hook("other", "list", json!({})).await.expect(200), json!({"webhooks": []}));
    let ended = json!({"webhookId": made["webhookId"]});
    assert_eq!(hook("other", "unregister", ended.clone()).await.status, 404);
    assert_eq!(hook("acme", "unregister", ended.clone()).await.expect(200), json!({"ok": true}));
    assert_eq!(hook("acme", "unregister", ended).await.status, 404);
    let inside = json!({"url": "http://169.254.169.254/latest", "events": ["run.completed"]});
    assert_eq!(hook("acme", "register", inside).await.status, 400);
}

#[tokio::test]
async fn a_correlation_that_one_tenant_used_is_new_to_another() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let envelope = |kind: &str, payload: Value| {
        json!({"envelope": {
            "type": kind, "envelopeId": "e", "correlationId": "c", "payload": payload,
            "meta": {"source": "ai-generation", "ts": "2026-01-01T00:00:00Z"},
        }})
    };
    let path = "/v1/host/sample/envelope/accept";
    let error = envelope("error", json!({"code": "x", "message": "m"}));
    assert_eq!(host.post(path, &error).await.expect(200)["status"], "accepted");
    let other = format!("Bearer {OTHER}");
    let ack = envelope("schema.response", json!({"envelopeType": "error", "ack": true}));
    let answer = host.post_with(path, &[("authorization", &other)], &ack).await;
    assert_eq!(answer.expect(200)["status"], "accepted", "another tenant, another correlation");
    assert_eq!(host.post(path, &ack).await.expect(200)["reason"], "envelope_correlation_conflict");
}
