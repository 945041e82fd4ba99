//! Streamed replies, from a real server on this machine.

use executors::models::Wire;
use flow::engine::DrainPolicy;
use flow::event::EventKind;
use flow::event::wire::RawEvent;
use flow::id::RunId;
use runs::Direct;
use serde_json::{Value, json};

use super::models::{CANARY, executors, executors_on};
use super::provider::{ModelServer, Speaker, reply, spoken_by_the_test};
use super::{Host, Setup, begin, caller, kinds, snapshot, to_the_end, until, workflow};

pub(super) fn telling() -> Value {
    let messages = json!([{"role": "user", "content": "Tell me."}]);
    let node = json!(["ask", "core.ai.callPrompt", {"expectsStreaming": true}, {"messages": {"type": "static", "value": messages}}]);
    workflow("ask", &json!([node]), &json!([]), &json!([]))
}

/// A run that calls a server which is controlled by the test.
struct Asking {
    host: Host,
    run_id: RunId,
    speaker: Speaker,
    server: ModelServer,
    /// The folder with the key.
    _folder: tempfile::TempDir,
}

async fn asking() -> Asking {
    asking_on(Wire::OpenAi).await
}

async fn asking_on(wire: Wire) -> Asking {
    asking_with(wire, &telling()).await
}

async fn asking_with(wire: Wire, document: &Value) -> Asking {
    let (speaker, reply) = spoken_by_the_test();
    let server = ModelServer::start(vec![reply]);
    let folder = tempfile::tempdir().unwrap();
    let executors = executors_on(wire, folder.path(), Some(&server.base));
    let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
    host.runs.definitions().register(&caller("acme"), document).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    Asking { host, run_id, speaker, server, _folder: folder }
}

/// Whether a chunk with this text was recorded.
fn says(event: &RawEvent, text: &str) -> bool {
    event.kind == EventKind::OutputChunk && event.payload["chunk"].as_str().unwrap().contains(text)
}

pub(super) fn spoken(events: &[Value]) -> String {
    let pieces = events.iter().filter(|event| event["type"] == "output.chunk");
    pieces.map(|event| event["payload"]["chunk"].as_str().unwrap()).collect()
}

/// The number of chunks that are marked as the last.
pub(super) fn lasts(events: &[Value]) -> usize {
    events.iter().filter(|event| event["payload"]["isLast"] == true).count()
}

#[tokio::test]
async fn a_reply_is_seen_while_the_model_still_talks() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        is_seen_while_the_model_still_talks(wire).await;
    }
}

async fn is_seen_while_the_model_still_talks(wire: Wire) {
    let Asking { host, run_id, speaker, server, _folder } = asking_on(wire).await;
    for piece in ["The signal", " is set,", " the train passes."] {
        speaker.say(piece);
        // The server waits for the test, and the test for this chunk, so it must have arrived before the next one.
        until(&host.runs, &run_id, |event| says(event, piece.trim_end_matches('.'))).await.unwrap();
    }
    drop(speaker);
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(spoken(&events), "The signal is set, the train passes.");
    assert_eq!(lasts(&events), 1);
    let run = snapshot(&host.runs, &caller("acme"), &run_id);
    assert_eq!(run["status"], "completed");
    let outputs = &events.last().unwrap()["payload"]["outputs"]["ask"];
    assert_eq!(outputs["content"], "The signal is set, the train passes.");
    assert_eq!((&outputs["usage"]["inputTokens"], server.count()), (&json!(3), 1));
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "provider.usage").count(), 1);
    assert_eq!(run["metrics"]["openwopCost"]["tokens"], json!({"input": 3, "output": 2}));
    let counts = host.runs.engine().counts();
    assert_eq!((counts.tokens_in, counts.tokens_out, counts.activities.count), (3, 2, 1));
}

#[tokio::test]
async fn a_credential_that_arrives_in_parts_is_in_no_chunk() {
    let Asking { host, run_id, speaker, server: _server, _folder } = asking().await;
    for piece in ["it is a-key-that-", "must-", "stay-secret, they say"] {
        speaker.say(piece);
    }
    drop(speaker);
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(spoken(&events), "it is [REDACTED:model-key], they say");
    assert!(!json!(events).to_string().contains("must-stay-secret"));
}

#[tokio::test]
async fn a_secret_of_a_prompt_that_arrives_in_parts_is_in_no_chunk() {
    let config = json!({"expectsStreaming": true, "promptId": "conformance.prompt.secret-redaction"});
    let inputs = json!({"apiKey": {"type": "static", "value": "canary"}});
    let node = json!(["ask", "core.ai.callPrompt", config, inputs]);
    let document = workflow("ask", &json!([node]), &json!([]), &json!([]));
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let Asking { host, run_id, speaker, server, _folder } = asking_with(wire, &document).await;
        let (first, second) = CANARY.split_at(CANARY.len() / 2);
        speaker.say("The key");
        until(&host.runs, &run_id, |event| says(event, "The key")).await.unwrap();
        speaker.say(&format!(" is {first}"));
        // The text before the secret is reported, and the rest is held back.
        until(&host.runs, &run_id, |event| says(event, " is ")).await.unwrap();
        speaker.say(&format!("{second}, they say"));
        drop(speaker);
        let events = to_the_end(&host.runs, &run_id).await;
        assert!(server.requests()[0].body.to_string().contains(CANARY), "the model got it");
        assert_eq!(spoken(&events), "The key is [REDACTED:canary], they say");
        let outputs = &events.last().unwrap()["payload"]["outputs"]["ask"];
        assert_eq!(outputs["content"], "The key is [REDACTED:canary], they say");
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        let reported = json!([events, run]).to_string();
        assert!(!reported.contains(first) && !reported.contains(second), "{reported}");
        let database = rusqlite::Connection::open(host.folder.path().join("runs.sqlite3")).unwrap();
        let counted = "SELECT count(*) FROM activities WHERE instr(outcome, ?1) > 0";
        let kept: usize = database.query_row(counted, [first.as_bytes()], |row| row.get(0)).unwrap();
        assert_eq!(kept, 0);
    }
}

#[tokio::test]
async fn an_incomplete_reply_fails_its_node_and_is_not_requested_again() {
    for end in [Speaker::break_off, Speaker::fail] {
        let Asking { host, run_id, speaker, server, _folder } = asking().await;
        speaker.say("The signal");
        until(&host.runs, &run_id, |event| says(event, "The signal")).await.unwrap();
        end(speaker);
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!((spoken(&events).as_str(), lasts(&events)), ("The signal", 0));
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        assert_eq!((&run["error"]["code"], server.count()), (&json!("provider_reply_invalid"), 1));
    }
}

#[tokio::test]
async fn a_paused_run_records_the_rest_of_a_reply_on_resume() {
    let Asking { host, run_id, speaker, server, _folder } = asking().await;
    speaker.say("The signal");
    until(&host.runs, &run_id, |event| says(event, "The signal")).await.unwrap();
    let by = caller("acme");
    host.runs.commands().pause(&by, &run_id, None, DrainPolicy::DrainCurrentNode, Direct).await.unwrap();
    speaker.say(" is set.");
    drop(speaker);
    host.runs.commands().resume(&by, &run_id, None, Direct).await.unwrap();
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!((spoken(&events).as_str(), lasts(&events)), ("The signal is set.", 1));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_server_without_streaming_is_supported() {
    let server = ModelServer::start(vec![reply("all at once")]);
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.definitions().register(&caller("acme"), &telling()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!((spoken(&events).as_str(), lasts(&events)), ("all at once", 1));
}
