//! Replies that are told while they come, of a real server on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flow::engine::DrainPolicy;
use flow::event::{Event, EventKind};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::models::{hands, request};
use super::{Host, Setup, begin, caller, kinds, snapshot, to_the_end, until, workflow};

/// What the server does next with its answer: a piece of the reply. It ends the answer when nobody tells it more.
type Script = UnboundedReceiver<&'static str>;

/// A server that speaks chat completions piece by piece, on threads of its own, so that it outlives the runtime of whoever asks.
pub(super) struct Slow {
    pub(super) base: String,
    count: Arc<AtomicUsize>,
}

impl Slow {
    pub(super) fn start(mut script: impl FnMut() -> Script + Send + 'static) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let Some((_, body)) = request(&mut stream).await else { continue };
                    assert_eq!(body["stream"], true, "it is asked for piece by piece");
                    counted.fetch_add(1, Ordering::SeqCst);
                    answer(&mut stream, script()).await;
                }
            });
        });
        Self { base: format!("http://{}/v1", receiver.recv().unwrap()), count }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Answers piece by piece. An empty piece is a pause.
async fn answer(stream: &mut tokio::net::TcpStream, mut script: Script) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
    let event = |delta: Value, stop: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        format!("data: {}\n\n", json!({"id": "c", "model": "small-1", "choices": [choice]}))
    };
    while let Some(piece) = script.recv().await {
        if piece.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        if piece == BREAK {
            return;
        }
        if piece == FAIL {
            let _ = stream.write_all(b"data: {\"error\": {\"type\": \"overloaded\"}}\n\n").await;
            return;
        }
        let _ = stream.write_all(event(json!({"content": piece}), Value::Null).as_bytes()).await;
    }
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    let end = format!("{}data: {usage}\n\ndata: [DONE]\n\n", event(json!({}), json!("stop")));
    let _ = stream.write_all(end.as_bytes()).await;
}

/// The answer breaks off.
const BREAK: &str = "\u{0}";

/// The server says that it cannot go on.
const FAIL: &str = "\u{1}";

/// A script that is known from the beginning.
pub(super) fn scripted(pieces: &[&'static str]) -> Script {
    let (sender, script) = unbounded_channel();
    pieces.iter().for_each(|piece| sender.send(*piece).unwrap());
    script
}

pub(super) fn telling() -> Value {
    let messages = json!([{"role": "user", "content": "Tell me."}]);
    let node = json!(["ask", "core.ai.callPrompt", {"expectsStreaming": true}, {"messages": {"type": "static", "value": messages}}]);
    workflow("ask", &json!([node]), &json!([]), &json!([]))
}

/// A run that asks a server, which says what it is told to say.
struct Asking {
    host: Host,
    run_id: String,
    say: UnboundedSender<&'static str>,
    server: Slow,
    /// Where the key is.
    _folder: tempfile::TempDir,
}

async fn asking() -> Asking {
    let (sender, script) = unbounded_channel();
    let mut script = Some(script);
    let server = Slow::start(move || script.take().expect("it is asked once"));
    let folder = tempfile::tempdir().unwrap();
    let host =
        Host::with(Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() });
    let host = host.await;
    host.runs.register(&caller("acme"), &telling()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    Asking { host, run_id, say: sender, server, _folder: folder }
}

/// Whether a piece with these words was told.
fn says(event: &Event, text: &str) -> bool {
    event.kind == EventKind::OutputChunk && event.payload["chunk"].as_str().unwrap().contains(text)
}

pub(super) fn spoken(events: &[Value]) -> String {
    let pieces = events.iter().filter(|event| event["type"] == "output.chunk");
    pieces.map(|event| event["payload"]["chunk"].as_str().unwrap()).collect()
}

/// How many pieces say that they are the last.
pub(super) fn lasts(events: &[Value]) -> usize {
    events.iter().filter(|event| event["payload"]["isLast"] == true).count()
}

#[tokio::test]
async fn a_reply_is_seen_while_the_model_still_talks() {
    let Asking { host, run_id, say, server, _folder } = asking().await;
    for piece in ["The signal", " is set,", " the train passes."] {
        say.send(piece).unwrap();
        // The server waits for the test, and the test for this piece: it can only have come before the next.
        until(&host.runs, &run_id, |event| says(event, piece.trim_end_matches('.'))).await.unwrap();
    }
    drop(say);
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
    let counts = host.runs.counts();
    assert_eq!((counts.tokens_in, counts.tokens_out, counts.activities.count), (3, 2, 1));
}

#[tokio::test]
async fn a_key_that_comes_in_pieces_is_told_in_none() {
    let Asking { host, run_id, say, server: _server, _folder } = asking().await;
    for piece in ["it is a-key-that-", "nobody-", "may-see, they say"] {
        say.send(piece).unwrap();
    }
    drop(say);
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(spoken(&events), "it is [REDACTED:model-key], they say");
    assert!(!json!(events).to_string().contains("nobody-may-see"));
}

#[tokio::test]
async fn a_reply_that_breaks_off_fails_its_node_and_is_not_asked_for_again() {
    for end in [BREAK, FAIL] {
        let Asking { host, run_id, say, server, _folder } = asking().await;
        say.send("The signal").unwrap();
        until(&host.runs, &run_id, |event| says(event, "The signal")).await.unwrap();
        say.send(end).unwrap();
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!((spoken(&events).as_str(), lasts(&events)), ("The signal", 0));
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        assert_eq!((&run["error"]["code"], server.count()), (&json!("provider_reply_invalid"), 1));
    }
}

#[tokio::test]
async fn a_run_that_is_paused_is_told_nothing_and_is_told_the_rest_when_it_goes_on() {
    let Asking { host, run_id, say, server, _folder } = asking().await;
    say.send("The signal").unwrap();
    until(&host.runs, &run_id, |event| says(event, "The signal")).await.unwrap();
    let by = caller("acme");
    host.runs.pause(&by, &run_id, None, DrainPolicy::DrainCurrentNode, None).await.unwrap();
    say.send(" is set.").unwrap();
    drop(say);
    host.runs.resume(&by, &run_id, None, None).await.unwrap();
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!((spoken(&events).as_str(), lasts(&events)), ("The signal is set.", 1));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_server_that_knows_no_streams_is_understood_too() {
    let server = super::models::Server::start(vec![super::models::said("all at once")]);
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.register(&caller("acme"), &telling()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!((spoken(&events).as_str(), lasts(&events)), ("all at once", 1));
}
