//! Any bytes as the body, path, query and headers of a request, sent to the complete service over
//! a real database.
//!
//! The first byte chooses the operation, the second where the next bytes go; the rest is the body.
//!
//! * It never panics, and the host never fails: no status is 500 or more.
//! * A refusal is `{error, message, details?}` and nothing else.
//! * Existing data is unchanged afterwards.
#![no_main]

use std::sync::{Arc, OnceLock};

use flow::definition::Capabilities;
use flow::engine::Limits;
use catalogue::{Catalogue, CatalogueOptions};
use guided::{Tenants, WorkspaceRoots};
use runs::keys::{self, ApiKey};
use runs::rates::{RateLimiter, RateLimits};
use system::secrets::NoSecrets;
use runs::{AuditKey, Options as RunOptions, Runs, Scope};
use system::{ManualClock, SystemEntropy};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use server::http::{Fixtures, Guides, HttpState, Options, Settings, PackRegistries, answer_one};
use storage::disk::RealDisk;
use storage::sqlite::SqliteRuns;

const KEY: &str = "ilk_live_000000000000000000000001";

/// The requests. `{}` is replaced by fuzzed bytes.
const OPERATIONS: &[(&str, &str)] = &[
    ("POST", "/v1/runs"),
    ("POST", "/v1/workflows"),
    ("POST", "/v1/runs/RUN/interrupts/gate"),
    ("POST", "/v1/runs/RUN/approvals/gate"),
    ("POST", "/v1/runs/RUN:fork"),
    ("POST", "/v1/runs/RUN/annotations"),
    ("POST", "/v1/runs/RUN:pause"),
    ("POST", "/v1/runs/RUN:resume"),
    ("POST", "/v1/runs:bulk-cancel"),
    ("POST", "/v1/webhooks"),
    ("POST", "/v1/interrupts/{}"),
    ("GET", "/v1/interrupts/{}"),
    ("GET", "/v1/runs?{}"),
    ("GET", "/v1/runs/{}"),
    ("GET", "/v1/runs/RUN/events/poll?timeout=0&{}"),
    ("GET", "/v1/runs/RUN:diff?against={}"),
    ("GET", "/v1/audit/verify?{}"),
];

struct Site {
    runtime: tokio::runtime::Runtime,
    state: HttpState,
    run_id: String,
    _folder: tempfile::TempDir,
}

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).expect("a database");
        let runs = Runs::new(RunOptions {
            store: Arc::new(store),
            clock: Arc::new(ManualClock::at(1_793_000_000_000)),
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
            id: "fuzz".to_owned(),
            tenant: "a".to_owned(),
            scopes: Scope::ALL.to_vec(),
            test: false,
            created_at: 0,
            expires_at: None,
            revoked_at: None,
            session: None,
        };
        let disk = Arc::new(RealDisk::open(&folder.path().join("data")).expect("a disk"));
        let catalogue = Catalogue::new(CatalogueOptions::default());
        let tenants = Tenants::new(disk, catalogue, Arc::new(ManualClock::at(0)), Arc::new(SystemEntropy));
        let tenants = tenants.expect("the sessions of tenants");
        let state = HttpState::new(Options {
            runs: runs.clone(),
            settings: Settings::default(),
            clock: Arc::new(ManualClock::at(0)),
            entropy: Arc::new(SystemEntropy),
            fixtures: Fixtures::default(),
            rate_limiter: RateLimiter::new(RateLimits::default()),
            guides: Guides {
                tenants: Arc::new(tenants),
                workspace_roots: WorkspaceRoots::new(Vec::new()),
                allowed_origins: Vec::new(),
            },
            pack_registries: PackRegistries::in_memory().expect("registries in memory"),
            pages: None,
        });
        let gate = json!({
            "id": "gate", "name": "gate", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {"x": 0, "y": 0},
                "config": {"title": "?", "actions": ["accept"]}, "inputs": {}}],
        });
        let run_id = runtime.block_on(async {
            runs.keys().put(keys::hash(KEY), &key).await.expect("a key is kept");
            let (status, _) = ask(&state, "POST", "/v1/workflows", None, gate.to_string().into_bytes()).await;
            assert_eq!(status, 201);
            let body = br#"{"workflowId":"gate"}"#.to_vec();
            let (_, created) = ask(&state, "POST", "/v1/runs", None, body).await;
            created["runId"].as_str().expect("an id").to_owned()
        });
        Site { runtime, state, run_id, _folder: folder }
    })
}

async fn ask(state: &HttpState, method: &str, path: &str, once: Option<&[u8]>, body: Vec<u8>) -> (u16, Value) {
    let mut request = Request::builder()
        .method(method.parse::<Method>().expect("a method"))
        .uri(path)
        .header("authorization", format!("Bearer {KEY}"));
    if let Some(once) = once {
        request = request.header("idempotency-key", once);
    }
    // Bytes that are not an HTTP request never reach the service.
    let Ok(request) = request.body(axum::body::Body::from(body)) else { return (400, Value::Null) };
    let response = answer_one(state.clone(), request).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("the body is there").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, length, rest @ ..] = bytes else { return };
    let (method, path) = OPERATIONS[usize::from(*choice) % OPERATIONS.len()];
    let (name, body) = rest.split_at(usize::from(*length).min(rest.len()));
    let site = site();
    let escaped: String = name.iter().map(|byte| format!("%{byte:02X}")).collect();
    let plain = String::from_utf8_lossy(name);
    // Unescaped if it is valid in a URL, and escaped otherwise.
    let inserted = if plain.is_ascii() && plain.bytes().all(|byte| byte.is_ascii_graphic()) { &*plain } else { &escaped };
    let path = path.replace("RUN", &site.run_id).replace("{}", inserted);
    let once = (method == "POST" && !name.is_empty()).then_some(name);
    site.runtime.block_on(async {
        let (status, answer) = ask(&site.state, method, &path, once, body.to_vec()).await;
        assert!(status < 500, "{method} {path}: {status} {answer}");
        if status >= 400 && answer != Value::Null {
            let members = answer.as_object().expect("an envelope");
            assert!(members.keys().all(|name| ["error", "message", "details"].contains(&name.as_str())), "{answer}");
            assert!(answer["error"].is_string() && answer["message"].is_string(), "{answer}");
        }
        let run = format!("/v1/runs/{}", site.run_id);
        let (status, shown) = ask(&site.state, "GET", &run, None, Vec::new()).await;
        assert_eq!((status, &shown["runId"]), (200, &json!(site.run_id)));
    });
});
