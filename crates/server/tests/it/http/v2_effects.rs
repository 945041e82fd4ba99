//! `GET /runs/{runId}/effects` of version 2.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::Answer;
use super::service::{Host, KEY, OTHER};

const VERSION: (&str, &str) = ("openwop-version", "2.0");

async fn get_as(host: &Host, key: &str, path: &str) -> Answer {
    host.send("GET", path, &[("authorization", &format!("Bearer {key}")), VERSION], None).await
}

async fn get(host: &Host, path: &str) -> Answer {
    get_as(host, KEY, path).await
}

/// A workflow that stores three values, and reads one.
fn stores() -> Value {
    let node = |id: &str, kind: &str, inputs: Value| json!({"id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": inputs});
    let given = |value: Value| json!({"type": "static", "value": value});
    let set = |id: &str| {
        node(id, "core.storage.kv-set", json!({"key": given(json!(id)), "value": given(json!(1))}))
    };
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    json!({
        "id": "stores", "name": "stores", "version": "1.0.0", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [set("a"), set("b"), set("c"), node("read", "core.storage.kv-get", json!({"key": given(json!("a"))}))],
        "edges": [edge("a", "b"), edge("b", "c"), edge("c", "read")],
    })
}

/// Scenario `v2-effect-ledger-keying`, with a run that has effects.
#[tokio::test]
async fn v2_effect_ledger_keying() {
    let host = Host::start_equipped(&[]).await;
    host.register(&stores()).await;
    let run_id = host.create("stores").await;
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    let answer = get(&host, &format!("/runs/a~2F{run_id}/effects")).await;
    assert_eq!(answer.header("openwop-version"), Some("2.0"));
    let ledger = answer.expect(200);
    assert_eq!(ledger["runId"], format!("a/{run_id}"));
    let members: Vec<&String> = ledger.as_object().unwrap().keys().collect();
    assert_eq!(members, ["effects", "runId"]);
    let rows = ledger["effects"].as_array().unwrap();
    let nodes: Vec<&str> = rows.iter().map(|row| row["nodeId"].as_str().unwrap()).collect();
    assert_eq!(nodes, ["a", "b", "c"], "in the order of their claims, and without the node that reads");
    let mut ids = BTreeSet::new();
    for row in rows {
        let members: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(members, ["at", "attempt", "effectId", "keying", "nodeId", "providerKey", "state"]);
        assert_eq!(
            (&row["attempt"], &row["keying"], &row["state"]),
            (&json!(1), &json!("activity-recipe"), &json!("completed"))
        );
        let id = row["effectId"].as_str().unwrap();
        let (tenant, own) = id.split_once('/').unwrap();
        assert!(tenant == "a" && (16..=128).contains(&own.len()), "{id}");
        assert!(own.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)), "{id}");
        assert_eq!(row["providerKey"], own, "the store gets the id of the effect");
        assert!(ids.insert(id), "an effect has one id");
    }
    // A fork in mode `replay` repeats the events and has no effects.
    let fork = host.post_with(&format!("/runs/{run_id}:fork"), &[VERSION], &json!({"mode": "replay"})).await;
    let fork = fork.expect(201)["runId"].as_str().unwrap().to_owned();
    host.end_of(fork.split_once('/').unwrap().1).await;
    let path = fork.replace('/', "~2F");
    assert_eq!(get(&host, &format!("/runs/{path}/effects")).await.expect(200)["effects"], json!([]));
}

#[tokio::test]
async fn effects_are_listed_in_pages_on_request() {
    let host = Host::start_equipped(&[]).await;
    host.register(&stores()).await;
    let run_id = host.create("stores").await;
    host.end_of(&run_id).await;
    let all = get(&host, &format!("/runs/{run_id}/effects")).await.expect(200)["effects"].clone();
    let (mut path, mut paged) = (format!("/runs/{run_id}/effects?limit=2"), Vec::new());
    loop {
        let page = get(&host, &path).await;
        paged.extend(page.expect(200)["effects"].as_array().unwrap().clone());
        let Some(link) = page.header("link") else { break };
        path = link.strip_prefix('<').unwrap().split_once(">; rel=\"next\"").unwrap().0.to_owned();
    }
    assert_eq!(Value::Array(paged), all);
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=1.1"] {
        get(&host, &format!("/runs/{run_id}/effects?{query}")).await.refused(400, "validation_error");
    }
}

#[tokio::test]
async fn effects_of_unknown_and_foreign_runs_are_not_shown() {
    let host = Host::start_equipped(&[]).await;
    host.register(&stores()).await;
    let run_id = host.create("stores").await;
    host.end_of(&run_id).await;
    get(&host, "/runs/a~2Frun_none/effects").await.refused(404, "not_found");
    get(&host, &format!("/runs/other~2F{run_id}/effects")).await.refused(403, "id_tenant_mismatch");
    get_as(&host, OTHER, &format!("/runs/{run_id}/effects")).await.refused(404, "not_found");
    let answer = host.send("GET", &format!("/runs/{run_id}/effects"), &[VERSION], None).await;
    answer.refused(401, "unauthenticated");
    host.post_with(&format!("/runs/{run_id}/effects"), &[VERSION], &json!({}))
        .await
        .refused(404, "not_found");
}
