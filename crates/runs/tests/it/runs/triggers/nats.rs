//! Triggers on a real NATS server with JetStream.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use executors::{Executors, Options};
use serde_json::json;
use surfaces::nats::{NatsOptions, NatsQueue};
use surfaces::queue::Consume;
use surfaces::{Limits, Surfaces};
use tempfile::TempDir;

use super::{
    after, caller, ended, listen, numbers, on_queue, on_stream, open, publish, queue_of, records, scope,
    wait_for,
};
use crate::runs::{Setup, keep_time};

/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server for this test. It runs below a shell that ends it when its input closes, however this process ends.
struct Server {
    folder: TempDir,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn server() -> Option<(String, Server)> {
    if !["/usr/sbin/nats-server", "/usr/bin/nats-server"].iter().any(|path| Path::new(path).exists()) {
        let said = "the package nats-server is not installed, so its tests were SKIPPED";
        assert!(std::env::var_os("INTERLOCK_SKIP_NOTHING").is_none_or(|value| value != "1"), "{said}");
        eprintln!("{said}");
        return None;
    }
    let folder = TempDir::new().unwrap();
    let script = "cd \"$1\"; PATH=$PATH:/usr/sbin
        nats-server -js -sd store -a 127.0.0.1 -p -1 --ports_file_dir . > log 2>&1 &
        cat > /dev/null; kill -TERM $!; wait $!";
    let child = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let server = Server { folder, child };
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(address) = address(server.folder.path()) {
            return Some((address, server));
        }
        assert!(Instant::now() < until, "the server does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn address(folder: &Path) -> Option<String> {
    let files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let ports: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "ports")).collect();
    let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(ports.first()?).ok()?).ok()?;
    Some(ports["nats"][0].as_str()?.to_owned())
}

async fn executors(folder: &Path, url: &str) -> Executors {
    let mut surfaces = Surfaces::open(&surfaces::Options::new(folder.join("surfaces"))).unwrap();
    let options = NatsOptions { url: url.to_owned() };
    surfaces.serve_queue(Arc::new(NatsQueue::connect(&options, &Limits::default()).await.unwrap()));
    Executors::new(Options { surfaces: Some(Arc::new(surfaces)), ..Options::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_of_a_server_starts_exactly_one_run_across_a_restart() {
    let Some((url, _server)) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut published = BTreeMap::new();
    for life in 0..2 {
        let setup = Setup { executors: Some(executors(folder.path(), &url).await), ..Setup::default() };
        let (runs, _) = open(folder.path(), setup);
        runs.engine().recover().await.unwrap();
        keep_time(&runs);
        runs.definitions().register(&caller("acme"), &on_queue("takes", "jobs", &json!({}))).await.unwrap();
        let listening = listen(&runs);
        for n in 0..32 {
            let payload = json!({"n": n, "life": life});
            published.insert(publish(&runs, "acme", "jobs", payload.clone()).await, payload);
        }
        if life == 1 {
            after(&runs, "acme", "takes", 64).await;
        }
        runs.drain().await;
        listening.await.unwrap();
        if life == 1 {
            let found = ended(&runs, "acme", "takes");
            assert_eq!(found.len(), 64);
            assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), published);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_dead_letters_of_a_server_behave_like_those_of_the_database() {
    let Some((url, _server)) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { executors: Some(executors(folder.path(), &url).await), ..Setup::default() };
    let (runs, _) = open(folder.path(), setup);
    let queue = queue_of(&runs);
    let put = async |from: u64, to: u64| {
        for n in from..to {
            queue.stream_publish(&scope("acme"), "log".into(), json!({"n": n})).await.unwrap();
        }
    };
    put(0, 10).await;
    runs.definitions().register(&caller("acme"), &on_stream("all", "log", true)).await.unwrap();
    runs.definitions().register(&caller("acme"), &on_stream("later", "log", false)).await.unwrap();
    let config = json!({"topic": "numbers", "maxAttempts": 2, "retryDelayMs": 1});
    let trigger = json!({"id": "t", "type": "event", "eventType": "queue.message", "config": config});
    runs.definitions().register(&caller("acme"), &numbers(&trigger)).await.unwrap();
    put(10, 15).await;
    let listening = listen(&runs);
    put(15, 20).await;
    publish(&runs, "acme", "numbers", json!({"n": "none"})).await;
    assert_eq!(records(after(&runs, "acme", "all", 20).await), (0..20).collect::<Vec<_>>());
    assert_eq!(records(after(&runs, "acme", "later", 10).await), (10..20).collect::<Vec<_>>());
    let letter = wait_for("the dead letter", async || {
        queue.consume(&scope("acme"), Consume::of("numbers.dlq")).await.unwrap()
    });
    assert_eq!(letter.await.payload["original"], json!({"n": "none"}));
    runs.drain().await;
    listening.await.unwrap();
}
