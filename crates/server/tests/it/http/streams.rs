//! Event streams.

use std::time::Duration;

use flow::id::Tenant;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit};
use runs::Scope;
use runs::keys::{self, ApiKey};
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{OpenStream, parse, request};
use super::service::{Host, KEY, TESTER, gate, noop, short, slow, workflow};
use server::http::Settings;

#[derive(Clone, Debug, Default, PartialEq)]
struct Frame {
    id: Option<u64>,
    event: String,
    data: Value,
    comment: bool,
}

fn frames(text: &str) -> Vec<Frame> {
    let frame = |block: &str| {
        let mut frame = Frame::default();
        for line in block.lines() {
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("id", value)) => frame.id = Some(value.parse().unwrap()),
                Some(("event", value)) => frame.event = value.to_owned(),
                Some(("data", value)) => frame.data = serde_json::from_str(value).unwrap(),
                Some(("", _)) => frame.comment = true,
                other => panic!("{other:?}"),
            }
        }
        frame
    };
    text.split("\n\n").filter(|block| !block.is_empty()).map(frame).collect()
}

async fn stream(host: &Host, run_id: &str, query: &str, headers: &[(&str, &str)]) -> Vec<Frame> {
    let key = format!("Bearer {KEY}");
    let mut all = vec![("authorization", key.as_str()), ("accept", "text/event-stream")];
    all.extend(headers);
    let answer = host.send("GET", &format!("/v1/runs/{run_id}/events{query}"), &all, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert!(answer.header("content-encoding").is_none());
    frames(&answer.text())
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

#[tokio::test]
async fn a_stream_sends_past_then_live_events_and_closes_at_the_end() {
    let host = Host::start().await;
    host.register(&short()).await;
    let run_id = host.create("short").await;
    let live = stream(&host, &run_id, "?streamMode=debug", &[("accept-encoding", "gzip")]).await;
    let ids: Vec<u64> = live.iter().map(|frame| frame.id.unwrap()).collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>(), "no gap and nothing twice");
    assert_eq!(live.last().unwrap().event, "run.completed");
    assert!(live.iter().all(|frame| frame.data["type"] == frame.event.as_str()));
    assert_eq!(stream(&host, &run_id, "?streamMode=debug", &[]).await, live, "and the same afterwards");
}

#[tokio::test]
async fn modes_show_what_they_are_for() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    let updates = stream(&host, &run_id, "", &[]).await;
    assert_eq!(names(&updates), ["run.started", "node.completed", "run.completed"]);
    assert_eq!(stream(&host, &run_id, "?streamMode=updates", &[]).await, updates);
    let debug = stream(&host, &run_id, "?streamMode=debug", &[]).await;
    assert!(names(&debug).contains(&"node.started"));
    assert_eq!(stream(&host, &run_id, "?streamMode=updates,debug", &[]).await, debug);
    assert_eq!(stream(&host, &run_id, "?streamMode=messages", &[]).await, []);
    assert_eq!(stream(&host, &run_id, "?streamMode=updates,messages", &[]).await, updates);
    let values = stream(&host, &run_id, "?streamMode=values", &[]).await;
    assert!(names(&values).iter().all(|name| *name == "state.snapshot"));
    let last = &values.last().unwrap().data;
    assert_eq!((&last["runId"], &last["status"]), (&json!(run_id), &json!("completed")));
}

#[tokio::test]
async fn pieces_of_a_model_come_in_their_order_and_the_last_says_that_it_is() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let config = json!({"promptId": "none", "expectsStreaming": true});
    host.register(&workflow("conformance-words", &[("ai", "core.ai.callPrompt", config)], &json!([]))).await;
    let tokens = ["one", " two", " three"];
    let mock = json!({"id": "stream-text", "config": {"tokens": tokens}});
    let body = json!({"workflowId": "conformance-words", "configurable": {"mockProvider": mock}});
    let key = format!("Bearer {TESTER}");
    let created = host.post_with("/v1/runs", &[("authorization", &key)], &body).await.expect(201);
    let run_id = created["runId"].as_str().unwrap();
    let frames = stream(&host, run_id, "?streamMode=messages", &[]).await;
    assert!(names(&frames).iter().all(|name| *name == "ai.message.chunk"), "{frames:?}");
    let chunks: Vec<_> = frames.iter().map(|frame| frame.data["chunk"].clone()).collect();
    assert_eq!(chunks, tokens);
    let last: Vec<_> = frames.iter().map(|frame| frame.data["isLast"].clone()).collect();
    assert_eq!(last, [false, false, true]);
    for frame in &frames {
        assert_eq!((&frame.data["runId"], &frame.data["nodeId"]), (&json!(run_id), &json!("ai")));
    }
    let meta = &frames.last().unwrap().data["meta"];
    assert_eq!((&meta["finishReason"], &meta["usage"]["completionTokens"]), (&json!("stop"), &json!(3)));
    assert_eq!(host.end_of(run_id).await["status"], "completed");
}

#[tokio::test]
async fn snapshots_follow_a_run_to_its_end() {
    let host = Host::start().await;
    host.register(&short()).await;
    let run_id = host.create("short").await;
    let values = stream(&host, &run_id, "?streamMode=values", &[]).await;
    let statuses: Vec<_> = values.iter().map(|frame| frame.data["status"].as_str().unwrap()).collect();
    assert_eq!(statuses.last(), Some(&"completed"));
    assert!(
        statuses.len() >= 2 && statuses[..statuses.len() - 1].iter().all(|status| *status == "running"),
        "{statuses:?}"
    );
    let ids: Vec<_> = values.iter().map(|frame| frame.id.unwrap()).collect();
    assert!(ids.is_sorted());
}

#[tokio::test]
async fn many_readers_of_one_run_see_the_same() {
    let host = Host::start().await;
    host.register(&short()).await;
    let run_id = host.create("short").await;
    let readers = (0..20).map(|_| stream(&host, &run_id, "?streamMode=debug", &[]));
    let seen = futures_util::future::join_all(readers).await;
    assert!(seen.iter().all(|frames| *frames == seen[0] && frames.last().unwrap().event == "run.completed"));
}

#[tokio::test]
async fn validation_errors_come_before_media_type_errors() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    let key = format!("Bearer {KEY}");
    for accept in ["text/event-stream", "application/json", "*/*"] {
        for mode in ["all", "updates,all", "values,updates", ""] {
            let path = format!("/v1/runs/{run_id}/events?streamMode={mode}");
            let answer = host.send("GET", &path, &[("authorization", &key), ("accept", accept)], None).await;
            let refused = answer.refused(400, "unsupported_stream_mode");
            assert_eq!(refused["details"]["supported"], json!(["updates", "values", "messages", "debug"]));
        }
        for query in ["bufferMs=5001", "bufferMs=-1", "bufferMs=x"] {
            let path = format!("/v1/runs/{run_id}/events?{query}");
            let answer = host.send("GET", &path, &[("authorization", &key), ("accept", accept)], None).await;
            answer.refused(400, "validation_error");
        }
        let bad = [("authorization", key.as_str()), ("accept", accept), ("last-event-id", "abc")];
        let answer = host.send("GET", &format!("/v1/runs/{run_id}/events"), &bad, None).await;
        answer.refused(400, "validation_error");
    }
    host.get("/v1/runs/none/events").await.refused(404, "run_not_found");
}

#[tokio::test]
async fn a_stream_resumes_where_it_was_interrupted() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    let all = stream(&host, &run_id, "?streamMode=debug", &[]).await;
    for (place, frame) in all.iter().enumerate() {
        let last = frame.id.unwrap().to_string();
        let rest = stream(&host, &run_id, "?streamMode=debug", &[("last-event-id", &last)]).await;
        assert_eq!(rest, all[place + 1..], "after {last}");
    }
    let values = stream(&host, &run_id, "?streamMode=values", &[("last-event-id", "0")]).await;
    assert_eq!(values.first().unwrap().event, "state.snapshot", "a baseline comes first");
}

#[tokio::test]
async fn gathered_events_come_together_and_the_end_comes_at_once() {
    let host = Host::start().await;
    host.register(&short()).await;
    let run_id = host.create("short").await;
    // The buffer time is longer than any timeout of the test.
    let batches = stream(&host, &run_id, "?bufferMs=5000&streamMode=debug", &[]).await;
    assert!(names(&batches).iter().all(|name| *name == "batch"));
    let events: Vec<&Value> = batches.iter().flat_map(|batch| batch.data.as_array().unwrap()).collect();
    let sequences: Vec<u64> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (0..sequences.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap()["type"], "run.completed");
    for batch in &batches {
        assert_eq!(batch.id, batch.data.as_array().unwrap().last().unwrap()["sequence"].as_u64());
    }
    assert!(!names(&stream(&host, &run_id, "?bufferMs=0", &[]).await).contains(&"batch"));
}

/// Clients without a stream did not get `node.started`, `agent.*` and more (finding 1 of the current suite).
#[tokio::test]
async fn without_a_stream_the_whole_log_is_a_document_unless_a_mode_filters_it() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.register(&slow()).await;
    let key = format!("Bearer {KEY}");
    let headers = [("authorization", key.as_str()), ("accept", "application/json")];
    let run_id = host.create("noop").await;
    let whole = ["run.started", "node.started", "node.completed", "run.completed"];
    let updates = ["run.started", "node.completed", "run.completed"];
    for (query, expected) in [
        ("", &whole[..]),
        ("?streamMode=debug", &whole),
        ("?streamMode=updates", &updates),
        ("?streamMode=messages", &[]),
    ] {
        let path = format!("/v1/runs/{run_id}/events{query}");
        let page = host.send("GET", &path, &headers, None).await.expect(200);
        let events = page["events"].as_array().unwrap();
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected, "{query}");
        assert_eq!(page["isComplete"], true, "{query}");
    }
    // The same events as a poll returns, from any position.
    let poll = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    let page = host.send("GET", &format!("/v1/runs/{run_id}/events"), &headers, None).await.expect(200);
    assert_eq!(page["events"], poll["events"]);
    let resumed = [headers[0], headers[1], ("last-event-id", "1")];
    let rest = host.send("GET", &format!("/v1/runs/{run_id}/events"), &resumed, None).await.expect(200);
    assert_eq!(rest["events"].as_array().unwrap()[..], poll["events"].as_array().unwrap()[2..]);
    let run_id = host.create("slow").await;
    let page = host.send("GET", &format!("/v1/runs/{run_id}/events"), &headers, None).await.expect(200);
    assert_eq!(page["isComplete"], false);
}

/// A stream that is read incrementally.
struct Open {
    stream: tokio::net::TcpStream,
    received: Vec<u8>,
}

impl Open {
    async fn new(host: &Host, path: &str) -> Self {
        let mut stream = tokio::net::TcpStream::connect(host.address).await.unwrap();
        let key = format!("Bearer {KEY}");
        stream.write_all(&request("GET", path, &[("authorization", &key)], None)).await.unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Reads until the frames so far match.
    async fn until(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let reading = async {
            loop {
                let text = parse(&self.received).map(|answer| answer.text()).unwrap_or_default();
                if wanted(&text) {
                    return text;
                }
                let mut bytes = [0; 4096];
                let count = self.stream.read(&mut bytes).await.unwrap();
                assert_ne!(count, 0, "the stream ended with {text}");
                self.received.extend_from_slice(&bytes[..count]);
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reading).await.unwrap()
    }
}

#[tokio::test]
async fn a_quiet_stream_sends_keep_alives() {
    assert!(Settings::default().keep_alive <= Duration::from_secs(30), "readers give up after that");
    let settings = Settings { keep_alive: Duration::from_millis(20), ..Settings::default() };
    let host = Host::start_with(settings).await;
    host.register(&slow()).await;
    let run_id = host.create("slow").await;
    let mut open = Open::new(&host, &format!("/v1/runs/{run_id}/events")).await;
    open.until(|text| text.matches(":keepalive\n\n").count() + text.matches(": keepalive\n\n").count() >= 2)
        .await;
}

#[tokio::test]
async fn a_waiting_run_is_shown_at_once_even_when_events_are_gathered() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let mut open =
        Open::new(&host, &format!("/v1/runs/{run_id}/events?bufferMs=5000&streamMode=debug")).await;
    let text = open.until(|text| text.contains("node.suspended")).await;
    // Further events of the same append would be in the same batch if they were buffered for the whole time.
    let batch = frames(text.split_inclusive("\n\n").next().unwrap()).remove(0);
    assert_eq!(batch.data.as_array().unwrap().last().unwrap()["type"], "node.suspended", "{text}");
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    host.post(&path, &json!({"resumeValue": {"action": "accept"}})).await.expect(200);
    open.until(|text| text.contains("run.completed")).await;
}

#[tokio::test]
async fn the_number_of_streams_is_limited_and_they_end_with_the_host() {
    let settings = Settings { max_streams: 1, ..Settings::default() };
    let mut host = Host::start_with(settings).await;
    host.register(&slow()).await;
    let run_id = host.create("slow").await;
    let path = format!("/v1/runs/{run_id}/events");
    let mut open = Open::new(&host, &path).await;
    open.until(|text| text.contains("run.started")).await;
    let refused = host.get(&path).await;
    refused.refused(429, "rate_limited");
    assert!(refused.header("retry-after").is_some());
    host.stop().await;
    let mut rest = Vec::new();
    open.stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "the stream was ended properly");
}

#[tokio::test]
async fn annotations_are_streamed_but_not_in_the_log() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let mut updates = Open::new(&host, &format!("/v1/runs/{run_id}/events")).await;
    let mut values = Open::new(&host, &format!("/v1/runs/{run_id}/events?streamMode=values")).await;
    updates.until(|text| text.contains("interrupt.requested")).await;
    values.until(|text| text.contains("state.snapshot")).await;
    let note = json!({"signal": {"kind": "label", "label": "odd"}, "note": "look here"});
    let path = format!("/v1/runs/{run_id}/annotations");
    let made = host.post(&path, &note).await.expect(201);
    let seen = updates.until(|text| text.contains("run.annotated")).await;
    let data_lines = seen.lines().rev().find_map(|line| line.strip_prefix("data:")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(data_lines.trim()).unwrap()["payload"], made);
    host.post(&format!("/v1/runs/{run_id}/cancel"), &json!({})).await.expect(200);
    let snapshots = values.until(|text| text.contains("cancelled")).await;
    assert!(!snapshots.contains("run.annotated"));
    let log = stream(&host, &run_id, "?streamMode=debug", &[]).await;
    assert!(!names(&log).contains(&"run.annotated"), "it is only in the list of annotations");
}

/// Replies that can stay open: the path, and the text that shows that the reply is open.
fn long_answers(run_id: &str) -> [(String, &'static str); 4] {
    [
        (format!("/v1/runs/{run_id}/events"), "run.started"),
        (format!("/v1/runs/{run_id}/events?streamMode=values"), "state.snapshot"),
        (format!("/v1/runs/{run_id}/events/poll?lastSequence=100000&timeout=60"), ""),
        ("/v1/mcp".to_owned(), "200 OK"),
    ]
}

/// Finding M2: streams and long polls end when their key is revoked or expires.
#[tokio::test]
async fn streams_end_with_their_key() {
    let scopes = || vec![Scope::RunsRead, Scope::RunsCreate, Scope::ManifestRead];
    for how in ["revoked here", "revoked by another process", "expired", "without its scopes"] {
        let host = Host::start().await;
        host.register(&slow()).await;
        let run_id = host.create("slow").await;
        let text = "ilk_live_000000000000000000000099";
        let mut key = ApiKey {
            id: "passing".to_owned(),
            tenant: Tenant::new("a"),
            scopes: scopes(),
            test: false,
            created_at: 0,
            expires_at: None,
            revoked_at: None,
            session: None,
        };
        if how == "expired" {
            key.expires_at = Some(SystemClock.now_ms() + 1500);
        }
        host.runs.keys().put(keys::hash(text), &key).await.unwrap();
        let bearer = format!("Bearer {text}");
        let headers = [("authorization", bearer.as_str()), ("accept", "text/event-stream")];
        let mut open = Vec::new();
        for (path, sign) in long_answers(&run_id) {
            let mut stream = OpenStream::get(host.address, &path, &headers).await;
            stream.until(sign).await;
            open.push((path, stream));
        }
        match how {
            "revoked here" => {
                let full = host.runs.keys().authenticate(KEY).await.unwrap();
                host.runs.keys().revoke(&full, "passing").await.unwrap();
            }
            "revoked by another process" => {
                key.revoked_at = Some(1);
                let document = serde_json::to_vec(&key).unwrap().into();
                let changes = vec![Change::PutApiKey { hash: keys::hash(text), document }];
                host.store.commit(Commit { changes }).await.unwrap();
            }
            "without its scopes" => {
                key.scopes = vec![Scope::ManifestRead];
                host.runs.keys().put(keys::hash(text), &key).await.unwrap();
            }
            _ => {}
        }
        for (path, stream) in open {
            let received = stream.read_to_end().await;
            assert!(!received.contains("run.completed"), "{how}: {path}");
            assert_eq!(path.contains("/poll"), received.contains("401 Unauthorized"), "{how}: {received}");
        }
        host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    }
}
