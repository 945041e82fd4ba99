//! The responses to plugins.

use serde_json::{Value, json};

use super::canary::CANARY;
use super::dispatch::{HOST_API, spelt};
use super::message::PROTOCOL;
use super::*;

fn request(method: &str, params: Value) -> Value {
    let mut message = json!({"openwop": PROTOCOL, "type": "request", "id": 7, "method": method});
    message["params"] = params;
    message
}

async fn answered(allowed: &Allowed, canary: &Canary, message: &Value) -> PluginResponse {
    let request = Request::read(message).unwrap().unwrap();
    dispatch(&request, allowed, canary).await
}

fn code(answer: &PluginResponse) -> &str {
    assert_eq!(answer.response["ok"], false, "{answer:?}");
    answer.response["error"]["code"].as_str().unwrap()
}

#[test]
fn foreign_messages_are_ignored_and_invalid_requests_are_refused() {
    let good = request("artifact.read", json!({}));
    assert!(Request::read(&good).unwrap().is_some());
    for foreign in [
        json!(null),
        json!("x"),
        json!([good]),
        json!({}),
        json!({"openwop": "ui-plugin/2", "type": "request"}),
    ] {
        assert_eq!(Request::read(&foreign), Ok(None), "{foreign}");
    }
    let with = |name: &str, value: Value| {
        let mut message = good.clone();
        message[name] = value;
        Request::read(&message)
    };
    for name in ["apiKey", "token", "clientSecret", "authorization", "x", ""] {
        assert_eq!(with(name, json!("s3cret")), Err(Malformed::Members), "{name}");
    }
    for id in [json!(-1), json!(1.5), json!("7"), json!(null), json!(1_u64 << 53)] {
        assert_eq!(with("id", id.clone()), Err(Malformed::Id), "{id}");
    }
    for kind in [json!("response"), json!("event"), json!(1)] {
        assert_eq!(with("type", kind), Err(Malformed::Type));
    }
    assert_eq!(with("method", json!(1)), Err(Malformed::Method));
    assert_eq!(with("params", json!([])), Err(Malformed::Params));
}

#[tokio::test]
async fn a_method_that_is_not_on_both_lists_is_never_executed() {
    let canary = Canary::default();
    let before = canary.read(CANARY).await.unwrap();
    let read_only = Allowed::of(&[packs::manifest::HostMethod::ArtifactRead]);
    let write = json!({"artifactId": CANARY, "version": before.version, "payload": "mine"});
    for allowed in [&Allowed::default(), &read_only] {
        for method in
            ["artifact.write", "host.toast", "host.navigate", "host.exec", "", "__proto__", "artifact.read "]
        {
            let mut params = write.clone();
            params["message"] = "hi".into();
            params["path"] = "/runs".into();
            let answer = answered(allowed, &canary, &request(method, params)).await;
            assert_eq!((code(&answer), answer.effect.is_none()), ("method_not_allowed", true), "{method}");
        }
    }
    assert_eq!(
        code(&answered(&Allowed::everything(), &canary, &request("host.exec", json!({}))).await),
        "method_not_allowed"
    );
    assert_eq!(canary.read(CANARY).await.unwrap(), before);
    assert!(
        answered(&read_only, &canary, &request("artifact.read", write)).await.response["ok"]
            .as_bool()
            .unwrap()
    );
}

#[tokio::test]
async fn a_write_requires_the_current_version_and_otherwise_changes_nothing() {
    let canary = Canary::default();
    let allowed = Allowed::everything();
    let before = canary.read(CANARY).await.unwrap();
    for version in [json!("stale-token"), json!(""), json!(null), json!(7), json!({})] {
        let params = json!({"artifactId": CANARY, "version": version, "payload": "mine"});
        let answer = answered(&allowed, &canary, &request("artifact.write", params)).await;
        assert_eq!(code(&answer), "artifact_conflict", "{version}");
        assert_eq!(answer.response["error"]["currentVersion"], before.version.as_str());
    }
    let absent = json!({"artifactId": CANARY, "payload": "mine"});
    assert_eq!(
        code(&answered(&allowed, &canary, &request("artifact.write", absent)).await),
        "artifact_conflict"
    );
    assert_eq!(canary.read(CANARY).await.unwrap(), before);
    let good = json!({"artifactId": CANARY, "version": before.version, "payload": {"text": "mine"}});
    let answer = answered(&allowed, &canary, &request("artifact.write", good.clone())).await;
    let now = canary.read(CANARY).await.unwrap();
    assert_eq!(
        (&answer.response["result"]["version"], &now.payload),
        (&json!(now.version), &json!({"text": "mine"}))
    );
    assert_eq!(
        code(&answered(&allowed, &canary, &request("artifact.write", good)).await),
        "artifact_conflict",
        "once"
    );
    for params in [json!({}), json!({"artifactId": 1}), json!({"artifactId": "other"})] {
        for method in ["artifact.read", "artifact.write"] {
            let mut params = params.clone();
            params["payload"] = json!(1);
            assert_eq!(
                code(&answered(&allowed, &canary, &request(method, params)).await),
                "artifact_not_found"
            );
        }
    }
}

#[tokio::test]
async fn a_plugin_can_only_navigate_within_the_console() {
    let (canary, allowed) = (Canary::default(), Allowed::everything());
    let cases = [
        ("/", true),
        ("/runs?status=failed", true),
        ("", false),
        ("runs", false),
        ("//elsewhere.example", false),
        ("/\\elsewhere.example", false),
        ("https://elsewhere.example", false),
        ("javascript:alert(1)", false),
        ("/sign-out", false),
        ("/console/sign-out", false),
        ("/a\n", false),
    ];
    for (path, is_allowed) in cases {
        let answer = answered(&allowed, &canary, &request("host.navigate", json!({"path": path}))).await;
        assert_eq!(answer.effect.is_some(), is_allowed, "{path:?}");
        assert_eq!(answer.response["ok"], is_allowed, "{path:?}");
    }
    let long = "x".repeat(5000);
    for (text, wanted) in [(" saved\u{7} ", Some(5)), (long.as_str(), Some(300)), ("  ", None)] {
        let answer = answered(&allowed, &canary, &request("host.toast", json!({"message": text}))).await;
        let shown = answer.effect.map(|effect| match effect {
            Effect::Toast { message } => message.len(),
            Effect::Navigate { path } => panic!("{path}"),
        });
        assert_eq!(shown, wanted);
    }
}

#[test]
fn the_advertised_methods_are_the_dispatched_ones() {
    let advertised = advertised();
    assert_eq!(advertised["hostApi"], json!(HOST_API.map(spelt)));
    for method in HOST_API {
        assert_eq!(serde_json::to_value(method).unwrap(), spelt(method), "the spelling in manifests");
    }
    assert_eq!(advertised["isolation"], "cross-origin-iframe");
}
