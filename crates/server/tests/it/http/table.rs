//! The OpenAPI document and the router agree.

use serde_json::Value;

use super::client::Answer;
use super::service::{Host, KEY};

/// A path with its parameters filled in.
fn concrete(path: &str) -> String {
    let mut concrete = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (_, after) = after.split_once('}').unwrap();
        concrete.push_str(before);
        concrete.push_str("none");
        rest = after;
    }
    concrete + rest
}

async fn send(host: &Host, method: &str, path: &str, key: bool) -> Answer {
    let key = key.then(|| format!("Bearer {KEY}"));
    let headers: Vec<_> = key.iter().map(|key| ("authorization", key.as_str())).collect();
    // The timeout is for polls; other routes ignore it.
    host.send(method, &format!("{path}?timeout=0"), &headers, Some(b"{}")).await
}

#[tokio::test]
async fn every_described_route_is_served_as_it_is_described_and_no_method_else() {
    let host = Host::start().await;
    let document = host.send("GET", "/v1/openapi.json", &[], None).await.expect(200);
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20);
    for (path, operations) in paths {
        let operations = operations.as_object().unwrap();
        let concrete = concrete(path);
        let is_open = operations.values().all(|operation| operation["security"] == Value::Array(Vec::new()));
        for (method, operation) in operations {
            let method = method.to_uppercase();
            let answer = send(&host, &method, &concrete, false).await;
            assert_eq!(answer.status == 401, !is_open, "{method} {path}: {}", answer.text());
            let answer = send(&host, &method, &concrete, true).await;
            let code = answer.json_or_null()["error"].clone();
            assert!(
                answer.status != 405 && code != "not_found"
                    || path.contains("artifacts")
                    || path.contains("tools")
                    || path.contains("agents")
                    || path.contains("blobs")
                    || path.contains("schemas"),
                "{method} {path}: {code}"
            );
            let described = &operation["responses"];
            assert!(described[answer.status.to_string()].is_object(), "{method} {path}: {}", answer.status);
            let parameters = operation["parameters"].as_array().unwrap();
            let named = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(named, path.matches('{').count(), "{path}");
        }
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"] {
            if operations.contains_key(&method.to_lowercase()) {
                continue;
            }
            let answer = send(&host, method, &concrete, true).await;
            answer.refused(405, "method_not_allowed");
            let allowed: Vec<_> =
                answer.header("allow").unwrap().split(", ").map(str::to_lowercase).collect();
            assert!(operations.keys().all(|known| allowed.contains(known)), "{path}: {allowed:?}");
        }
        let options = send(&host, "OPTIONS", &concrete, true).await;
        assert_eq!(options.status, 204, "{path}");
        assert!(options.header("allow").unwrap().contains("OPTIONS"));
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let host = Host::start().await;
    for path in ["/.well-known/openwop", "/v1/runs", "/v1/workflows"] {
        let key = format!("Bearer {KEY}");
        let answer = host.send("HEAD", path, &[("authorization", &key)], None).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.is_empty());
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}
