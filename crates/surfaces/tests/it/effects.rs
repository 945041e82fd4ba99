//! Effects' identities.

use serde_json::json;

use crate::helper::{Host, NOW};

#[tokio::test]
async fn a_refused_change_may_be_made_again_under_the_same_identity() {
    let host = Host::open();
    host.call("acme", "kv.set", json!({"key": "n", "value": "text"})).await;
    let refused = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "invalid_argument");
    host.call("acme", "kv.set", json!({"key": "n", "value": 1})).await;
    let told = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    assert_eq!(told, json!({"value": 2}));
}

#[tokio::test]
async fn an_identity_outlives_a_restart() {
    let host = Host::open();
    host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    let host = host.reopened();
    let told = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    assert_eq!(told, json!({"value": 1}));
    assert_eq!(host.call("acme", "kv.get", json!({"key": "n"})).await["value"], 1);
}

#[tokio::test]
async fn identities_are_forgotten_after_their_time_and_not_before() {
    let host = Host::open();
    host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
    let day = 24 * 60 * 60 * 1000;
    for (days, expected) in [(13, 1), (15, 2)] {
        // Any change makes the writer look.
        host.at(NOW + days * day, "other", "kv.set", json!({"key": "k", "value": 1})).await;
        let told = host.once("e", "acme", "kv.atomicIncrement", json!({"key": "n"})).await.unwrap();
        assert_eq!(told, json!({"value": expected}), "after {days} days");
    }
}

#[tokio::test]
async fn an_identity_that_is_no_identity_is_refused() {
    let host = Host::open();
    for wrong in ["", "a\0b", &"x".repeat(513)] {
        let refused = host.once(wrong, "acme", "kv.set", json!({"key": "n", "value": 1})).await.unwrap_err();
        assert_eq!(refused.code.as_str(), "invalid_argument");
    }
}
