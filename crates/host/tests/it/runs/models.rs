//! Nodes that ask models, of a real server on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ai::prompt::library::Library;
use ai::provider::http::BaseUrl;
use ai::provider::mock::Program;
use flow::engine::ids::logical_invocation_id;
use flow::store::RunStore as _;
use host::hands::models::{Models, Options as ModelOptions, Provider, Wire};
use host::hands::{Hands, Options};
use host::runs::outbound::Outbound;
use host::runs::secrets::{ConfiguredSecrets, SecretReference};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{Host, Setup, begin, caller, kinds, snapshot, to_the_end, workflow};

const KEY: &str = "a-key-that-nobody-may-see";

/// A server that speaks chat completions: it answers what it is told to, in order, and remembers what it was asked.
pub(super) struct Server {
    pub(super) base: String,
    pub(super) asked: Arc<Mutex<Vec<(String, Value)>>>,
    count: Arc<AtomicUsize>,
}

/// Where questions arrive, and how many answers may go out.
#[derive(Clone)]
struct Door {
    arrived: Arc<Semaphore>,
    through: Arc<Semaphore>,
}

impl Door {
    fn of(answers: usize) -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), through: Arc::new(Semaphore::new(answers)) }
    }

    fn open() -> Self {
        Self::of(Semaphore::MAX_PERMITS)
    }
}

impl Server {
    /// On threads of its own, so that it outlives the runtime of whoever asks.
    pub(super) fn start(answers: Vec<Value>) -> Self {
        Self::held(answers, Door::open())
    }

    /// The same, with a door that is in front of every answer.
    fn held(answers: Vec<Value>, door: Door) -> Self {
        let (asked, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (seen, counted) = (Arc::clone(&asked), Arc::clone(&count));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let Some((head, body)) = request(&mut stream).await else { continue };
                    let place = counted.fetch_add(1, Ordering::SeqCst);
                    seen.lock().unwrap().push((head, body));
                    door.arrived.add_permits(1);
                    let Ok(through) = door.through.acquire().await else { return };
                    through.forget();
                    let text = answers[place.min(answers.len() - 1)].to_string();
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
                        text.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        });
        Self { base: format!("http://{}/v1", receiver.recv().unwrap()), asked, count }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

pub(super) async fn request(stream: &mut tokio::net::TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), serde_json::from_str(body).unwrap_or_default()));
        }
    }
}

pub(super) fn said(text: &str) -> Value {
    json!({
        "id": "c", "object": "chat.completion", "model": "small-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    })
}

pub(super) fn hands(folder: &Path, base: Option<&str>) -> Hands {
    let file = folder.join("model-key");
    std::fs::write(&file, KEY).unwrap();
    let reference = SecretReference::parse(&format!("file:{}", file.display())).unwrap();
    let secrets = ConfiguredSecrets::new([("acme".to_owned(), "model-key".to_owned(), reference)]);
    let provider = |base: &str| Provider {
        wire: Wire::OpenAi,
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
        outbound: Outbound::anywhere(),
        kinds: ai::envelope::Kinds::only([]),
        mock: true,
    });
    Hands::new(Options { models: Some(models), ..Options::default() })
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
    let hands = hands(folder.path(), None);
    hands.models().unwrap().programs().program("ask", Program::read(program).unwrap());
    let host = Host::with(Setup { hands: Some(hands), ..Setup::default() }).await;
    host.runs.register(&caller("acme"), &ask(config)).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    (events, snapshot(&host.runs, &caller("acme"), &run_id))
}

#[tokio::test]
async fn a_model_is_asked_and_its_key_is_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(vec![said(&format!("no JSON, but {KEY}")), said("{\"valid\": true}")]);
    let setup = Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.register(&caller("acme"), &document()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    let told =
        ["provider.usage", "envelope.retry.attempted", "provider.usage", "node.completed", "run.completed"];
    assert_eq!(kinds(&events)[2..], told);
    assert_eq!(events.last().unwrap()["payload"]["outputs"]["ask"]["data"], json!({"valid": true}));
    assert!(!json!(events).to_string().contains(KEY));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    for (head, body) in &*asked {
        assert!(head.to_ascii_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
        assert!(head.to_ascii_lowercase().contains("idempotency-key: "), "{head}");
        assert_eq!(body["model"], "small");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_asked_when_its_run_is_paused_is_asked_once_and_heard_when_the_run_goes_on() {
    use flow::engine::DrainPolicy::{DrainCurrentNode, Immediate};
    let folder = tempfile::tempdir().unwrap();
    let by = caller("acme");
    // The answer comes before the run goes on, or after it, or at the same moment.
    for (round, policy) in [Immediate, DrainCurrentNode].into_iter().cycle().take(12).enumerate() {
        let door = Door::of(0);
        let server = Server::held(vec![said("{\"valid\": true}")], door.clone());
        let setup = Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
        let host = Host::with(setup).await;
        host.runs.register(&by, &document()).await.unwrap();
        let run_id = begin(&host.runs, "ask").await;
        door.arrived.acquire().await.unwrap().forget();
        host.runs.pause(&by, &run_id, None, policy, None).await.unwrap();
        if round % 3 != 0 {
            door.through.add_permits(1);
        }
        if round % 3 == 1 {
            // What came of it is kept before anybody asks for it again.
            let genesis = host.store.run(None, &run_id).unwrap().unwrap().genesis;
            let genesis = serde_json::from_slice(&genesis).unwrap();
            let id = logical_invocation_id(&genesis, "ask", 0, "core.ai.structuredOutput");
            while host.store.activity(&id).unwrap() == Some(None) {
                tokio::task::yield_now().await;
            }
        }
        host.runs.resume(&by, &run_id, None, None).await.unwrap();
        if round % 3 == 0 {
            door.through.add_permits(1);
        }
        let events = to_the_end(&host.runs, &run_id).await;
        let told =
            ["run.started", "node.started", "run.paused", "run.resumed", "provider.usage", "node.completed"];
        assert_eq!(kinds(&events)[..told.len()], told, "{round}");
        assert_eq!(snapshot(&host.runs, &by, &run_id)["status"], "completed", "{round}");
        assert_eq!(server.count(), 1, "{round}");
    }
}

#[tokio::test]
async fn replies_that_do_not_fit_end_as_the_protocol_says() {
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
    for (program, told, status, code) in cases {
        let (events, run) =
            played(&json!({"provider": "mock", "model": "mock-mini", "outputSchema": schema()}), &program)
                .await;
        let found: Vec<_> = kinds(&events)
            .into_iter()
            .filter(|kind| kind.starts_with("envelope.") || *kind == "cap.breached")
            .collect();
        assert_eq!(found, told, "{program}");
        assert_eq!(run["status"], status, "{program}");
        assert_eq!(run["error"]["code"].as_str().unwrap_or_default(), code, "{program}");
    }
}

#[tokio::test]
async fn a_configuration_that_no_model_understands_is_refused_when_it_is_registered() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::with(Setup { hands: Some(hands(folder.path(), None)), ..Setup::default() }).await;
    for config in [
        json!({"outputSchema": schema(), "maxTokens": "many"}),
        json!({"outputSchema": schema(), "colour": 1}),
    ] {
        let refusal = host.runs.register(&caller("acme"), &ask(&config)).await.unwrap_err();
        assert_eq!(refusal.code.as_str(), "validation_error", "{config}");
    }
}

#[tokio::test]
async fn a_prompt_by_its_older_name_is_put_together_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(vec![said("done")]);
    let setup = Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    for (name, ended) in
        [("conformance.prompt.writer-user", "run.completed"), ("nobody.wrote.it", "run.failed")]
    {
        let nodes = json!([["ask", "core.ai.callPrompt", {"promptId": name}]]);
        host.runs
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
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    let told = asked[0].1["messages"][0]["content"].as_str().unwrap();
    assert!(told.starts_with("Write one paragraph"), "{told}");
}
