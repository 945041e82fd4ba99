//! A host for the tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use catalogue::{Catalogue, CatalogueOptions};
use executors::agents::Agents;
use executors::models::{Models, Options as ModelOptions};
use executors::modules::Modules;
use executors::{Executors, Options as ExecutorOptions};
use flow::definition::Capabilities;
use flow::engine::Limits;
use flow::id::Tenant;
use guided::{Tenants, TenantsOptions, Verifier, WorkspaceRoots};
use packs::install::InstalledPacks;
use packs::registry::MemoryStore;
use runs::keys::{self, ApiKey};
use runs::rates::{RateLimiter, RateLimits};
use runs::{AuditKey, EndedRuns, Options as RunOptions, Runs, Scope};
use serde_json::{Value, json};
use server::http::{Fixtures, Guides, HttpState, Options, PackRegistries, Settings, serve};
use storage::disk::RealDisk;
use storage::files::FileTenants;
use storage::sqlite::SqliteRuns;
use system::secrets::{NoSecrets, SecretError, SecretValue, Secrets};
use system::{ManualClock, SystemClock, SystemEntropy};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::{Answer, raw, request};

/// A key with all scopes.
pub(crate) const KEY: &str = "ilk_live_000000000000000000000001";
/// A key of the same tenant that may only read runs.
pub(crate) const READER: &str = "ilk_live_000000000000000000000002";
/// A key of another tenant.
pub(crate) const OTHER: &str = "ilk_live_000000000000000000000003";
/// A key for tests.
pub(crate) const TESTER: &str = "ilk_test_000000000000000000000004";
/// A revoked key, and an expired one.
pub(crate) const REVOKED: &str = "ilk_live_000000000000000000000005";
pub(crate) const EXPIRED: &str = "ilk_live_000000000000000000000006";

/// What the runs of a host use.
struct Parts {
    secrets: Arc<dyn Secrets>,
    executors: Option<Executors>,
    ended_runs: Option<EndedRuns>,
}

impl Default for Parts {
    fn default() -> Self {
        Self { secrets: Arc::new(NoSecrets), executors: None, ended_runs: None }
    }
}

/// A running host. Dropping it stops it and deletes its database.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) runs: Runs,
    pub(crate) store: Arc<SqliteRuns>,
    pub(crate) fixtures: Fixtures,
    /// The directory in which agents may open workspaces.
    pub(crate) workspaces: PathBuf,
    shutdown: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<std::io::Result<()>>>,
    folder: TempDir,
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    pub(crate) async fn start_with(settings: Settings) -> Self {
        Self::start_limited(settings, RateLimits::default()).await
    }

    pub(crate) async fn start_limited(settings: Settings, limits: RateLimits) -> Self {
        Self::start_capable(settings, limits, Capabilities::OURS).await
    }

    pub(crate) async fn start_capable(
        settings: Settings,
        limits: RateLimits,
        capabilities: Capabilities,
    ) -> Self {
        let executors = |_: &Path| {
            let models = Models::new(mock_models(Arc::new(NoSecrets)));
            Executors::new(ExecutorOptions { models: Some(models), ..ExecutorOptions::default() })
        };
        let folder = TempDir::new().unwrap();
        let executors = settings.test_seams.then(|| executors(folder.path()));
        let parts = Parts { executors, ..Parts::default() };
        Self::start_in(folder, settings, limits, capabilities, parts, None, None).await
    }

    /// A host with web pages beside the protocol.
    pub(crate) async fn start_with_pages(settings: Settings, pages: Router) -> Self {
        let (folder, limits) = (TempDir::new().unwrap(), RateLimits::default());
        Self::start_in(folder, settings, limits, Capabilities::OURS, Parts::default(), None, Some(pages))
            .await
    }

    /// A host whose registry has these packs.
    pub(crate) async fn start_offering(settings: Settings, pack_registries: PackRegistries) -> Self {
        let (folder, limits) = (TempDir::new().unwrap(), RateLimits::default());
        Self::start_in(
            folder,
            settings,
            limits,
            Capabilities::OURS,
            Parts::default(),
            Some(pack_registries),
            None,
        )
        .await
    }

    /// A host whose executors are built from its folder.
    pub(crate) async fn start_executing(
        capabilities: Capabilities,
        executors: impl FnOnce(&Path) -> Executors,
    ) -> Self {
        let (folder, limits) = (TempDir::new().unwrap(), RateLimits::default());
        let executors = Some(executors(folder.path()));
        let parts = Parts { executors, ..Parts::default() };
        Self::start_in(folder, Settings::default(), limits, capabilities, parts, None, None).await
    }

    /// A host for suites with all node features: stores, pack modules, a mock model, one secret, and the MCP servers at these addresses.
    pub(crate) async fn start_equipped(servers: &[SocketAddr]) -> Self {
        let settings = Settings { test_seams: true, ..Settings::default() };
        Self::start_equipped_with(settings, servers, None, None).await
    }

    /// The same with other settings, and with the agents of packs.
    pub(crate) async fn start_equipped_with(
        settings: Settings,
        servers: &[SocketAddr],
        agents: Option<Agents>,
        ended_runs: Option<EndedRuns>,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let secrets: Arc<dyn Secrets> = Arc::new(Canary);
        let options = surfaces::Options::new(folder.path().join("surfaces"));
        let mcp = servers.iter().enumerate().fold(
            executors::mcp::Servers::new(Arc::clone(&secrets)),
            |known, (place, address)| {
                let url = format!("http://{address}/v1/mcp");
                known.with(&format!("server-{place}"), &url, Some("mcp-key".to_owned()), Vec::new()).unwrap()
            },
        );
        let modules = Modules::new(sandbox::Sandbox::new().unwrap(), BTreeMap::new());
        let executors = Executors::new(ExecutorOptions {
            surfaces: Some(Arc::new(surfaces::Surfaces::open(&options).unwrap())),
            modules: Some(modules.with_examples().unwrap()),
            agents,
            models: Some(Models::new(mock_models(Arc::clone(&secrets)))),
            mcp: Some(mcp),
            http: None,
        });
        let limits = RateLimits::default();
        let parts = Parts { secrets, executors: Some(executors), ended_runs };
        Self::start_in(folder, settings, limits, Capabilities::OURS, parts, None, None).await
    }

    async fn start_in(
        folder: TempDir,
        settings: Settings,
        limits: RateLimits,
        capabilities: Capabilities,
        parts: Parts,
        pack_registries: Option<PackRegistries>,
        pages: Option<Router>,
    ) -> Self {
        super::logs::log();
        let store = Arc::new(SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap());
        let runs = Runs::new(RunOptions {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            limits: Limits::default(),
            // Like `interlock serve`: mock nodes are supported if seams are enabled.
            capabilities: Capabilities {
                mock_agent: capabilities.mock_agent || settings.test_seams,
                ..capabilities
            },
            token_secrets: vec![[7; 32]],
            public_url: "http://host.test".to_owned(),
            audit_key: AuditKey::from_seed([9; 32]),
            secrets: parts.secrets,
            outbound: outbound::Client::new(outbound::Reach::Public),
            executors: parts.executors,
            guided_nodes: None,
            anchors: None,
            ended_runs: parts.ended_runs,
        });
        put_keys(&runs).await;
        let clock = runs.clone();
        tokio::spawn(async move { clock.engine().keep_time().await });
        let fixtures = Fixtures::default();
        let workspaces = folder.path().join("workspaces");
        std::fs::create_dir(&workspaces).unwrap();
        let state = HttpState::new(Options {
            runs: runs.clone(),
            settings,
            entropy: Arc::new(SystemEntropy),
            fixtures: fixtures.clone(),
            rate_limiter: RateLimiter::new(limits),
            // Only the rate limits use it: used-up limits do not refill during a test.
            clock: Arc::new(ManualClock::at(0)),
            guides: Guides {
                tenants: Arc::new(tenants(folder.path())),
                workspace_roots: WorkspaceRoots::new(vec![workspaces.clone()]),
                allowed_origins: vec!["https://app.example".to_owned()],
            },
            pack_registries: pack_registries
                .unwrap_or_else(|| {
                    PackRegistries::in_memory().unwrap().with_tests(MemoryStore::default()).unwrap()
                })
                .with_installed(InstalledPacks::open(&folder.path().join("packs")).unwrap()),
            pages,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(listener, state, async { drop(stopped.await) }));
        Self {
            address,
            runs,
            store,
            fixtures,
            workspaces,
            shutdown: Some(shutdown),
            served: Some(served),
            folder,
        }
    }

    /// The database file.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("runs.sqlite3")
    }

    /// Stops the host, and waits until it has stopped.
    pub(crate) async fn stop(&mut self) {
        drop(self.shutdown.take());
        self.served.take().unwrap().await.unwrap().unwrap();
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let request = request(method, path, headers, body);
        tokio::time::timeout(Duration::from_secs(30), raw(self.address, &request)).await.unwrap().unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("authorization", &format!("Bearer {KEY}"))], None).await
    }

    pub(crate) async fn get_as(&self, key: &str, path: &str) -> Answer {
        self.send("GET", path, &[("authorization", &format!("Bearer {key}"))], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn put(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let key = format!("Bearer {KEY}");
        let mut all = headers.to_vec();
        for (name, value) in [("authorization", key.as_str()), ("content-type", "application/tar+gzip")] {
            if !headers.iter().any(|(known, _)| *known == name) {
                all.push((name, value));
            }
        }
        self.send("PUT", path, &all, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[("authorization", &format!("Bearer {KEY}"))], None).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let key = format!("Bearer {KEY}");
        let mut all = vec![("content-type", "application/json")];
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            all.push(("authorization", &key));
        }
        all.extend(headers);
        self.send("POST", path, &all, Some(body.to_string().as_bytes())).await
    }

    pub(crate) async fn register(&self, workflow: &Value) {
        let answer = self.post("/v1/workflows", workflow).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }

    /// Creates a run of a workflow and returns its id.
    pub(crate) async fn create(&self, workflow_id: &str) -> String {
        self.create_with(&json!({"workflowId": workflow_id})).await
    }

    pub(crate) async fn create_with(&self, body: &Value) -> String {
        let created = self.post("/v1/runs", body).await.expect(201);
        created["runId"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has ended, by polling as a client would.
    pub(crate) async fn end_of(&self, run_id: &str) -> Value {
        let mut last = -1;
        loop {
            let polled =
                self.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence={last}&timeout=20")).await;
            let polled = polled.expect(200);
            if let Some(event) = polled["events"].as_array().unwrap().last() {
                last = event["sequence"].as_i64().unwrap();
            }
            if polled["isComplete"] == true {
                return self.get(&format!("/v1/runs/{run_id}")).await.expect(200);
            }
        }
    }
}

/// The secret that suites use, and its value, which must never be exposed.
pub(crate) const CANARY: (&str, &str) =
    ("openwop-conformance-canary-secret", "a-canary-that-must-stay-secret");

/// Resolves that secret, and the key of other test hosts.
struct Canary;

impl Secrets for Canary {
    fn resolve(&self, _: &Tenant, id: &str) -> Result<SecretValue, SecretError> {
        let known = [CANARY, ("mcp-key", KEY)].into_iter().find(|(known, _)| *known == id);
        known.map(|(_, value)| SecretValue::new(value.to_owned())).ok_or(SecretError::Unknown)
    }

    fn known(&self) -> Vec<(Tenant, String)> {
        vec![(Tenant::new("a"), CANARY.0.to_owned())]
    }
}

/// Only the mock model.
fn mock_models(secrets: Arc<dyn Secrets>) -> ModelOptions {
    ModelOptions {
        providers: BTreeMap::new(),
        default: None,
        library: ai::prompt::library::Library::new("host"),
        secrets,
        outbound: outbound::Client::new(outbound::Reach::Public),
        kinds: ai::envelope::Kinds::only([]),
        mock: true,
    }
}

/// Guided sessions, with one workflow besides the bundled ones.
fn tenants(folder: &Path) -> Tenants {
    let flows = folder.join("flows");
    std::fs::create_dir(&flows).unwrap();
    let two_steps = json!({
        "id": "team.two_steps", "name": "Two steps", "description": "A workflow of two steps.", "version": "1.0.0",
        "steps": [
            {"id": "one", "title": "The first", "prompt": "Do the first thing."},
            {"id": "two", "title": "The second", "prompt": "Do the second thing."},
        ],
    });
    std::fs::write(flows.join("two_steps.json"), two_steps.to_string()).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions {
        configured_dirs: vec![flows],
        sources_file: Some(folder.join("sources.toml")),
        ..CatalogueOptions::default()
    });
    let disk = Arc::new(RealDisk::open(&folder.join("data")).unwrap());
    ports::wait(Tenants::open(TenantsOptions {
        stores: Arc::new(FileTenants::new(disk)),
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
    }))
    .unwrap()
}

async fn put_keys(runs: &Runs) {
    let all = Scope::ALL.to_vec();
    let cases = [
        (KEY, "full", "a", all.clone(), None, None),
        (READER, "reader", "a", vec![Scope::RunsRead], None, None),
        (OTHER, "other", "b", all.clone(), None, None),
        (TESTER, "tester", "a", all.clone(), None, None),
        (REVOKED, "revoked", "a", all.clone(), Some(1), None),
        (EXPIRED, "expired", "a", all, None, Some(1)),
    ];
    for (text, id, tenant, scopes, revoked_at, expires_at) in cases {
        let key = ApiKey {
            id: id.to_owned(),
            tenant: Tenant::new(tenant),
            scopes,
            test: text == TESTER,
            created_at: 0,
            expires_at,
            revoked_at,
            session: None,
        };
        runs.keys().put(keys::hash(text), &key).await.unwrap();
    }
}

/// A workflow with sequential nodes.
pub(crate) fn workflow(id: &str, nodes: &[(&str, &str, Value)], variables: &Value) -> Value {
    let listed: Vec<Value> = nodes
        .iter()
        .map(|(node, type_id, config)| {
            json!({
                "id": node, "typeId": type_id, "name": node, "position": {"x": 0, "y": 0},
                "config": config, "inputs": {},
            })
        })
        .collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| json!({"id": format!("{}-{}", pair[0].0, pair[1].0), "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0}))
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": listed, "edges": edges,
        "triggers": [{"id": "t", "type": "manual"}], "variables": variables, "metadata": {}, "settings": {},
    })
}

/// A workflow with one node that does nothing.
pub(crate) fn noop() -> Value {
    workflow("noop", &[("only", "core.noop", json!({}))], &json!([]))
}

/// A workflow with one node that takes 30 seconds.
pub(crate) fn slow() -> Value {
    workflow("slow", &[("wait", "core.delay", json!({"delayMs": 30_000}))], &json!([]))
}

/// A workflow with one node that takes 200 milliseconds.
pub(crate) fn short() -> Value {
    workflow(
        "short",
        &[
            ("first", "core.noop", json!({})),
            ("wait", "core.delay", json!({"delayMs": 200})),
            ("last", "core.noop", json!({})),
        ],
        &json!([]),
    )
}

/// A workflow with one approval gate.
pub(crate) fn gate() -> Value {
    let config = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    workflow("gate", &[("gate", "core.approvalGate", config)], &json!([]))
}

/// The path of a file in the local copy of the protocol repository.
fn protocol(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/openwop").join(path)
}

/// A file of the protocol repository, if the local copy exists.
#[expect(clippy::print_stderr, reason = "a test that checked nothing must report it")]
pub(crate) fn protocol_file(path: &str) -> Option<Value> {
    let path = protocol(path);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
        Err(_) => {
            eprintln!("NOT CHECKED: there is no {}", path.display());
            None
        }
    }
}

/// All documents in a folder of the protocol repository, if the local copy exists.
#[expect(clippy::print_stderr, reason = "a test that checked nothing must report it")]
pub(crate) fn protocol_folder(path: &str) -> Option<Vec<Value>> {
    let path = protocol(path);
    let Ok(folder) = std::fs::read_dir(&path) else {
        eprintln!("NOT CHECKED: there is no {}", path.display());
        return None;
    };
    let files =
        folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("json".as_ref()));
    Some(files.map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect())
}
