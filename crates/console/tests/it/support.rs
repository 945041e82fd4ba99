//! A console on a temporary host, and a browser with cookies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, BodyDataStream, to_bytes};
use canon::time::Timestamp;
use catalogue::{Catalogue, CatalogueOptions};
use console::{Console, HostInfo, Options, SignInLinks};
use flow::definition::Capabilities;
use flow::engine::Limits;
use flow::id::{Principal, Tenant, WorkflowId};
use guided::{Tenants, TenantsOptions, Verifier};
use http::{HeaderMap, Request};
use plugins::Plugins;
use runs::create::Creation;
use runs::keys::{self, ApiKey};
use runs::{AuditKey, Caller, Direct, NewRun, Options as RunOptions, Runs, Scope};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::FileTenants;
use storage::sqlite::SqliteRuns;
use system::secrets::NoSecrets;
use system::{Clock as _, SystemClock, SystemEntropy};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// Keys: all scopes, read only, another tenant, and revoked.
pub(crate) const KEY: &str = "ilk_live_000000000000000000000001";
pub(crate) const READER: &str = "ilk_live_000000000000000000000002";
pub(crate) const OTHER: &str = "ilk_live_000000000000000000000003";
pub(crate) const REVOKED: &str = "ilk_live_000000000000000000000004";

pub(crate) struct Site {
    pub(crate) runs: Runs,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) guided: Arc<Tenants>,
    folder: TempDir,
    console: Console,
    links: SignInLinks,
}

impl Site {
    pub(crate) async fn open() -> Self {
        Self::at("http://127.0.0.1:7717").await
    }

    pub(crate) async fn at(public_url: &str) -> Self {
        Self::beside(public_url, None).await
    }

    /// With a separate plugin origin, if given.
    pub(crate) async fn beside(public_url: &str, plugins: Option<&str>) -> Self {
        let folder = TempDir::new().unwrap();
        let runs = Runs::new(RunOptions {
            store: Arc::new(SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap()),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            limits: Limits::default(),
            // A mock node creates the artifact.
            capabilities: Capabilities { mock_agent: true, ..Capabilities::OURS },
            token_secrets: vec![[7; 32]],
            public_url: public_url.to_owned(),
            audit_key: AuditKey::from_seed([9; 32]),
            secrets: Arc::new(NoSecrets),
            outbound: outbound::Client::new(outbound::Reach::Public),
            executors: None,
            guided_nodes: None,
            anchors: None,
            ended_runs: None,
        });
        let reader = vec![Scope::RunsRead, Scope::ArtifactsRead];
        put_key(&runs, KEY, "full", "default", Scope::ALL.to_vec(), None).await;
        put_key(&runs, READER, "reader", "default", reader, None).await;
        put_key(&runs, OTHER, "other", "other", Scope::ALL.to_vec(), None).await;
        put_key(&runs, REVOKED, "revoked", "default", Scope::ALL.to_vec(), Some(1)).await;
        let disk = Arc::new(RealDisk::open(folder.path()).unwrap());
        let flows = folder.path().join("flows");
        std::fs::create_dir(&flows).unwrap();
        let catalogue =
            Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
        let guided = wait(Tenants::open(tenants_options(disk, catalogue))).unwrap();
        let guided = Arc::new(guided);
        let plugins =
            Plugins::open(&folder.path().join("packs"), plugins.map(str::to_owned), public_url).unwrap();
        let plugins = Arc::new(plugins);
        let links = SignInLinks::default();
        let options = Options {
            runs: runs.clone(),
            guided: Arc::clone(&guided),
            cookie_secrets: vec![[3; 32]],
            data_dir: folder.path().to_owned(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            sign_in_links: links.clone(),
        };
        let facts = HostInfo { plugins: Some(Arc::clone(&plugins)), ..HostInfo::default() };
        Self { runs, folder, console: Console::with_host(options, facts), plugins, guided, links }
    }

    /// Adds a guided workflow.
    pub(crate) fn flow(&self, name: &str, workflow: &Value) {
        std::fs::write(self.folder.path().join("flows").join(name), workflow.to_string()).unwrap();
    }

    /// The console after a restart, on the same data directory.
    pub(crate) fn again(&self) -> Console {
        let disk = Arc::new(RealDisk::open(self.folder.path()).unwrap());
        let catalogue = Catalogue::new(CatalogueOptions::default());
        let guided = wait(Tenants::open(tenants_options(disk, catalogue))).unwrap();
        Console::new(Options {
            runs: self.runs.clone(),
            guided: Arc::new(guided),
            cookie_secrets: vec![[3; 32]],
            data_dir: self.folder.path().to_owned(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            sign_in_links: SignInLinks::default(),
        })
    }

    pub(crate) fn packs(&self) -> std::path::PathBuf {
        self.folder.path().join("packs")
    }

    pub(crate) fn link(&self, key: &str, path: &str) -> String {
        let now = Timestamp(SystemClock.now_ms());
        self.links.issue(keys::hash(key), path, now, &SystemEntropy).unwrap()
    }

    /// A browser that is not signed in.
    pub(crate) fn visitor(&self) -> Browser {
        Browser { console: self.console.clone(), cookies: Mutex::default() }
    }

    /// A signed-in browser.
    pub(crate) async fn signed_in(&self, key: &str) -> Browser {
        let browser = self.visitor();
        let answer = browser.sign_in(key, "/").await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        browser
    }

    /// Registers the workflow, creates a run and returns its id.
    pub(crate) async fn run(&self, workflow: &Value, inputs: Value) -> String {
        let caller = Caller {
            tenant: Tenant::new("default"),
            principal: Principal::new("test"),
            scopes: Scope::ALL.to_vec(),
            test: false,
        };
        self.runs.definitions().register(&caller, workflow).await.unwrap();
        let inputs = inputs.as_object().unwrap().clone();
        let new = NewRun { inputs, ..NewRun::of(WorkflowId::new(workflow["id"].as_str().unwrap())) };
        let created = self.runs.commands().create(&caller, new, Creation::default(), Direct).await.unwrap();
        created.run_id.as_str().to_owned()
    }

    /// Writes a file below `console/`.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join("console").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

/// Registers a key, optionally as revoked.
pub(crate) async fn put_key(
    runs: &Runs,
    text: &str,
    id: &str,
    tenant: &str,
    scopes: Vec<Scope>,
    revoked_at: Option<u64>,
) {
    let key = ApiKey {
        id: id.to_owned(),
        tenant: Tenant::new(tenant),
        scopes,
        test: false,
        created_at: 0,
        expires_at: None,
        revoked_at,
        session: None,
    };
    runs.keys().put(keys::hash(text), &key).await.unwrap();
}

/// A workflow with a chain of nodes.
pub(crate) fn workflow(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let listed: Vec<Value> = nodes
        .iter()
        .map(|(node, type_id, config)| {
            json!({
                "id": node, "typeId": type_id, "name": node, "position": {"x": 0, "y": 0}, "config": config,
                "inputs": {},
            })
        })
        .collect();
    let edges: Vec<Value> = nodes
        .windows(2)
        .map(|pair| {
            let id = format!("{}-{}", pair[0].0, pair[1].0);
            json!({"id": id, "sourceNodeId": pair[0].0, "targetNodeId": pair[1].0})
        })
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": listed, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": [{"name": "text", "type": "string", "defaultValue": "hello"}],
        "metadata": {"tags": []}, "settings": {},
    })
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The first value of a form field.
    pub(crate) fn field(&self, name: &str) -> &str {
        let marker = format!("name=\"{name}\" value=\"");
        let at = self.text.find(&marker).unwrap_or_else(|| panic!("no field {name} in {}", self.text));
        self.text[at + marker.len()..].split('"').next().unwrap()
    }

    #[track_caller]
    pub(crate) fn shows(&self, wanted: &[&str]) {
        for piece in wanted {
            assert!(self.text.contains(piece), "{piece} is not in {}", self.text);
        }
    }

    #[track_caller]
    pub(crate) fn hides(&self, unwanted: &[&str]) {
        for piece in unwanted {
            assert!(!self.text.contains(piece), "{piece} is in {}", self.text);
        }
    }
}

/// The address of a page, which tests may name by its path within the console.
pub(crate) fn address(page: &str) -> String {
    if page.starts_with(console::BASE) { page.to_owned() } else { format!("{}{page}", console::BASE) }
}

/// Keeps cookies and does not follow redirects.
pub(crate) struct Browser {
    console: Console,
    cookies: Mutex<BTreeMap<String, String>>,
}

impl Browser {
    /// Another browser with the same cookies.
    pub(crate) fn copy(&self) -> Self {
        self.at(&self.console)
    }

    /// The same browser at another console.
    pub(crate) fn at(&self, console: &Console) -> Self {
        Self { console: console.clone(), cookies: Mutex::new(self.cookies.lock().unwrap().clone()) }
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(Request::get(address(path)).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request =
            Request::post(address(path)).header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// Submits a form of a page with its CSRF token.
    pub(crate) async fn submit(&self, page: &Page, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = page.field("csrf").to_owned();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }

    pub(crate) async fn sign_in(&self, key: &str, to: &str) -> Page {
        let page = self.get("/sign-in").await;
        self.submit(&page, "/sign-in", &[("key", key), ("to", to)]).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Page {
        let (parts, body) = self.ask(request).await.into_parts();
        for set in parts.headers.get_all("set-cookie") {
            let (name, value) = set.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.lock().unwrap().insert(name.to_owned(), value.to_owned());
        }
        let text = String::from_utf8(to_bytes(body, 1 << 24).await.unwrap().to_vec()).unwrap();
        Page { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// The stream of a live page.
    pub(crate) async fn follow(&self, path: &str, last: Option<&str>) -> BodyDataStream {
        let mut request = Request::get(address(path)).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        response.into_body().into_data_stream()
    }

    async fn ask(&self, mut request: Request<Body>) -> axum::response::Response {
        let cookies = self.cookies.lock().unwrap().clone();
        if !cookies.is_empty() {
            let text: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request.headers_mut().insert("cookie", text.join("; ").parse().unwrap());
        }
        self.console.router().oneshot(request).await.unwrap()
    }
}

fn tenants_options(disk: Arc<RealDisk>, catalogue: Catalogue) -> TenantsOptions {
    TenantsOptions {
        stores: Arc::new(FileTenants::new(disk)),
        catalogue,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        verifier: Verifier::none(),
    }
}

/// Runs a future to its end on a thread without a runtime, where the store works inline. On a thread of a runtime, `ports::wait`
/// never returns once the task has used its budget.
pub(crate) fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| ports::wait(future)).join().unwrap())
}
