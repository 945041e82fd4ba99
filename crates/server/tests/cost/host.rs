//! A host on a real disk, and a client that does not allocate.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use ::catalogue::{Catalogue, CatalogueOptions};
use ::guided::{Tenants, TenantsOptions, Verifier, WorkspaceRoots};
use ::runs::keys::{self, ApiKey};
use ::runs::rates::{RateLimiter, RateLimits};
use ::runs::{AuditKey, Options as RunOptions, Runs, Scope};
use ::system::secrets::NoSecrets;
use ::system::{SystemClock, SystemEntropy};
use flow::definition::Capabilities;
use flow::engine::Limits;
use server::http::{Fixtures, Guides, HttpState, Options, PackRegistries, Settings, serve};
use storage::disk::RealDisk;
use storage::files::FileTenants;
use storage::sqlite::SqliteRuns;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub(crate) const KEY: &str = "ilk_live_000000000000000000000001";

/// A host that runs until it is dropped.
pub(crate) struct Host {
    address: SocketAddr,
    _runtime: Runtime,
    _folder: TempDir,
}

impl Host {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = runtime.block_on(listen(&folder));
        Self { address, _runtime: runtime, _folder: folder }
    }
}

async fn listen(folder: &TempDir) -> SocketAddr {
    let runs = Runs::new(RunOptions {
        store: Arc::new(SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        limits: Limits::default(),
        capabilities: Capabilities::OURS,
        token_secrets: vec![[7; 32]],
        public_url: "http://host.test".to_owned(),
        audit_key: AuditKey::from_seed([9; 32]),
        secrets: Arc::new(NoSecrets),
        outbound: outbound::Client::new(outbound::Reach::Public),
        executors: None,
        guided_nodes: None,
        anchors: None,
        ended_runs: None,
    });
    let key = ApiKey {
        id: "full".to_owned(),
        tenant: flow::id::Tenant::new("a"),
        scopes: Scope::ALL.to_vec(),
        test: false,
        created_at: 0,
        expires_at: None,
        revoked_at: None,
        session: None,
    };
    runs.keys().put(keys::hash(KEY), &key).await.unwrap();
    let disk = Arc::new(RealDisk::open(&folder.path().join("data")).unwrap());
    let catalogue = Catalogue::new(CatalogueOptions::default());
    let tenants = ports::wait(Tenants::open(TenantsOptions {
        stores: Arc::new(FileTenants::new(disk)),
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
    }))
    .unwrap();
    let state = HttpState::new(Options {
        runs,
        settings: Settings::default(),
        entropy: Arc::new(SystemEntropy),
        fixtures: Fixtures::default(),
        rate_limiter: RateLimiter::new(RateLimits::default()),
        clock: Arc::new(SystemClock),
        guides: Guides {
            tenants: Arc::new(tenants),
            workspace_roots: WorkspaceRoots::new(Vec::new()),
            allowed_origins: Vec::new(),
        },
        pack_registries: PackRegistries::in_memory().unwrap(),
        pages: None,
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, state, std::future::pending()));
    address
}

/// One keep-alive connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(host: &Host) -> Self {
        let stream = TcpStream::connect(host.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: vec![0; 64 * 1024] }
    }

    /// Sends a request and reads the whole reply.
    pub(crate) fn send(&mut self, request: &str, status: &str) {
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).unwrap();
            assert!(read > 0, "the host closed the connection");
            filled += read;
            if let Some(length) = answer_bytes(&self.buffer[..filled])
                && filled >= length
            {
                break;
            }
        }
        let answer = &self.buffer[..filled];
        assert_eq!(&answer[9..12], status.as_bytes(), "{}", String::from_utf8_lossy(answer));
    }
}

/// The length of a reply, once its head has been received.
fn answer_bytes(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let name = b"content-length: ";
    let at = answer[..head].windows(name.len()).position(|part| part == name)? + name.len();
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0')) + head + 4)
}
