//! Malicious and malformed requests.

use std::time::Duration;

use serde_json::json;
use server::http::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::client::{parse, raw, request};
use super::service::{Host, KEY, noop};

async fn post(host: &Host, headers: &[(&str, &str)], body: &[u8]) -> super::client::Answer {
    let key = format!("Bearer {KEY}");
    let mut all = vec![("authorization", key.as_str())];
    all.extend(headers);
    host.send("POST", "/v1/runs", &all, Some(body)).await
}

#[tokio::test]
async fn invalid_json_is_rejected_with_its_position() {
    let host = Host::start().await;
    let deep = "[".repeat(100_000);
    let cases: [(&str, &[u8], &str); 13] = [
        ("nothing", b"", "JSON_SYNTAX"),
        ("half", b"{\"workflowId\": ", "JSON_SYNTAX"),
        ("two", b"{} {}", "JSON_SYNTAX"),
        ("bare word", b"hello", "JSON_SYNTAX"),
        ("twice", b"{\"a\":1,\"a\":2}", "JSON_DUPLICATE_KEY"),
        ("deep", deep.as_bytes(), "JSON_TOO_DEEP"),
        ("no text", b"{\"a\":\"\xff\"}", "JSON_INVALID_TEXT"),
        ("half a pair", b"{\"a\":\"\\ud800\"}", "JSON_INVALID_TEXT"),
        ("no number", b"{\"a\":1e999}", "JSON_INEXACT_NUMBER"),
        ("another encoding", b"{\x00\"\x00a\x00\"\x00:\x001\x00}\x00", "JSON_SYNTAX"),
        ("a mark of the order of bytes", b"\xef\xbb\xbf{}", "JSON_SYNTAX"),
        ("a long spelling of a slash", b"{\"a\":\"\xc0\xaf\"}", "JSON_INVALID_TEXT"),
        ("a raw control character", b"{\"a\":\"\x01\"}", "JSON_SYNTAX"),
    ];
    for (name, body, reason) in cases {
        let refused = post(&host, &[("content-type", "application/json")], body).await;
        let refused = refused.refused(400, "validation_error");
        assert_eq!(refused["details"]["reason"], reason, "{name}");
        assert!(refused["details"]["line"].is_u64(), "{name}");
    }
    let secret = b"{\"sk-aaaaaaaaaaaaaaaaaaaaaaaa\":1,\"sk-aaaaaaaaaaaaaaaaaaaaaaaa\":2}";
    assert!(!post(&host, &[], secret).await.text().contains("sk-aaaa"));
}

#[tokio::test]
async fn bodies_of_another_kind_or_size_are_refused() {
    let host = Host::start().await;
    let body = json!({"workflowId": "none"}).to_string();
    for media in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""]
    {
        post(&host, &[("content-type", media)], body.as_bytes()).await.refused(415, "unsupported_media_type");
    }
    for media in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"] {
        post(&host, &[("content-type", media)], body.as_bytes()).await.refused(404, "workflow_not_found");
    }
    post(&host, &[("content-encoding", "gzip")], body.as_bytes())
        .await
        .refused(415, "unsupported_media_type");
    // Only announced by `Content-Length`, and not sent.
    let text = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ncontent-length: \
         99999999999\r\n\r\n"
    );
    let refused = raw(host.address, text.as_bytes()).await.unwrap();
    assert_eq!(refused.refused(413, "payload_too_large")["details"]["maxRequestBodyBytes"], 4 << 20);
}

#[tokio::test]
async fn the_limit_of_a_chunked_body_applies_while_it_arrives() {
    let settings = Settings { max_body_bytes: 1000, ..Settings::default() };
    let host = Host::start_with(settings).await;
    let mut stream = TcpStream::connect(host.address).await.unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: \
         chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    for _ in 0..3 {
        let _ = stream.write_all(chunk.as_bytes()).await;
    }
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    parse(&received).unwrap().refused(413, "payload_too_large");
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let settings = Settings {
        head_timeout: Duration::from_millis(50),
        body_timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let host = Host::start_with(settings).await;
    let cases: [(&str, String, Option<u16>); 3] = [
        ("says nothing", String::new(), None),
        ("half a head", "GET /healthz HTTP/1.1\r\nhost: t\r\nx-a".to_owned(), None),
        (
            "half a body",
            format!(
                "POST /v1/runs HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ncontent-length: \
                 100\r\n\r\n{{"
            ),
            Some(408),
        ),
    ];
    for (name, text, status) in cases {
        let answer =
            tokio::time::timeout(Duration::from_secs(20), raw(host.address, text.as_bytes())).await.unwrap();
        assert_eq!(
            answer.filter(|answer| answer.status != 408 || status.is_some()).map(|answer| answer.status),
            status,
            "{name}"
        );
    }
    host.send("GET", "/healthz", &[], None).await.expect(200);
}

#[tokio::test]
async fn hostile_paths_are_rejected() {
    let host = Host::start().await;
    host.register(&noop()).await;
    for path in [
        "/v1/../healthz",
        "/v1/runs/..%2f..",
        "/v1/runs/%2e%2e",
        "/v1/runs/a%2fb",
        "/v1/runs/a%00",
        "/v1/runs/%ff",
        "/v1/runs/%zz",
        "/v1/runs/x/:pause",
        "/v1/runs/:cancel",
    ] {
        host.send("GET", path, &[], None).await.refused(401, "unauthenticated");
        host.get(path).await.refused(400, "validation_error");
    }
    for path in ["/v1/", "/v1/runs/", "/v1//runs", "/v1/runs/a/b", "/v1/Runs", "/v1/runs/a:dance/b"] {
        host.get(path).await.refused(404, "not_found");
    }
    for path in
        ["/v1/runs/a%3Apause", "/v1/runs/a:dance", "/v1/runs/%F0%9F%90%A2", "/v1/runs/a'--", "/v1/runs/%20"]
    {
        host.get(path).await.refused(404, "run_not_found");
    }
}

#[tokio::test]
async fn invalid_or_oversized_http_closes_the_connection() {
    let host = Host::start().await;
    let flood: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    let long = format!("GET /healthz HTTP/1.1\r\nhost: t\r\nx-a: {}\r\n\r\n", "y".repeat(1 << 20));
    let cases = [
        "hello\r\n\r\n".to_owned(),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned() + "\r\n\r\n",
        format!("GET /healthz HTTP/1.1\r\nhost: t\r\n{flood}\r\n"),
        long,
        format!("GET /{} HTTP/1.1\r\nhost: t\r\n\r\n", "a".repeat(200_000)),
        "POST /v1/runs HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello".to_owned(),
    ];
    for text in cases {
        let answer = raw(host.address, text.as_bytes()).await;
        let status = answer.map(|answer| answer.status);
        assert!(
            status.is_none_or(|status| (400..500).contains(&status)),
            "{status:?} for {}",
            &text[..20.min(text.len())]
        );
        host.send("GET", "/healthz", &[], None).await.expect(200);
    }
}

#[tokio::test]
async fn health_is_answered_beyond_the_limit_of_connections() {
    let settings =
        Settings { max_connections: 2, head_timeout: Duration::from_millis(200), ..Settings::default() };
    let host = Host::start_with(settings).await;
    let mut idle = Vec::new();
    for _ in 0..10 {
        idle.push(TcpStream::connect(host.address).await.unwrap());
    }
    host.send("GET", "/healthz", &[], None).await.expect(200);
}

/// Sends a request without a key from the given loopback address.
async fn get_from(host: &Host, from: &str, path: &str) -> super::client::Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(host.address).await.unwrap();
    stream.write_all(&request("GET", path, &[], None)).await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    parse(&received).unwrap()
}

/// Finding H2: clients that hold every connection they can get stop neither health checks nor other addresses.
#[tokio::test]
async fn held_connections_stop_neither_health_checks_nor_other_addresses() {
    const DISCOVERY: &str = "/.well-known/openwop";
    let settings = Settings {
        max_connections: 5,
        connections_per_local_address: 3,
        reserved_connections: 2,
        head_timeout: Duration::from_secs(600),
        ..Settings::default()
    };
    let host = Host::start_with(settings).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(TcpStream::connect(host.address).await.unwrap());
    }
    for path in ["/healthz", "/readyz"] {
        get_from(&host, "127.0.0.1", path).await.expect(200);
    }
    let refused = get_from(&host, "127.0.0.1", DISCOVERY).await;
    let body = refused.refused(503, "service_unavailable");
    assert_eq!((refused.header("retry-after"), &body["details"]["maxConnections"]), (Some("1"), &json!(3)));
    get_from(&host, "127.0.0.2", DISCOVERY).await.expect(200);
    // Two other addresses use up the rest: then the host is at its limit.
    for from in ["127.0.0.3", "127.0.0.4"] {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        held.push(socket.connect(host.address).await.unwrap());
    }
    let body = get_from(&host, "127.0.0.5", DISCOVERY).await.refused(503, "service_unavailable");
    assert_eq!(body["details"]["maxConnections"], 5);
    get_from(&host, "127.0.0.5", "/healthz").await.expect(200);
    drop(held);
    while get_from(&host, "127.0.0.1", DISCOVERY).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

/// Finding H2: a form has the same timeout as any other body.
#[tokio::test]
async fn a_form_that_does_not_arrive_times_out() {
    let read = |body: axum::body::Body| async {
        match axum::body::to_bytes(body, 1000).await {
            Ok(_) => http::StatusCode::OK,
            Err(_) => http::StatusCode::REQUEST_TIMEOUT,
        }
    };
    let pages = axum::Router::new().fallback(read);
    let settings = Settings { body_timeout: Duration::from_millis(50), ..Settings::default() };
    let host = Host::start_with_pages(settings, pages).await;
    for (body, status) in [("a=", 408), ("a=12345678", 200)] {
        let head =
            "POST /console/sign-in HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: 10\r\n\r\n";
        let sent = format!("{head}{body}");
        let answer = tokio::time::timeout(Duration::from_secs(20), raw(host.address, sent.as_bytes()));
        assert_eq!(answer.await.unwrap().unwrap().status, status, "{body}");
    }
}

/// Finding H4c: the number of concurrent archive uploads is limited, like that of objects.
#[tokio::test]
async fn archives_are_received_a_few_at_a_time() {
    let host = Host::start().await;
    let path = "/v1/packs/core.acme.x/-/1.0.0.tgz";
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ncontent-length: 1000\r\n\r\nx"
    );
    let mut senders = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(host.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        senders.push(stream);
    }
    // When the host is receiving four uploads, it refuses a fifth.
    let refused = loop {
        let answer = host.put(path, &[], b"x").await;
        if answer.status == 429 {
            break answer;
        }
    };
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("5"));
    drop(senders);
    while host.put(path, &[], b"x").await.status == 429 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn many_at_once_are_all_answered() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let body = json!({"workflowId": "noop"});
    let created = futures_util::future::join_all((0..50).map(|_| host.post("/v1/runs", &body))).await;
    for answer in created {
        answer.expect(201);
    }
    let get = request("GET", "/v1/runs/none", &[], None);
    let answers = futures_util::future::join_all((0..200).map(|_| raw(host.address, &get))).await;
    assert!(
        answers.into_iter().all(|answer| answer.unwrap().status == 401),
        "a flood of denials is answered too"
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    let settings =
        Settings { max_connections: 1, write_timeout: Duration::from_millis(100), ..Settings::default() };
    let host = Host::start_with(settings).await;
    let text = "x".repeat(500_000);
    let variables = json!([{"name": "v", "type": "string", "defaultValue": text}]);
    let large = super::service::workflow("large", &[("only", "core.noop", json!({}))], &variables);
    host.register(&large).await;
    let ask = format!("GET /v1/workflows/large HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\n\r\n");
    let _greedy = loop {
        let mut greedy = TcpStream::connect(host.address).await.unwrap();
        // More than the socket buffers of both ends hold.
        let _ = greedy.write_all(ask.repeat(40).as_bytes()).await;
        let mut begin = [0; 12];
        // The one connection may not be free yet.
        if greedy.read_exact(&mut begin).await.is_ok() && begin == *b"HTTP/1.1 200" {
            break greedy;
        }
    };
    while host.get("/v1/workflows/large").await.status == 503 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ambiguous_http_is_answered_once() {
    let host = Host::start().await;
    let hidden = "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
    let head = format!("POST /v1/runs HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\n");
    let length = hidden.len() + 5;
    let cases = [
        (
            "two ways to end",
            format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        ),
        (
            "the other way round",
            format!("transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n{hidden}"),
        ),
        ("two lengths", format!("content-length: 0\r\ncontent-length: {length}\r\n\r\n{hidden}")),
        ("a length with a sign", format!("content-length: +0\r\n\r\n{hidden}")),
        ("no length", format!("content-length: x\r\n\r\n{hidden}")),
        ("chunked is not last", format!("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}")),
        ("almost chunked", format!("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("a space before the colon", format!("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("a folded line", format!("x-a: b\r\n content-length: 0\r\ntransfer-encoding: x\r\n\r\n{hidden}")),
        ("a chunk without end", format!("transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{hidden}")),
        ("a chunk of no size", format!("transfer-encoding: chunked\r\n\r\n-1\r\n{hidden}")),
        ("a zero byte", format!("x-a: \u{0}\r\n\r\n{hidden}")),
    ];
    for (name, rest) in cases {
        let mut stream = TcpStream::connect(host.address).await.unwrap();
        let _ = stream.write_all(format!("{head}{rest}").as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received).await;
        let text = String::from_utf8_lossy(&received);
        assert!(text.matches("HTTP/1.1 ").count() <= 1, "{name}: {text}");
        assert!(!text.contains("HTTP/1.1 2") && !text.contains("HTTP/1.1 5"), "{name}: {text}");
        host.send("GET", "/healthz", &[], None).await.expect(200);
    }
}
