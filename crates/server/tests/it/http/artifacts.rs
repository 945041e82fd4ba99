//! Artifacts of ordinary nodes.

use serde_json::{Value, json};

use super::service::{Host, gate, workflow};

/// The events of a run of one type.
async fn events(host: &Host, run_id: &str, kind: &str) -> Vec<Value> {
    let polled = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    polled["events"].as_array().unwrap().iter().filter(|event| event["type"] == kind).cloned().collect()
}

fn making() -> Value {
    let variables = json!([{"name": "word", "type": "string"}, {"name": "key", "type": "string"}]);
    let nodes = [
        ("make", "core.identity", json!({})),
        ("keep", "core.storage.kv-set", json!({})),
        ("end", "core.end", json!({})),
    ];
    let mut document = workflow("making", &nodes, &variables);
    let port = |name: &str| json!({"type": "variable", "variableName": name});
    document["nodes"][0]["inputs"] = json!({"word": port("word"), "key": port("key")});
    document["nodes"][0]["outputSensitivity"] = json!({"key": true});
    document["nodes"][1]["inputs"] = json!({"key": {"type": "static", "value": "k"}, "value": port("word")});
    document["nodes"][2]["inputs"] = json!({"word": port("word")});
    for place in 0..3 {
        document["nodes"][place]["artifactType"] = format!("kind-{place}").into();
    }
    document
}

/// Finding 9 of the review of clients: only guided nodes could create artifacts for the artifact route.
#[tokio::test]
async fn any_node_stores_its_outputs_as_an_artifact_if_it_names_a_type() {
    let host = Host::start_equipped(&[]).await;
    host.register(&making()).await;
    let run_id =
        host.create_with(&json!({"workflowId": "making", "inputs": {"word": "hi", "key": "sesame"}})).await;
    let run = host.end_of(&run_id).await;
    assert_eq!(run["status"], "completed", "{run}");
    let created = events(&host, &run_id, "artifact.created").await;
    let made: Vec<_> =
        created.iter().map(|event| (&event["payload"]["artifactType"], &event["nodeId"])).collect();
    assert_eq!(
        made,
        [
            (&json!("kind-0"), &json!("make")),
            (&json!("kind-1"), &json!("keep")),
            (&json!("kind-2"), &json!("end"))
        ]
    );
    let read = async |place: usize| {
        let id = created[place]["payload"]["artifactId"].as_str().unwrap();
        host.get(&format!("/v1/runs/{run_id}/artifacts/{id}")).await.expect(200)
    };
    let artifact = read(0).await;
    assert_eq!(
        (&artifact["artifactType"], &artifact["nodeId"], &artifact["runId"]),
        (&json!("kind-0"), &json!("make"), &json!(run_id))
    );
    assert_eq!(
        (&artifact["data"]["word"], &artifact["data"]["key"]),
        (&json!("hi"), &json!("[REDACTED]")),
        "{artifact}"
    );
    assert_eq!(read(2).await["data"], json!({"word": "hi"}));
    let outputs: Vec<Value> = events(&host, &run_id, "node.completed")
        .await
        .iter()
        .map(|event| event["payload"]["outputs"].clone())
        .collect();
    for place in 0..2 {
        assert_eq!(
            outputs[place]["artifactId"], created[place]["payload"]["artifactId"],
            "later nodes can refer to it"
        );
    }
    assert!(outputs[2].get("artifactId").is_none(), "the result of a run is what its author says");

    let fork = host.post(&format!("/v1/runs/{run_id}:fork"), &json!({"mode": "replay"})).await.expect(201);
    let fork = fork["runId"].as_str().unwrap();
    assert_eq!(host.end_of(fork).await["status"], "completed");
    let difference = host.get(&format!("/v1/runs/{run_id}:diff?against={fork}")).await.expect(200);
    assert_eq!(difference["divergedAtSeq"], Value::Null, "{difference}");
}

#[tokio::test]
async fn a_gate_reviews_an_artifact_and_makes_none() {
    let host = Host::start().await;
    let mut document = gate();
    document["nodes"][0]["artifactType"] = "report".into();
    host.register(&document).await;
    let run_id = host.create("gate").await;
    let accept = json!({"resumeValue": {"action": "accept"}});
    host.post(&format!("/v1/runs/{run_id}/interrupts/gate"), &accept).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    assert_eq!(events(&host, &run_id, "artifact.created").await, Vec::<Value>::new());
}
