//! Pages about sessions, workflows, workspaces and the host, rendered from a real data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::guided::api::{ContinueRequest, Handle, Intent, PreferenceDelta, Reply, StartRequest};
use ::guided::{Guided, Tenants, TenantsOptions, Verifier};
use catalogue::{Catalogue, CatalogueOptions};
use runs::create::Creation;
use runs::{ApiKey, AuditKey, Caller, Direct, NewRun, Runs, Scope, keys};
use system::secrets::NoSecrets;
use system::{Clock as _, SystemClock, SystemEntropy};

use axum::body::{Body, to_bytes};
use canon::time::Timestamp;
use flow::definition::Capabilities;
use flow::engine::Limits;
use flow::id::{Principal, Tenant, WorkflowId};
use guide::record::{Autonomy, RiskPolicy};
use http::Request;
use http::header::COOKIE;
use serde_json::{Map, Value, json};
use storage::disk::RealDisk;
use storage::files::FileTenants;
use storage::sqlite::SqliteRuns;
use tempfile::TempDir;
use tower::ServiceExt as _;
use workspace::apply::{Applier, ApplyRequest, LeaseScope};
use workspace::library::Library;
use workspace::plan::ValidPlan;

use crate::mount::BASE;
use crate::setting::{Desired, Setting, SettingValue};
use crate::sign_in::Sessions;
use crate::sign_in::ended::EndedSessions;
use crate::{Console, HostInfo, Options, SignInLinks};

const SECRET: [u8; 32] = [3; 32];

/// A host on a temporary directory.
struct TestHost {
    folder: TempDir,
    console: Console,
    runs: Runs,
    guided: Arc<Tenants>,
}

/// A signed-in user, by cookie.
struct SignedIn(String);

impl TestHost {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let flows = folder.path().join("flows");
        std::fs::create_dir(&flows).unwrap();
        let disk = Arc::new(RealDisk::open(&data).unwrap());
        let catalogue =
            Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
        let guided = wait(Tenants::open(tenants_options(disk, catalogue))).unwrap();
        let guided = Arc::new(guided);
        let runs = Runs::new(runs::Options {
            store: Arc::new(SqliteRuns::open(&data.join("runs.sqlite3")).unwrap()),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            limits: Limits::default(),
            capabilities: Capabilities::OURS,
            token_secrets: vec![[7; 32]],
            public_url: "http://127.0.0.1:7717".into(),
            audit_key: AuditKey::from_seed([9; 32]),
            secrets: Arc::new(NoSecrets),
            outbound: outbound::Client::new(outbound::Reach::Public),
            executors: None,
            guided_nodes: None,
            anchors: None,
            ended_runs: None,
        });
        let console = Console::with_host(
            Options {
                runs: runs.clone(),
                guided: Arc::clone(&guided),
                cookie_secrets: vec![SECRET],
                data_dir: data,
                clock: Arc::new(SystemClock),
                entropy: Arc::new(SystemEntropy),
                sign_in_links: SignInLinks::default(),
            },
            facts(),
        );
        Self { folder, console, runs, guided }
    }

    fn flow(&self, name: &str, workflow: &Value) {
        std::fs::write(self.folder.path().join("flows").join(name), workflow.to_string()).unwrap();
    }

    async fn visitor(&self, id: &str, tenant: &str, scopes: &[Scope]) -> SignedIn {
        let hash = keys::hash(&format!("key of {id} in {tenant}"));
        let key = ApiKey {
            id: id.to_owned(),
            tenant: Tenant::new(tenant),
            scopes: scopes.to_vec(),
            test: false,
            created_at: SystemClock.now_ms(),
            expires_at: None,
            revoked_at: None,
            session: None,
        };
        self.runs.keys().put(hash, &key).await.unwrap();
        let sessions =
            Sessions::new(vec![SECRET], false, Arc::new(SystemEntropy), EndedSessions::in_memory());
        let cookie = sessions.begin(hash, Timestamp(SystemClock.now_ms())).unwrap();
        SignedIn(cookie.to_str().unwrap().split(';').next().unwrap().to_owned())
    }

    async fn admin(&self) -> SignedIn {
        self.visitor("boss", "default", Scope::ALL).await
    }

    async fn get(&self, visitor: &SignedIn, path: &str) -> (u16, String) {
        let address = if path.starts_with(BASE) { path.to_owned() } else { format!("{BASE}{path}") };
        let request = Request::get(address).header(COOKIE, &visitor.0).body(Body::empty()).unwrap();
        let response = self.console.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let page = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(page.len() < 100_000, "{path} is {} bytes", page.len());
        assert_inert(path, &page);
        (status, page)
    }

    async fn page(&self, visitor: &SignedIn, path: &str) -> String {
        let (status, page) = self.get(visitor, path).await;
        assert_eq!(status, 200, "{path}: {page}");
        page
    }
}

fn facts() -> HostInfo {
    HostInfo { settings: Arc::new(settings), ..HostInfo::default() }
}

fn settings() -> Desired {
    let stated =
        |value: &str, origin: &str| SettingValue { value: vec![value.to_owned()], origin: origin.to_owned() };
    let setting = |name, applied: &str, desired: &str| Setting {
        name,
        applied: stated(applied, "default"),
        desired: Some(stated(desired, "config.toml line 2")),
    };
    Desired {
        settings: vec![
            setting("data_dir", "/srv/x", "/srv/x"),
            setting("server.public_url", "http://a", "http://b"),
        ],
        problem: None,
    }
}

/// Checks that a page contains only tags, attributes and addresses that the console itself writes.
fn assert_inert(path: &str, page: &str) {
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let (tag, attributes, after) = read_tag(&rest[start + 1..]);
        rest = after;
        let context = || format!("{path}: <{tag} {attributes:?}>");
        assert!(
            !matches!(tag.as_str(), "iframe" | "object" | "embed" | "base" | "style" | "template"),
            "{}",
            context()
        );
        for (name, value) in &attributes {
            assert!(
                !name.starts_with("on") && !matches!(name.as_str(), "style" | "srcdoc" | "formaction"),
                "{}",
                context()
            );
            if matches!(name.as_str(), "href" | "src" | "action" | "xlink:href") {
                let ours = ["/console", "?", "#"].iter().any(|start| value.starts_with(start));
                let elsewhere = tag == "a" && (value.starts_with("https://") || value.starts_with("http://"));
                assert!(ours || elsewhere, "{}", context());
            }
        }
        if matches!(tag.as_str(), "script" | "img") {
            let source = attributes.iter().find(|(name, _)| name == "src");
            assert!(
                source.is_some_and(|(_, source)| source.starts_with("/console/assets/")),
                "{}",
                context()
            );
        }
    }
}

/// Parses a tag as a browser would: its lower-case name, its attributes, and the rest of the text.
fn read_tag(text: &str) -> (String, Vec<(String, String)>, &str) {
    let is_end = |found: char| found == '>' || found == '/' || found.is_whitespace();
    let end = text.find(is_end).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|found: char| found == '/' || found.is_whitespace());
        if rest.is_empty() || rest.starts_with('>') {
            return (name.to_lowercase(), attributes, rest.strip_prefix('>').unwrap_or(rest));
        }
        let end = rest.find(|found: char| found == '=' || is_end(found)).unwrap_or(rest.len()).max(1);
        let (attribute, after) = rest.split_at(end);
        rest = after.trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|found| matches!(found, '"' | '\''));
            (value, rest) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => after.split_at(
                    after.find(|found: char| found == '>' || found.is_whitespace()).unwrap_or(after.len()),
                ),
            };
        }
        attributes.push((attribute.to_lowercase(), value.to_lowercase()));
    }
}

#[test]
fn assert_inert_rejects_active_content() {
    for attack in [
        "<script>x</script>",
        "<p onclick=x>",
        "<a title='a' href=\"javascript:x\">",
        "<img src=x>",
        "<svg/onload=x>",
        "<iframe>",
        "<a href=//example.org>",
    ] {
        assert!(std::panic::catch_unwind(|| assert_inert("here", attack)).is_err(), "{attack}");
    }
    assert_inert(
        "here",
        "<a title=\" onclick=x \" href=\"/console/a\">&lt;script&gt;</a><script src=\"/console/assets/x\"></script>",
    );
}

/// Content that an agent might write to attack the viewer.
const ATTACKS: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "</textarea></pre></title><iframe srcdoc='<script>alert(1)</script>'>",
    "[click](javascript:alert(1)) ![x](https://example.org/pixel)",
    "<style>*{display:none}</style><form action=/sign-out method=post>",
    "\u{202e}<a href=\"javascript:alert(1)\">\u{0}x</a>{{goal}}",
];

fn release(title: &str) -> Value {
    let step =
        |id: &str| json!({"id": id, "title": title, "prompt": format!("{title} Do {id} for {{{{goal}}}}.")});
    json!({"id": "project.release", "name": title, "description": title, "version": "1.0.0", "about": title,
        "steps": [step("collect"), step("draft"), step("publish")]})
}

fn proceed(guided: &Guided, reply: &Reply, notes: Option<&str>, artifacts: Vec<Value>) -> Reply {
    wait(guided.proceed(ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().expect("something is pending")),
        intent: Intent::Advance,
        notes_markdown: notes.map(str::to_owned),
        artifacts,
        context: None,
        preferences: None,
    }))
    .unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn rehydrated(guided: &Guided, reply: &Reply) -> Reply {
    wait(guided.proceed(ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().expect("something is pending")),
        intent: Intent::Rehydrate,
        notes_markdown: None,
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }))
    .unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// A session with a blocked attempt, a checkpoint and a fork, in a workspace with a branch; every
/// text in it is `text`.
fn branched(site: &TestHost, tenant: &str, text: &str) -> String {
    let workspace = site.folder.path().join("work");
    std::fs::create_dir_all(workspace.join(".git")).unwrap();
    let branch: String = text.chars().filter(|found| !found.is_whitespace() && !found.is_control()).collect();
    std::fs::write(workspace.join(".git/HEAD"), format!("ref: refs/heads/fix/{branch}\n")).unwrap();
    let guided = wait(site.guided.guided(tenant)).unwrap();
    let mut context = Map::new();
    context.insert("reviewer".into(), text.into());
    let first = wait(guided.start(StartRequest {
        workflow_id: "project.release".into(),
        goal: text.into(),
        workspace: Some(workspace),
        context,
        preferences: Some(PreferenceDelta {
            autonomy: Some(Autonomy::Guided),
            risk_policy: Some(RiskPolicy::Balanced),
        }),
        parent_session_id: None,
        child_handle: None,
        equipped_root: None,
    }))
    .unwrap_or_else(|refusal| panic!("{refusal}"));
    let blocked = proceed(&guided, &first, None, Vec::new());
    let artifact = json!({"kind": "notes", "text": text});
    let second = proceed(
        &guided,
        &blocked,
        Some(&format!("# {text}\n\nFound **14** changes. {text}")),
        vec![artifact],
    );
    wait(guided.checkpoint(second.checkpoint_token.as_deref().unwrap(), Some(text))).unwrap();
    proceed(&guided, &second, Some(text), Vec::new());
    let back = rehydrated(&guided, &second);
    proceed(&guided, &back, Some("a second approach"), Vec::new());
    first.run.session_id
}

/// The links to nodes on a page.
fn node_paths(page: &str) -> Vec<String> {
    let mut paths: Vec<String> = page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|href| href.contains("/nodes/"))
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[tokio::test]
async fn empty_pages_explain_what_to_do() {
    let site = TestHost::new();
    let admin = site.admin().await;
    for (path, what) in [
        ("/sessions", "interlock mcp"),
        ("/workflows", "interlock serve --workflows"),
        ("/workspaces", "interlock.guided"),
        ("/modules", "No modules installed"),
        ("/keys", "interlock key new"),
        ("/settings", "Restart the host"),
    ] {
        let page = site.page(&admin, path).await;
        assert!(page.contains(what), "{path} should say {what}: {page}");
    }
}

#[tokio::test]
async fn a_session_page_shows_graph_turns_and_nodes() {
    let site = TestHost::new();
    site.flow("release.json", &release("Release"));
    let id = branched(&site, "default", "Release 2.4");
    let admin = site.admin().await;
    let list = site.page(&admin, "/sessions").await;
    for shown in ["Release 2.4", "fix/Release2.4", &id, "project.release", "work"] {
        assert!(list.contains(shown), "{shown} in {list}");
    }
    let session = site.page(&admin, &format!("/sessions/{id}")).await;
    for shown in ["session-graph", "blocked", "checkpoint", "fork", "tip", "Turns 1 to 6 of 6", "unchanged"] {
        assert!(session.contains(shown) || shown == "unchanged", "{shown} in {session}");
    }
    let nodes = node_paths(&session);
    assert_eq!(nodes.len(), 6, "{nodes:?}");
    let mut node_pages = String::new();
    for node in nodes {
        node_pages += &site.page(&admin, &node).await;
    }
    for shown in [
        "Do collect for Release 2.4.",
        "<strong>14</strong>",
        "MISSING_REQUIRED_NOTES",
        "selected next step",
        "Artifact notes",
    ] {
        assert!(node_pages.contains(shown), "{shown}");
    }
    let pin = site.page(&admin, &format!("/sessions/{id}/workflow")).await;
    assert!(pin.contains("the version that this run is pinned to"), "{pin}");
    site.flow("release.json", &release("Another"));
    let pin = site.page(&admin, &format!("/sessions/{id}/workflow")).await;
    assert!(pin.contains("has drifted") && pin.contains("changed"), "{pin}");
    let session = site.page(&admin, &format!("/sessions/{id}")).await;
    assert!(session.contains("has changed since this run started"), "{session}");
}

#[tokio::test]
async fn content_of_agents_and_authors_is_inert() {
    let site = TestHost::new();
    let admin = site.admin().await;
    for attack in ATTACKS {
        // A title has one line and no control characters; text that the format rejects cannot
        // appear on a page.
        let title: String = attack.chars().filter(|found| !found.is_control()).collect();
        site.flow("release.json", &release(&title));
        let id = branched(&site, "default", attack);
        let mut paths = vec![
            "/sessions".to_owned(),
            format!("/sessions/{id}"),
            format!("/sessions/{id}/workflow"),
            "/workflows".to_owned(),
            "/workflows/guided/project.release".to_owned(),
            format!(
                "/modules?key={}",
                form_urlencoded::byte_serialize(attack.as_bytes()).collect::<String>()
            ),
        ];
        paths.extend(node_paths(&site.page(&admin, &format!("/sessions/{id}")).await));
        for path in paths {
            // `page` checks every page for injected content.
            site.page(&admin, &path).await;
        }
    }
}

#[tokio::test]
async fn session_pages_have_bounded_size() {
    let site = TestHost::new();
    let title = "<&\"".repeat(40);
    site.flow("release.json", &release(&title));
    let guided = wait(site.guided.guided("default")).unwrap();
    let request =
        StartRequest { workflow_id: "project.release".into(), goal: title, ..StartRequest::default() };
    let first = wait(guided.start(request)).unwrap_or_else(|refusal| panic!("{refusal}"));
    // Escaped text is up to five times longer.
    let notes = "<&\"".repeat(1300);
    let artifacts = || (0..8).map(|n| json!({"kind": notes, "text": notes, "n": n})).collect::<Vec<_>>();
    for _ in 0..guided::view::TURNS + 2 {
        let back = rehydrated(&guided, &first);
        proceed(&guided, &back, Some(&notes), artifacts());
    }
    let admin = site.admin().await;
    let path = format!("/sessions/{}", first.run.session_id);
    // `page` checks the size of every page.
    let last = site.page(&admin, &path).await;
    let begin = site.page(&admin, &format!("{path}?turns=0")).await;
    assert!(begin.contains("Later turns") && last.contains("Earlier turns"));
    for node in node_paths(&begin).iter().take(3) {
        site.page(&admin, node).await;
    }
    site.page(&admin, "/sessions").await;
}

#[tokio::test]
async fn a_damaged_session_shows_its_valid_part_and_a_warning() {
    let site = TestHost::new();
    site.flow("release.json", &release("Release"));
    let id = branched(&site, "default", "Release 2.4");
    let segment = segments(&site, &id).pop().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    // A second host on the same directory, without cached state.
    let site = TestHost { guided: reopened(site.folder.path()), ..site };
    let console = Console::with_host(
        Options {
            runs: site.runs.clone(),
            guided: Arc::clone(&site.guided),
            cookie_secrets: vec![SECRET],
            data_dir: site.folder.path().join("data"),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            sign_in_links: SignInLinks::default(),
        },
        facts(),
    );
    let site = TestHost { console, ..site };
    let admin = site.admin().await;
    assert!(site.page(&admin, "/sessions").await.contains("damaged"));
    let session = site.page(&admin, &format!("/sessions/{id}")).await;
    for shown in ["This session is damaged", "interlock session verify", "Turns 1 to 5 of 5"] {
        assert!(session.contains(shown), "{shown} in {session}");
    }
    let node = node_paths(&session).remove(0);
    assert!(site.page(&admin, &node).await.contains("This session is damaged"));
}

fn reopened(folder: &Path) -> Arc<Tenants> {
    let disk = Arc::new(RealDisk::open(&folder.join("data")).unwrap());
    let catalogue = Catalogue::new(CatalogueOptions {
        configured_dirs: vec![folder.join("flows")],
        ..CatalogueOptions::default()
    });
    Arc::new(wait(Tenants::open(tenants_options(disk, catalogue))).unwrap())
}

fn segments(site: &TestHost, id: &str) -> Vec<PathBuf> {
    let folder = site.folder.path().join("data/sessions").join(id).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

#[tokio::test]
async fn a_tenant_sees_only_its_own_data() {
    let site = TestHost::new();
    site.flow("release.json", &release("Release"));
    let id = branched(&site, "acme", "acme-only");
    let acme = site.visitor("key-of-acme", "acme", Scope::ALL).await;
    let other = site.visitor("key-of-other", "other", Scope::ALL).await;
    assert!(site.page(&acme, "/sessions").await.contains("acme-only"));
    let session = site.page(&acme, &format!("/sessions/{id}")).await;
    assert!(!site.page(&other, "/sessions").await.contains("acme-only"));
    let mut paths = vec![format!("/sessions/{id}"), format!("/sessions/{id}/workflow")];
    paths.extend(node_paths(&session));
    for path in paths {
        let (status, page) = site.get(&other, &path).await;
        assert_eq!(status, 404, "{path}");
        assert!(!page.contains("acme-only"), "{path}");
    }
    let keys = site.page(&other, "/keys").await;
    assert!(keys.contains("key-of-other") && !keys.contains("key-of-acme"), "{keys}");
}

#[tokio::test]
async fn a_read_only_key_sees_no_forms_that_would_fail() {
    let site = TestHost::new();
    site.flow("release.json", &release("Release"));
    let id = branched(&site, "default", "Release 2.4");
    site.admin().await;
    let reader = site.visitor("reader", "default", &[Scope::RunsRead, Scope::ManifestRead]).await;
    for path in ["/sessions", &format!("/sessions/{id}"), "/workflows", "/workspaces", "/modules"] {
        let page = site.page(&reader, path).await;
        assert_eq!(page.matches("method=\"post\"").count(), 1, "only the sign-out form: {path}");
        assert!(
            !page.contains("href=\"/console/keys\"") && !page.contains("href=\"/console/settings\""),
            "{path}"
        );
        let folder = site.folder.path().join("flows");
        assert!(!page.contains(folder.to_str().unwrap()), "file paths are for operators: {path}");
    }
    for path in ["/keys", "/settings"] {
        assert_eq!(site.get(&reader, path).await.0, 403, "{path}");
    }
    let admin = site.admin().await;
    assert!(site.page(&admin, "/keys").await.contains("Revoke"));
}

#[tokio::test]
async fn run_and_guided_workflows_are_listed_with_their_problems() {
    let site = TestHost::new();
    site.flow("a.json", &release("Release"));
    site.flow("b.json", &release("Shadowed"));
    std::fs::write(site.folder.path().join("flows/broken.json"), "{\"id\": \"project.broken\"}").unwrap();
    let admin = site.admin().await;
    let caller = boss();
    site.runs.definitions().register(&caller, &hello()).await.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let list = site.page(&admin, "/workflows").await;
    for shown in ["hello", "wr.change_review", "project.release", "shadows 1", "broken.json", "invalid"] {
        assert!(list.contains(shown), "{shown} in {list}");
    }
    let run = site.page(&admin, "/workflows/runs/hello").await;
    assert!(run.contains("core.noop") && run.contains("valid"), "{run}");
    let guided = site.page(&admin, "/workflows/guided/project.release").await;
    assert!(
        guided.contains("Shadowed") && guided.contains("b.json") && guided.contains("collect"),
        "{guided}"
    );
    let bundled = site.page(&admin, "/workflows/guided/wr.change_review").await;
    assert!(bundled.contains("Steps"), "{bundled}");
    assert_eq!(site.get(&admin, "/workflows/guided/none").await.0, 404);
    assert_eq!(site.get(&admin, "/workflows/runs/none").await.0, 404);
}

fn boss() -> Caller {
    Caller {
        tenant: Tenant::new("default"),
        principal: Principal::new("boss"),
        scopes: Scope::ALL.to_vec(),
        test: false,
    }
}

fn hello() -> Value {
    let node = json!({"id": "a", "typeId": "core.noop", "name": "A", "config": {}, "inputs": {}, "position": {"x": 0, "y": 0}});
    json!({"id": "hello", "name": "Hello", "version": "1", "nodes": [node], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {}})
}

#[tokio::test]
async fn a_workspace_is_visible_to_callers_who_may_see_its_run() {
    let site = TestHost::new();
    let admin = site.admin().await;
    site.runs.definitions().register(&boss(), &hello()).await.unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let new = NewRun::of(WorkflowId::new("hello"));
    let created = site.runs.commands().create(&boss(), new, Creation::default(), Direct).await.unwrap();
    let run = created.run_id.as_str();
    let root = site.folder.path().join("data/workspaces").join(run).join("review");
    apply(&root);
    std::fs::create_dir_all(site.folder.path().join("data/workspaces/run_that_is_unknown/review")).unwrap();
    let list = site.page(&admin, "/workspaces").await;
    assert!(list.contains(&run[..20]) && !list.contains("run_that_is_unknown"), "{list}");
    let path = format!("/workspaces/{run}/review");
    let page = site.page(&admin, &path).await;
    for shown in
        ["brief.md", "inputs:brief", "read-only", "a test", "clean", "No changes since the plan was applied"]
    {
        assert!(page.contains(shown), "{shown} in {page}");
    }
    let brief = root.join("inputs/notes/brief.md");
    std::fs::set_permissions(&brief, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&brief, "tampered").unwrap();
    let tampered = site.page(&admin, &path).await;
    assert!(tampered.contains("critical") && tampered.contains("inputs/notes/brief.md"), "{tampered}");
    let other = site.visitor("key-of-other", "other", Scope::ALL).await;
    assert_eq!(site.get(&other, &path).await.0, 404);
    assert!(!site.page(&other, "/workspaces").await.contains(&run[..20]));
}

/// Applies a plan with two literals to a root.
fn apply(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    let applier = Applier::new(root).unwrap();
    let literal = |key: &str, slot: &str, path: &str, mode: &str| {
        json!({"mountKey": key, "slot": slot, "relPath": path, "mode": mode,
            "source": {"kind": "static-literal", "pathWithinWorkspace": path, "bytes": "aGVsbG8="}})
    };
    let plan = json!({"applyId": "ab".repeat(32), "entries": [
        literal("inputs:brief", "/workspace/inputs", "notes/brief.md", "read-only"),
        literal("tmp:seed", "/workspace/tmp", ".keep", "read-write"),
    ]});
    let plan = ValidPlan::check(&plan, None, applier.folds_case().unwrap()).unwrap();
    let scope = LeaseScope::of(&plan, 0);
    let library = Arc::new(Library::open(root.parent().unwrap()).unwrap());
    let request = ApplyRequest::new(&plan, &scope, "a test");
    applier.apply(&request, &(library as _), SystemClock.now_ms(), &()).unwrap();
}

#[tokio::test]
async fn a_key_of_the_composition_is_explained() {
    let site = TestHost::new();
    let admin = site.admin().await;
    for (key, said) in [
        ("builtin-interlock-sessions:routes/list", "is shown"),
        ("builtin-interlock-sessions:routes/nothing", "it is not declared"),
        ("nonsense", "is not a canonical key"),
    ] {
        let page = site.page(&admin, &format!("/modules?key={key}")).await;
        assert!(page.contains(said), "{key}: {page}");
    }
}

#[tokio::test]
async fn settings_show_applied_and_configured_values() {
    let site = TestHost::new();
    let admin = site.admin().await;
    let page = site.page(&admin, "/settings").await;
    for shown in ["Pending changes: 1 setting.", "http://b", "unchanged"] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
}

#[tokio::test]
async fn unknown_pages_are_not_found() {
    let site = TestHost::new();
    let admin = site.admin().await;
    for path in [
        "/sessions/nonsense",
        "/sessions/sess_aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "/workspaces/run_1/none",
        "/workspaces/%2e%2e/x",
    ] {
        assert_eq!(site.get(&admin, path).await.0, 404, "{path}");
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
fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| ports::wait(future)).join().unwrap())
}
