//! Effect ids.

use serde_json::json;

use crate::helper::{Host, NOW};

#[tokio::test]
async fn failed_changes_can_reuse_their_effect_id() {
    let host = Host::open();
    host.call("acme", "kv.set", json!({"key": "n", "value": "text"})).await;
    let refused = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "invalid_argument");
    host.call("acme", "kv.set", json!({"key": "n", "value": 1})).await;
    let result = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    assert_eq!(result, json!({"value": 2}));
}

#[tokio::test]
async fn effect_ids_survive_a_restart() {
    let host = Host::open();
    host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    let host = host.reopened();
    let result = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    assert_eq!(result, json!({"value": 1}));
    assert_eq!(host.call("acme", "kv.get", json!({"key": "n"})).await["value"], 1);
}

#[tokio::test]
async fn effect_ids_expire_after_the_retention_time() {
    let host = Host::open();
    host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    let day = 24 * 60 * 60 * 1000;
    for (days, expected) in [(13, 1), (15, 2)] {
        // Any change triggers the sweep.
        host.at(NOW + days * day, "other", "kv.set", json!({"key": "k", "value": 1})).await;
        let result = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
        assert_eq!(result, json!({"value": expected}), "after {days} days");
    }
}

#[tokio::test]
async fn invalid_effect_ids_are_rejected() {
    let host = Host::open();
    for wrong in ["", "a\0b", &"x".repeat(513)] {
        let refused = host.once(wrong, "acme", "kv.set", json!({"key": "n", "value": 1})).await.unwrap_err();
        assert_eq!(refused.code.as_str(), "invalid_argument");
    }
}
