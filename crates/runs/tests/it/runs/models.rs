//! Nodes that call models, on a real server on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ai::envelope::Kinds;
use ai::prompt::library::Library;
use ai::provider::http::BaseUrl;
use ai::provider::mock::Program;
use executors::models::{Models, Options as ModelOptions, Provider, Wire};
use executors::{Executors, Options};
use flow::engine::ids::logical_invocation_id;
use flow::id::{NodeId, Tenant};
use ports::runs::ClaimedEffect;
use ports::runs::prelude::*;
use runs::Direct;
use serde_json::{Value, json};
use system::secrets::{ConfiguredSecrets, SecretReference};

use super::provider::{ModelServer, reply};
use super::served::Request;
use super::{Host, Setup, begin, caller, kinds, snapshot, to_the_end, workflow};

const KEY: &str = "a-key-that-must-stay-secret";
/// A secret for prompts.
pub(super) const CANARY: &str = "a-word-that-only-the-model-may-read";

pub(super) fn executors(folder: &Path, base: Option<&str>) -> Executors {
    executors_on(Wire::OpenAi, folder, base)
}

/// Like `executors`, for a provider with this protocol.
pub(super) fn executors_on(wire: Wire, folder: &Path, base: Option<&str>) -> Executors {
    executors_of(wire, Kinds::only([]), folder, base)
}

/// Like `executors`, with these kinds of envelopes.
pub(super) fn executors_taking(kinds: Kinds, folder: &Path, base: &str) -> Executors {
    executors_of(Wire::OpenAi, kinds, folder, Some(base))
}

fn executors_of(wire: Wire, kinds: Kinds, folder: &Path, base: Option<&str>) -> Executors {
    let secret = |(name, value): (&str, &str)| {
        let file = folder.join(name);
        std::fs::write(&file, value).unwrap();
        let reference = SecretReference::parse(&format!("file:{}", file.display())).unwrap();
        (Tenant::new("acme"), name.to_owned(), reference)
    };
    let secrets = ConfiguredSecrets::new([("model-key", KEY), ("canary", CANARY)].map(secret));
    let provider = |base: &str| Provider {
        wire,
        base: BaseUrl::parse(base).unwrap(),
        secret: Some("model-key".to_owned()),
        model: Some("small".to_owned()),
    };
    let providers: BTreeMap<_, _> = base.iter().map(|base| ("local".to_owned(), provider(base))).collect();
    let models = Models::new(ModelOptions {
        default: providers.keys().next().cloned(),
        providers,
        library: Library::new("host"),
        secrets: Arc::new(secrets),
        outbound: outbound::Client::new(outbound::Reach::Anywhere),
        kinds,
        mock: true,
    });
    Executors::new(Options { models: Some(models), ..Options::default() })
}

fn ask(config: &Value) -> Value {
    let messages = json!([{"role": "user", "content": "Is it valid?"}]);
    workflow(
        "ask",
        &json!([["ask", "core.ai.structuredOutput", config, {"messages": {"type": "static", "value": messages}}]]),
        &json!([]),
        &json!([]),
    )
}

fn schema() -> Value {
    json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}})
}

pub(super) fn document() -> Value {
    ask(&json!({"outputSchema": schema()}))
}

async fn played(config: &Value, program: &Value) -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let executors = executors(folder.path(), None);
    executors.models().unwrap().programs().program("ask", Program::read(program).unwrap());
    let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
    host.runs.definitions().register(&caller("acme"), &ask(config)).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    (events, snapshot(&host.runs, &caller("acme"), &run_id))
}

#[tokio::test]
async fn a_model_is_asked_and_its_key_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start(vec![reply(&format!("no JSON, but {KEY}")), reply("{\"valid\": true}")]);
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.definitions().register(&caller("acme"), &document()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    let reported =
        ["provider.usage", "envelope.retry.attempted", "provider.usage", "node.completed", "run.completed"];
    assert_eq!(kinds(&events)[2..], reported);
    assert_eq!(events.last().unwrap()["payload"]["outputs"]["ask"]["data"], json!({"valid": true}));
    assert!(!json!(events).to_string().contains(KEY));
    assert_eq!(server.count(), 2);
    for Request { head, body } in server.requests() {
        assert!(head.to_ascii_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
        assert!(head.to_ascii_lowercase().contains("idempotency-key: "), "{head}");
        assert_eq!(body["model"], "small");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_during_a_pause_is_made_once_and_recorded_after_the_resume() {
    use flow::engine::DrainPolicy::Immediate;
    let folder = tempfile::tempdir().unwrap();
    let by = caller("acme");
    // The reply arrives before the run is resumed, after it, or at the same time.
    for round in 0..6 {
        let server = ModelServer::held(vec![reply("{\"valid\": true}")]);
        let setup =
            Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
        let host = Host::with(setup).await;
        host.runs.definitions().register(&by, &document()).await.unwrap();
        let run_id = begin(&host.runs, "ask").await;
        server.asked().await;
        host.runs.commands().pause(&by, &run_id, None, Immediate, Direct).await.unwrap();
        if round % 3 != 0 {
            server.let_go();
        }
        if round % 3 == 1 {
            // The result is recorded before it is requested again.
            let genesis = host.store.run(None, &run_id).await.unwrap().unwrap().genesis;
            let genesis = serde_json::from_slice(&genesis).unwrap();
            let id = logical_invocation_id(&genesis, &NodeId::new("ask"), 0, "core.ai.structuredOutput");
            while host.store.effect(&id).await.unwrap() == Some(ClaimedEffect::Unfinished { attempt: 1 }) {
                tokio::task::yield_now().await;
            }
        }
        host.runs.commands().resume(&by, &run_id, None, Direct).await.unwrap();
        if round % 3 == 0 {
            server.let_go();
        }
        let events = to_the_end(&host.runs, &run_id).await;
        let reported =
            ["run.started", "node.started", "run.paused", "run.resumed", "provider.usage", "node.completed"];
        assert_eq!(kinds(&events)[..reported.len()], reported, "{round}");
        assert_eq!(snapshot(&host.runs, &by, &run_id)["status"], "completed", "{round}");
        assert_eq!(server.count(), 1, "{round}");
    }
}

/// Finding 6 of the current suite: the reply of a model is recorded before the pause that waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_of_a_run_that_is_about_to_be_paused_is_recorded_before_the_pause() {
    use flow::engine::DrainPolicy::DrainCurrentNode;
    let folder = tempfile::tempdir().unwrap();
    let by = caller("acme");
    let server = ModelServer::held(vec![reply("{\"valid\": true}")]);
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.definitions().register(&by, &document()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    server.asked().await;
    let accepted = host.runs.commands().pause(&by, &run_id, None, DrainCurrentNode, Direct).await.unwrap();
    assert!(accepted.draining && accepted.at.is_some());
    let again = host.runs.commands().pause(&by, &run_id, None, DrainCurrentNode, Direct).await.unwrap_err();
    assert_eq!((again.code.as_str(), &again.details["runStatus"]), ("conflict", &json!("paused")));
    server.let_go();
    super::until(&host.runs, &run_id, |event| event.kind == flow::event::EventKind::RunPaused).await.unwrap();
    let reported = ["provider.usage", "node.completed", "run.paused"];
    assert_eq!(kinds(&super::events(&host.runs, "acme", &run_id))[3..], reported);
    host.runs.commands().resume(&by, &run_id, None, Direct).await.unwrap();
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(
        (snapshot(&host.runs, &by, &run_id)["status"].as_str(), server.count()),
        (Some("completed"), 1)
    );
}

#[tokio::test]
async fn invalid_replies_end_as_the_protocol_says() {
    let cut = json!({"content": "{\"valid\":", "stopReason": "max_tokens"});
    let cases = [
        (
            json!([{"content": "no"}, {"content": "{\"valid\": true}"}]),
            vec!["envelope.retry.attempted"],
            "completed",
            "",
        ),
        (
            json!([{"content": "```json\n{\"valid\": true}\n```"}]),
            vec!["envelope.recovery.applied"],
            "completed",
            "",
        ),
        (
            json!([cut, {"content": "{\"valid\": true}"}]),
            vec!["envelope.truncated", "envelope.retry.attempted"],
            "completed",
            "",
        ),
        (
            json!([cut, cut, cut]),
            vec![
                "envelope.truncated",
                "envelope.retry.attempted",
                "envelope.truncated",
                "envelope.retry.attempted",
                "envelope.truncated",
                "envelope.retry.exhausted",
                "cap.breached",
            ],
            "failed",
            "envelope_truncation_unrecoverable",
        ),
        (
            json!([{"mode": "refusal", "refusalReason": "no"}]),
            vec!["envelope.refusal"],
            "failed",
            "envelope_refused_by_provider",
        ),
    ];
    for (program, reported, status, code) in cases {
        let (events, run) =
            played(&json!({"provider": "mock", "model": "mock-mini", "outputSchema": schema()}), &program)
                .await;
        let found: Vec<_> = kinds(&events)
            .into_iter()
            .filter(|kind| kind.starts_with("envelope.") || *kind == "cap.breached")
            .collect();
        assert_eq!(found, reported, "{program}");
        assert_eq!(run["status"], status, "{program}");
        assert_eq!(run["error"]["code"].as_str().unwrap_or_default(), code, "{program}");
    }
}

#[tokio::test]
async fn an_invalid_configuration_of_a_model_node_is_refused_at_registration() {
    let folder = tempfile::tempdir().unwrap();
    let host =
        Host::with(Setup { executors: Some(executors(folder.path(), None)), ..Setup::default() }).await;
    for config in [
        json!({"outputSchema": schema(), "maxTokens": "many"}),
        json!({"outputSchema": schema(), "colour": 1}),
    ] {
        let refusal = host.runs.definitions().register(&caller("acme"), &ask(&config)).await.unwrap_err();
        assert_eq!(refusal.code.as_str(), "validation_error", "{config}");
    }
}

#[tokio::test]
async fn a_prompt_by_its_older_name_is_put_together_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start(vec![reply("done")]);
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    for (name, ended) in
        [("conformance.prompt.writer-user", "run.completed"), ("unknown.prompt.id", "run.failed")]
    {
        let nodes = json!([["ask", "core.ai.callPrompt", {"promptId": name}]]);
        host.runs
            .definitions()
            .register(&caller("acme"), &workflow("named", &nodes, &json!([]), &json!([])))
            .await
            .unwrap();
        let run_id = begin(&host.runs, "named").await;
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(events.last().unwrap()["type"], ended, "{name}");
        if ended == "run.failed" {
            let run = snapshot(&host.runs, &caller("acme"), &run_id);
            assert_eq!(run["error"]["code"], "template_not_found", "{run}");
        } else {
            assert_eq!(kinds(&events)[2..4], ["agent.promptResolved", "prompt.composed"]);
        }
    }
    assert_eq!(server.count(), 1);
    let asked = &server.requests()[0];
    let reported = asked.body["messages"][0]["content"].as_str().unwrap();
    assert!(reported.starts_with("Write one paragraph"), "{reported}");
}
