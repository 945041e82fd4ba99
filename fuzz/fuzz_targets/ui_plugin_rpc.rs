//! Any bytes, as a message of a plugin: as they are, or as the method and the parameters of a message that is well formed.
//!
//! The first byte says which, and with its other bits which methods are allowed.
//!
//! * It never panics, and every answer is of the closed shape, with a code of the closed list.
//! * A method that is not allowed does nothing.
//! * The artifact changes only through a write that names its version.
#![no_main]

use plugins::canary::CANARY;
use plugins::dispatch::{HOST_API, spelt};
use plugins::{Allowed, Artifacts as _, Canary, Request, dispatch};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const CODES: [&str; 5] =
    ["method_not_allowed", "artifact_conflict", "artifact_not_found", "unauthorized", "internal"];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(value) = canon::json::read(rest, &canon::json::Limits::default()) else { return };
    let declared: Vec<_> = HOST_API.into_iter().enumerate().filter(|(bit, _)| first >> (bit + 1) & 1 == 1).collect();
    let declared: Vec<_> = declared.into_iter().map(|(_, method)| method).collect();
    let message = if first & 1 == 0 {
        value
    } else {
        let method = value.get("method").cloned().unwrap_or_else(|| "artifact.write".into());
        json!({"openwop": "ui-plugin/1", "type": "request", "id": 1, "method": method, "params": value})
    };
    let Ok(Some(request)) = Request::read(&message) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without threads can be made");
    runtime.block_on(async {
        let canary = Canary::default();
        let before = canary.read(CANARY).await.expect("it is there");
        let answer = dispatch(&request, &Allowed::of(&declared), &canary).await;
        let after = canary.read(CANARY).await.expect("it is there");
        let response = answer.response.as_object().expect("an answer is an object");
        assert_eq!(response["id"], json!(request.id));
        let is_ok = response["ok"] == true;
        assert_eq!((response.contains_key("result"), response.contains_key("error")), (is_ok, !is_ok));
        assert_eq!(response.len(), 5);
        if !is_ok {
            let code = response["error"]["code"].as_str().unwrap_or_default();
            assert!(CODES.contains(&code), "{code}");
            let has_current = response["error"].get("currentVersion").is_some_and(Value::is_string);
            assert_eq!(has_current, code == "artifact_conflict");
        }
        if !declared.iter().any(|method| spelt(*method) == request.method) {
            assert_eq!(response["error"]["code"], "method_not_allowed");
            assert!(answer.effect.is_none());
        }
        let named = request.params.get("version").and_then(Value::as_str) == Some(before.version.as_str());
        assert!(after == before || (is_ok && named && request.method == "artifact.write"));
    });
});
