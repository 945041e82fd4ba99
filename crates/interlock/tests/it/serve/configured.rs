//! Settings of `serve`: traces, limits, retention, shutdown.

use std::path::Path;
use std::process::Command;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{KEY, Served, examples};
use crate::program::{interlock, run_command, text};

fn configure(data: &Path, settings: &str) {
    std::fs::write(data.join("config.toml"), settings).unwrap();
}

/// Reads one request to the collector and returns its head and body.
async fn collect(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    loop {
        let mut part = [0; 16 << 10];
        let count = stream.read(&mut part).await.unwrap();
        assert_ne!(count, 0, "the request is complete");
        received.extend_from_slice(&part[..count]);
        let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(received[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = &received[end + 4..];
        if body.len() == length.parse::<usize>().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            return (head, body.to_vec());
        }
    }
}

fn attribute<'s>(span: &'s Span, name: &str) -> Option<&'s Any> {
    span.attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()
}

#[tokio::test]
async fn traces_are_sent_to_the_collector_as_children_of_the_caller() {
    let data = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secret = data.path().join("collector-key");
    std::fs::write(&secret, "Bearer for-the-collector").unwrap();
    configure(
        data.path(),
        &format!(
            "[otlp]\nendpoint = \"http://{address}/\"\nheaders = {{ authorization = \"file:{}\" }}\n",
            secret.display()
        ),
    );
    let served = Served::on(data.path(), &examples());
    let discovery: Value = serde_json::from_slice(
        &reqwest::get(format!("{}/.well-known/openwop", served.url)).await.unwrap().bytes().await.unwrap(),
    )
    .unwrap();
    assert_eq!(discovery["observability"]["otel"]["exportProtocols"], json!(["http/protobuf"]));
    let request = reqwest::Client::new()
        .post(format!("{}/v1/runs", served.url))
        .bearer_auth(KEY)
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("Content-Type", "application/json")
        .body(json!({"workflowId": "nightly"}).to_string());
    assert_eq!(request.send().await.unwrap().status(), 201);

    let (head, body) = collect(&listener).await;
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    assert!(head.contains("authorization: bearer for-the-collector"), "{head}");
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let spans: Vec<Span> = request
        .resource_spans
        .into_iter()
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"));
    let run = spans.iter().find(|span| span.name == "openwop.run").unwrap();
    assert_eq!(hex(&run.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(attribute(run, "openwop.workflow_id"), Some(&Any::StringValue("nightly".into())));
    assert!(run.end_time_unix_nano >= run.start_time_unix_nano);
    let nodes: Vec<_> = spans.iter().filter(|span| span.name.starts_with("openwop.node.core.")).collect();
    assert!(!nodes.is_empty());
    for node in nodes {
        assert_eq!(node.parent_span_id, run.span_id);
        assert!(
            attribute(node, "openwop.node_id").is_some() && attribute(node, "openwop.node_attempt").is_some()
        );
    }
}

#[tokio::test]
async fn secrets_are_advertised_if_configured() {
    for configured in [false, true] {
        let data = TempDir::new().unwrap();
        let file = data.path().join("canary");
        std::fs::write(&file, "a-confidential-value").unwrap();
        let settings = format!("[secrets]\ncanary = \"file:{}\"\n", file.display());
        configure(data.path(), if configured { &settings } else { "" });
        let served = Served::on(data.path(), &examples());
        let discovery = reqwest::get(format!("{}/.well-known/openwop", served.url)).await.unwrap();
        let discovery = discovery.text().await.unwrap();
        assert!(!discovery.contains("canary") && !discovery.contains("a-confidential-value"));
        let discovery: Value = serde_json::from_str(&discovery).unwrap();
        let said = json!({"supported": true, "scopes": ["tenant"], "resolution": "host-managed"});
        assert_eq!(discovery.get("secrets"), configured.then_some(&said));
    }
}

#[tokio::test]
async fn mock_agents_work_only_with_conformance_seams() {
    let node = json!({
        "id": "n", "typeId": "core.conformance.mock-agent", "name": "n", "position": {"x": 0, "y": 0}, "config": {},
        "inputs": {},
    });
    let mine = json!({
        "id": "mine", "name": "Mine", "version": "1", "nodes": [node], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    for (seams, said, status) in [("false", json!(null), 400), ("true", json!(true), 201)] {
        let data = TempDir::new().unwrap();
        let served =
            Served::with_environment(data.path(), &examples(), &[("OPENWOP_TEST_SEAM_ENABLED", seams)]);
        let (_, discovery) = served.ask("GET", "/.well-known/openwop", None, KEY, None).await;
        assert_eq!(discovery["conformance"]["mockAgent"], said, "{seams}");
        let (answered, answer) = served.ask("POST", "/v1/workflows", Some(mine.clone()), KEY, None).await;
        assert_eq!(answered, status, "{answer}");
    }
}

#[tokio::test]
async fn an_unavailable_collector_does_not_affect_runs() {
    let data = TempDir::new().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    configure(data.path(), &format!("otlp.endpoint = \"http://{gone}\"\n"));
    let served = Served::on(data.path(), &examples());
    let run_id = served.create("nightly", json!({})).await;
    assert_eq!(served.settled(&run_id).await["status"], "completed");
}

#[tokio::test]
async fn rate_limited_requests_get_retry_after() {
    let data = TempDir::new().unwrap();
    configure(data.path(), "[rate_limits]\nkey = { per_second = 1, burst = 3 }\n");
    let served = Served::on(data.path(), &examples());
    let ask = || reqwest::Client::new().get(format!("{}/v1/runs", served.url)).bearer_auth(KEY).send();
    let refused = loop {
        let answer = ask().await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
    };
    assert_eq!(refused.status(), 429);
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds >= 1);
    let body: Value = serde_json::from_slice(&refused.bytes().await.unwrap()).unwrap();
    assert_eq!((&body["error"], &body["details"]["scope"]), (&json!("rate_limited"), &json!("key")));
    // Requests without a valid key are counted separately.
    assert_eq!(reqwest::get(format!("{}/healthz", served.url)).await.unwrap().status(), 200);

    let mut doctor = interlock(&["doctor", "--json", "--data-dir"]);
    let shown: Value = serde_json::from_slice(&run_command(doctor.arg(data.path()), b"").stdout).unwrap();
    let setting = |name: &str| {
        let found = shown["settings"].as_array().unwrap().iter().find(|setting| setting["name"] == name);
        found.unwrap()["value"].clone()
    };
    assert_eq!(setting("rate_limits.key"), json!(["1 a second, 3 at once"]));
    assert_eq!(setting("rate_limits.tenant"), json!([]));
    assert_eq!(setting("retention.answers"), json!(["24h"]));
}

#[test]
fn invalid_settings_prevent_the_start() {
    let cases = [
        ("retention.answers = \"1h\"\n", "retention.answers"),
        ("retention.finished_runs = \"10s\"\n", "retention.finished_runs"),
        ("rate_limits.tenant.burst = 5\n", "per_second"),
        ("otlp.endpoint = \"collector:4317\"\n", "otlp.endpoint"),
        (
            "[otlp]\nendpoint = \"http://127.0.0.1:1\"\nheaders = { authorization = \"Bearer plain\" }\n",
            "otlp.headers.authorization",
        ),
    ];
    for (settings, expected) in cases {
        let data = TempDir::new().unwrap();
        configure(data.path(), settings);
        let mut serve = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        let refused = run_command(serve.arg(data.path()).env("INTERLOCK_API_KEY", KEY), b"");
        let words = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{settings}: {words}");
        assert!(words.contains("CONFIG_INVALID") && words.contains(expected), "{settings}: {words}");
        assert!(!words.contains("plain"), "{words}");
    }
}

#[tokio::test]
async fn a_stopped_server_leaves_one_database_file() {
    let data = TempDir::new().unwrap();
    let mut served = Served::on(data.path(), &examples());
    let run_id = served.create("hello", json!({})).await;
    served.settled(&run_id).await;
    let stop = Command::new("kill").arg(served.process.id().to_string()).status().unwrap();
    assert!(stop.success());
    assert!(served.process.wait().unwrap().success());
    let files: Vec<_> = std::fs::read_dir(data.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("runs.sqlite3"))
        .collect();
    assert_eq!(files, ["runs.sqlite3"]);
}

#[tokio::test]
async fn two_thousand_readers_of_one_run_receive_its_end() {
    const READERS: usize = 2000;
    // One file descriptor per reader on each side.
    if system::raise_open_files() < 4096 {
        return;
    }
    let data = TempDir::new().unwrap();
    let served = Served::on(data.path(), &examples());
    let run_id = served.create("hello", json!({})).await;
    served.settled(&run_id).await;
    let address = served.url.strip_prefix("http://").unwrap().to_owned();
    let request = format!(
        "GET /v1/runs/{run_id}/events HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n\r\n"
    );
    let mut readers = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    // Each has started to read before the run ends.
    for stream in &mut readers {
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    let (status, _) =
        served.ask("POST", &format!("/v1/runs/{run_id}/cancel"), Some(json!({})), KEY, None).await;
    assert_eq!(status, 200);
    for mut stream in readers {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(String::from_utf8_lossy(&rest).contains("event: run.cancelled"));
    }
}

/// Findings H2, H3 and H4, with settings of the real program: a run that records too much fails, a
/// client that holds connections does not block health checks, and a run that was poisoned before a
/// kill neither delays the next start nor survives it.
#[tokio::test]
async fn configured_limits_apply_to_runs_and_connections_across_a_kill() {
    let data = TempDir::new().unwrap();
    configure(
        data.path(),
        "[limits]\nappend_bytes = \"32 KiB\"\npattern_bytes = \"1 MiB\"\n[server]\nconnections_per_address = 4\n",
    );
    let served = Served::on(data.path(), &examples());
    let node = |id: &str, kind: &str, config: Value| {
        let port = json!({"x": {"type": "variable", "variableName": "v", "optional": true}});
        json!({"id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": port})
    };
    let document = |id: &str, nodes: Vec<Value>, edges: Value, variables: Value| {
        json!({
            "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "variables": variables,
            "triggers": [], "metadata": {}, "settings": {},
        })
    };
    let wide = (0..50).map(|place| node(&format!("n{place}"), "core.identity", json!({}))).collect();
    let large = json!([{"name": "v", "type": "string", "defaultValue": "x".repeat(5000)}]);
    let poison =
        vec![node("wait", "core.delay", json!({"delayMs": 200})), node("next", "core.noop", json!({}))];
    let expression = ["list==list"; 300].join("&&");
    let edge = json!([{
        "id": "e", "sourceNodeId": "wait", "targetNodeId": "next",
        "condition": {"type": "expression", "expression": expression},
    }]);
    let list = json!([{"name": "list", "type": "array", "defaultValue": vec![7; 100_000]}]);
    let documents =
        [document("wide", wide, json!([]), large), document("poison", poison.clone(), edge.clone(), list)];
    for document in documents {
        let (status, body) = served.ask("POST", "/v1/workflows", Some(document), KEY, None).await;
        assert_eq!(status, 201, "{body}");
    }
    let mut patterns = document("patterns", poison, edge, json!([]));
    patterns["edges"][0]["condition"] = json!({"type": "regex", "left": "x", "right": r"\w{50}"});
    let (status, body) = served.ask("POST", "/v1/workflows", Some(patterns), KEY, None).await;
    assert_eq!(
        (status, body["message"].as_str().unwrap().contains("the limit is 1048576")),
        (400, true),
        "{body}"
    );

    let failed = served.settled(&served.create("wide", json!({})).await).await;
    assert_eq!(failed["error"]["code"], "append_limit_exceeded", "{failed}");
    assert_eq!(failed["error"]["details"]["limit"], 32 << 10);

    let address = served.url.strip_prefix("http://").unwrap();
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(served.ask("GET", "/healthz", None, KEY, None).await.0, 200);
    // A connection of an earlier request may still have been open, and free its slot only now. The next one takes it.
    let refused = loop {
        let (status, body) = served.ask("GET", "/v1/runs", None, KEY, None).await;
        if status == 503 {
            break body;
        }
        assert!(held.len() < 100, "no connection is refused: {status} {body}");
        held.push(TcpStream::connect(address).await.unwrap());
    };
    assert_eq!(refused["details"]["maxConnections"], 4, "{refused}");
    drop(held);
    while served.ask("GET", "/v1/runs", None, KEY, None).await.0 == 503 {
        tokio::task::yield_now().await;
    }

    let poisoned = served.create("poison", json!({})).await;
    served.kill();
    let served = Served::on(data.path(), &examples());
    let failed = served.settled(&poisoned).await;
    assert_eq!(failed["error"]["code"], "decision_budget_exceeded", "{failed}");
    while served.ask("GET", "/readyz", None, KEY, None).await.0 == 503 {
        tokio::task::yield_now().await;
    }
}
