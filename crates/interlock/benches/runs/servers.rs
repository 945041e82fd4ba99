//! The measured servers: the program itself, and two reference servers, each in its own process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::id::Tenant;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit};
use serde_json::{Value, json};
use storage::sqlite::SqliteRuns;
use tokio::net::TcpListener;

use crate::neighbours;

pub(crate) const KEY: &str = "a-key-of-the-benchmark-0123456789";
pub(crate) const NOTHING: &str = "bench-nothing";

/// A workflow of independent nodes.
pub(crate) fn workflow(id: &str, nodes: &[Value]) -> Value {
    let nodes: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(place, node)| {
            let id = format!("node-{place}");
            let mut whole = json!({
                "id": id, "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
            });
            whole.as_object_mut().unwrap().extend(node.as_object().unwrap().clone());
            whole
        })
        .collect();
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes,
        "edges": [], "variables": [], "metadata": {},
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}],
        "settings": {"timeout": 10_000},
    })
}

/// A server process, stopped when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process until it listened.
    pub(crate) startup: Duration,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let begin = Instant::now();
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let startup = begin.elapsed();
        let address = line.split_whitespace().nth(1).unwrap_or_default().trim_start_matches("http://");
        let address = address.parse().unwrap_or_else(|_| panic!("no address in {line:?}"));
        Self { process, address, startup }
    }

    /// `interlock serve` with default settings on the named data directory.
    pub(crate) fn interlock(folder: &Path, data: &str) -> Self {
        let workflows = folder.join("workflows");
        std::fs::create_dir_all(&workflows).unwrap();
        let nothing = workflow(NOTHING, &[json!({"typeId": "core.noop"})]);
        for definition in [nothing].iter().chain(&neighbours::neighbours()) {
            let name = definition["id"].as_str().unwrap();
            std::fs::write(workflows.join(format!("{name}.json")), definition.to_string()).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.join(data));
        command.arg("--workflows").arg(workflows).env("INTERLOCK_API_KEY", KEY);
        Self::start(&mut command)
    }

    /// A reference server in another process of this program.
    pub(crate) fn bare(kind: &str, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::start(command.arg(kind).arg(folder))
    }

    /// The resident memory in mebibytes.
    pub(crate) fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let kibibytes: f64 = line.split_whitespace().next().unwrap_or_default().parse().unwrap_or_default();
        kibibytes / 1024.0
    }

    /// Stops it with SIGTERM.
    pub(crate) fn stop(mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.process.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves in this process, if it was started for that.
pub(crate) fn serve_if_asked() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).take(2).collect();
    let store = match arguments.first().map(String::as_str) {
        Some("hello") => None,
        Some("commit") => {
            let file = Path::new(&arguments[1]).join("bare.sqlite3");
            Some(Arc::new(SqliteRuns::open(&file).unwrap()))
        }
        _ => return false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("Serving http://{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let store = store.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, store.clone()));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// Responds, with a store only after a row of half a kilobyte is durable.
async fn answer(
    request: Request<Incoming>,
    store: Option<Arc<SqliteRuns>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    if let Some(store) = store {
        let row = Change::Audit { tenant: Tenant::new("bare"), entry: vec![b'x'; 512].into() };
        store.commit(Commit { changes: vec![row] }).await.unwrap();
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"hello\":\"world\"}"))))
}
