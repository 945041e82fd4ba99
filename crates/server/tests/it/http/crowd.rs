//! Many readers of one run, and readers that do not read.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use server::http::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::client::{parse, request};
use super::service::{Host, KEY, gate, noop, workflow};

/// The number of readers.
const READERS: usize = 2000;
/// The number of file descriptors for everything else.
const OTHERS: u64 = 200;

/// Raises the limit of open files to what the readers need at both ends of their connections. Returns the possible number of readers.
#[expect(clippy::print_stderr, reason = "a test that checks less than its name says must report it")]
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = OTHERS + 2 * READERS as u64;
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    let raised = limit.current.unwrap_or(u64::MAX).max(wanted.min(maximum));
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).unwrap();
    let readers = usize::try_from((raised - OTHERS) / 2).unwrap().min(READERS);
    if readers < READERS {
        eprintln!("CHECKED IN PART: {readers} readers, because the system allows {raised} open files");
    }
    readers
}

/// A reader of one run.
struct Reader {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Reader {
    async fn connect(address: SocketAddr, run_id: &str, buffer: Option<u32>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let mut stream = socket.connect(address).await.unwrap();
        let key = format!("Bearer {KEY}");
        let path = format!("/v1/runs/{run_id}/events?streamMode=debug");
        stream.write_all(&request("GET", &path, &[("authorization", &key)], None)).await.unwrap();
        Self { stream, received: Vec::new() }
    }

    async fn until(&mut self, wanted: &[u8]) {
        while !self.received.windows(wanted.len()).any(|window| window == wanted) {
            let count = self.stream.read_buf(&mut self.received).await.unwrap();
            assert_ne!(count, 0, "the stream ended early");
        }
    }

    async fn all_of_it(mut self) -> String {
        self.stream.read_to_end(&mut self.received).await.unwrap();
        let answer = parse(&self.received).unwrap();
        assert_eq!(answer.status, 200);
        answer.text()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_readers_of_one_run_see_the_same() {
    let readers = raise_open_files();
    let settings = Settings {
        max_connections: READERS + 50,
        connections_per_local_address: READERS + 50,
        max_streams: READERS,
        keep_alive: Duration::from_secs(600),
        ..Settings::default()
    };
    let host = Host::start_with(settings).await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let (address, run_id) = (host.address, run_id.clone());
        reading.spawn(async move {
            let mut reader = Reader::connect(address, &run_id, None).await;
            reader.until(b"node.suspended").await;
            reader
        });
    }
    // All readers wait now, in the middle of the run.
    let waiting = reading.join_all().await;
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    host.post(&path, &json!({"resumeValue": {"action": "accept"}})).await.expect(200);
    let mut ending = JoinSet::new();
    for reader in waiting {
        ending.spawn(reader.all_of_it());
    }
    let mut seen = ending.join_all().await;
    assert!(seen[0].contains("event: run.completed"), "{}", seen[0]);
    assert_eq!(seen.len(), readers);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1, "every reader saw the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_delay_no_other_reader_and_miss_nothing() {
    let host = Host::start().await;
    host.register(&noop()).await;
    // More than the socket buffers hold, after a gate that opens when all readers are connected.
    let text = "x".repeat(500_000);
    let config = json!({"title": "Go on?", "actions": ["accept"]});
    let names: Vec<String> = (0..12).map(|place| format!("n{place}")).collect();
    let mut nodes = vec![("gate", "core.approvalGate", config)];
    nodes.extend(names.iter().map(|name| (name.as_str(), "core.identity", json!({}))));
    let variables = json!([{"name": "text", "type": "string", "defaultValue": text}]);
    let mut large = workflow("large", &nodes, &variables);
    for node in large["nodes"].as_array_mut().unwrap().iter_mut().skip(1) {
        node["inputs"] = json!({"text": {"type": "variable", "variableName": "text"}});
    }
    host.register(&large).await;
    let run_id = host.create("large").await;
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut reader = Reader::connect(host.address, &run_id, Some(4096)).await;
        reader.until(b"node.suspended").await;
        readers.push(reader);
    }
    let path = format!("/v1/runs/{run_id}/interrupts/gate");
    host.post(&path, &json!({"resumeValue": {"action": "accept"}})).await.expect(200);
    // The readers stop reading, and the run still completes; so do other runs.
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    for _ in 0..20 {
        let other = host.create("noop").await;
        assert_eq!(host.end_of(&other).await["status"], "completed");
    }
    let page = format!("/v1/runs/{run_id}/events/poll?limit=1000");
    let log = host.get(&page).await.expect(200)["events"].as_array().unwrap().clone();
    assert!(log.len() > 24, "{}", log.len());
    for reader in readers {
        let text = reader.all_of_it().await;
        let seen: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert!(seen == log, "a reader that comes late reads everything, in order");
    }
}
