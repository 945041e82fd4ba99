//! Nodes that call models: capability checks and reasoning.

use serde_json::{Value, json};
use server::http::Settings;

use super::service::{Host, noop, workflow};

async fn events(host: &Host, run_id: &str, kind: &str) -> Vec<Value> {
    let polled = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
    polled["events"].as_array().unwrap().iter().filter(|event| event["type"] == kind).cloned().collect()
}

async fn asked(host: &Host, config: &Value, body: &Value) -> (String, Value) {
    host.register(&workflow("asks", &[("ask", "core.ai.callPrompt", config.clone())], &json!([]))).await;
    let mut body = body.clone();
    body["workflowId"] = json!("asks");
    let run_id = host.create_with(&body).await;
    let run = host.end_of(&run_id).await;
    (run_id, run)
}

#[tokio::test]
async fn a_model_that_cannot_do_what_the_node_needs_is_not_asked() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let able = json!({"userPrompt": "x", "requiredModelCapabilities": ["structured-output"]});
    let (run_id, run) = asked(&host, &able, &json!({})).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(events(&host, &run_id, "provider.usage").await.len(), 1);
    let other = json!({"provider": "none", "model": "m"});
    for (fallback, attempted) in [(Value::Null, false), (other, true)] {
        let mut config = json!({"userPrompt": "x", "requiredModelCapabilities": ["vision-input"]});
        if !fallback.is_null() {
            config["fallbackModel"] = fallback;
        }
        let (run_id, run) = asked(&host, &config, &json!({})).await;
        assert_eq!(run["error"]["code"], "capability_not_provided", "{run}");
        let events_of_run = events(&host, &run_id, "model.capability.insufficient").await;
        assert_eq!(events_of_run[0]["payload"]["missingCapabilities"], json!(["vision-input"]));
        assert_eq!(events_of_run[0]["payload"]["fallbackAttempted"], attempted);
        assert_eq!(
            events(&host, &run_id, "provider.usage").await,
            Vec::<Value>::new(),
            "nothing was paid for"
        );
    }
}

#[tokio::test]
async fn reasoning_is_recorded_unless_the_caller_turns_it_off() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    for (configurable, count) in [(json!({}), 1), (json!({"reasoningVerbosity": "off"}), 0)] {
        let program =
            json!({"nodeId": "ask", "program": [{"content": "Yes.", "reasoning": "It is so because."}]});
        host.post("/v1/host/sample/test/mock-ai/program", &program).await.expect(200);
        let body = json!({"configurable": configurable});
        let (run_id, run) = asked(&host, &json!({"userPrompt": "x"}), &body).await;
        assert_eq!(run["nodeStates"]["ask"]["outputs"]["content"], "Yes.", "{run}");
        let events_of_run = events(&host, &run_id, "agent.reasoned").await;
        assert_eq!(events_of_run.len(), count);
        if let Some(events_of_run) = events_of_run.first() {
            assert_eq!(events_of_run["payload"]["reasoning"], "It is so because.");
            assert_eq!(events_of_run["payload"]["agentId"], "node:ask");
        }
        host.post("/v1/host/sample/test/reset", &json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn a_caller_can_choose_a_provider_but_never_a_credential() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    for configurable in [
        json!({"ai": {"provider": "mock", "model": "m-1"}}),
        json!({"ai.provider": "mock", "ai.model": "m-1"}),
    ] {
        let (run_id, run) =
            asked(&host, &json!({"userPrompt": "x"}), &json!({"configurable": configurable})).await;
        assert_eq!(run["status"], "completed", "{run}");
        let usage = events(&host, &run_id, "provider.usage").await;
        assert_eq!(
            (&usage[0]["payload"]["provider"], &usage[0]["payload"]["model"]),
            (&json!("mock"), &json!("m-1"))
        );
    }
    let body = json!({"workflowId": "asks", "configurable": {"ai": {"provider": "other"}}});
    let refused = host.post("/v1/runs", &body).await.refused(400, "validation_error");
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("one of mock")), "{refused}");
}

#[tokio::test]
async fn callers_choose_no_credential_whether_the_host_has_one_or_not() {
    let without = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let with = Host::start_equipped(&[]).await;
    let options = [
        (json!({"ai": {"credentialRef": "deploy-key"}}), Some("mock")),
        (json!({"ai.credentialRef": "deploy-key"}), Some("mock")),
        (json!({"ai": {"credentialRef": null}, "ai.provider": "mock"}), Some("mock")),
        (json!({"ai": {"credentialRef": 1, "provider": "sk-proj-abcdefghijklmnop1234"}}), None),
    ];
    for host in [&without, &with] {
        host.register(&noop()).await;
        let finished = host.create("noop").await;
        host.end_of(&finished).await;
        let count = || async { host.get("/v1/runs").await.expect(200)["runs"].as_array().unwrap().len() };
        let before = count().await;
        for (configurable, provider) in &options {
            let create = json!({"workflowId": "noop", "configurable": configurable});
            let overlay = json!({"configurable": configurable});
            let fork = json!({"fromSeq": 0, "mode": "branch", "runOptionsOverlay": overlay});
            for (path, body) in [("/v1/runs".to_owned(), create), (format!("/v1/runs/{finished}:fork"), fork)]
            {
                let answer = host.post(&path, &body).await;
                if host.runs.records().serves_secrets() {
                    let refused = answer.refused(403, "credential_forbidden");
                    assert_eq!(refused["details"]["provider"].as_str(), *provider, "{refused}");
                } else {
                    let refused = answer.refused(400, "credential_unavailable");
                    assert_eq!(refused["details"], json!({"capability": "secrets"}));
                }
                assert!(!answer.text().contains("deploy-key") && !answer.text().contains("sk-proj"));
            }
        }
        assert_eq!(count().await, before, "no run came of it");
    }
}
