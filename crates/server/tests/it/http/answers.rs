//! Conditional requests and compression of replies.

use std::io::Read as _;

use serde_json::json;

use super::client::Answer;
use super::service::{Host, KEY, gate, noop, workflow};

async fn read(host: &Host, run_id: &str, headers: &[(&str, &str)]) -> Answer {
    let key = format!("Bearer {KEY}");
    let mut all = vec![("authorization", key.as_str())];
    all.extend(headers);
    host.send("GET", &format!("/v1/runs/{run_id}"), &all, None).await
}

#[tokio::test]
async fn a_tag_changes_when_the_run_does_and_only_then() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let tag = async || read(&host, &run_id, &[]).await.header("etag").unwrap().to_owned();
    let before = tag().await;
    assert!(before.starts_with('"') && before.ends_with('"'), "strong: {before}");
    assert_eq!(tag().await, before);
    let unchanged = read(&host, &run_id, &[("if-none-match", &before)]).await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), Some(before.as_str()));
    let answer = json!({"resumeValue": {"action": "accept"}});
    host.post(&format!("/v1/runs/{run_id}/interrupts/gate"), &answer).await.expect(200);
    assert_ne!(tag().await, before);
    assert_eq!(read(&host, &run_id, &[("if-none-match", &before)]).await.status, 200);
}

/// Finding 8 of the review against the current suite: encodings are advertised for snapshots, but small ones were sent uncompressed.
#[tokio::test]
async fn the_snapshot_of_the_smallest_run_is_compressed() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    host.end_of(&run_id).await;
    let plain = read(&host, &run_id, &[]).await;
    for encoding in ["gzip", "zstd"] {
        let encoded = read(&host, &run_id, &[("accept-encoding", encoding)]).await;
        assert_eq!(encoded.header("content-encoding"), Some(encoding));
        assert!(encoded.body.len() < plain.body.len(), "{encoding}");
    }
}

#[tokio::test]
async fn every_encoding_holds_the_same_bytes() {
    let host = Host::start().await;
    let variables =
        json!([{"name": "payload", "type": "object", "defaultValue": {"text": "word ".repeat(2000)}}]);
    host.register(&workflow("large", &[("only", "core.noop", json!({}))], &variables)).await;
    let run_id = host.create("large").await;
    host.end_of(&run_id).await;
    let plain = read(&host, &run_id, &[]).await;
    assert!(plain.header("content-encoding").is_none());
    assert!(plain.header("vary").unwrap().eq_ignore_ascii_case("accept-encoding"));
    assert!(plain.body.len() > 10_000);
    for encoding in ["gzip", "zstd"] {
        let encoded = read(&host, &run_id, &[("accept-encoding", encoding)]).await;
        assert_eq!(encoded.header("content-encoding"), Some(encoding));
        assert!(encoded.body.len() < plain.body.len() / 4);
        let mut decoded = Vec::new();
        if encoding == "gzip" {
            flate2::read::GzDecoder::new(&*encoded.body).read_to_end(&mut decoded).unwrap();
        } else {
            decoded = zstd::decode_all(&*encoded.body).unwrap();
        }
        assert_eq!(decoded, plain.body);
        let tag = encoded.header("etag").unwrap();
        assert_ne!(Some(tag), plain.header("etag"), "different contents, different ETag");
        assert_eq!(read(&host, &run_id, &[("if-none-match", tag)]).await.status, 304);
    }
}
