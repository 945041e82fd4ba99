//! Plugins: modules, their origin, and their messages.

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use canon::time::Timestamp;
use console::plugin_frames;
use http::Request;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::integrity::Integrity;
use packs::name::NamespaceGlob;
use packs::path::EntryPath;
use packs::signature::{PrivateKey, SIGNATURE_PATH, TrustedKey};
use packs::trust::TrustPolicy;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::support::{Browser, KEY, OTHER, Page, READER, Site, workflow};

const ORIGIN: &str = "http://127.0.0.1:7718";
const PACK: &str = "vendor.acme.parts";
const OWNER: &str = "pack-vendor-acme-parts";

/// Installs a pack with one plugin for each surface.
fn install(site: &Site) {
    let plugin = |id: &str, surface: &str, api: &[&str]| json!({"pluginId": id, "surface": surface, "entry": "index.html", "hostApi": api});
    let manifest = json!({
        "name": PACK, "version": "1.0.0", "kind": "frontend-plugin", "engines": {"openwop": "^1.0.0"},
        "uiPlugins": [
            plugin("viewer", "artifact-viewer", &["artifact.read", "artifact.write"]),
            plugin("board", "route", &["host.navigate", "host.toast"]),
            plugin("panel", "settings-panel", &[]),
        ],
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let key = PrivateKey::from_entropy(&[5; 32]);
    let signature = key.sign(&manifest);
    let path = |text: &str| EntryPath::parse(text).unwrap();
    let files = BTreeMap::from([
        (path("pack.json"), (manifest.as_slice(), false)),
        (path("index.html"), (b"<!doctype html><p>plugin".as_slice(), false)),
        (path(SIGNATURE_PATH), (signature.as_slice(), false)),
    ]);
    let permitted = vec![NamespaceGlob::parse("vendor.acme.*").unwrap()];
    let trusted = TrustedKey { id: "acme".into(), key: key.public(), permitted };
    let archive = packs::archive::write(&files).unwrap();
    let install = Install {
        archive: &archive,
        expected: Some(Integrity::of(&archive)),
        policy: &TrustPolicy::verified(vec![trusted]),
        host: &HostFacts { ui_plugins: true, ..HostFacts::default() },
        limits: Limits::default(),
        now: Timestamp(0),
    };
    InstalledPacks::open(&site.packs()).unwrap().install(&install).unwrap();
}

/// A run with an artifact: its page, and its name for plugins.
async fn artifact(site: &Site, browser: &Browser) -> (String, String) {
    let made = json!({"artifactType": "note", "data": {"text": "as it was made"}});
    let made = workflow("conformance-artifact", &[("make", "conformance.artifact.emit", made)]);
    let run = site.run(&made, json!({})).await;
    // The node completes at once, so the run has ended when the creating request returns.
    let page = browser.get(&format!("/runs/{run}")).await;
    let at =
        page.text.find(&format!("/console/runs/{run}/artifact?")).unwrap_or_else(|| panic!("{}", page.text));
    let href = page.text[at..].split('"').next().unwrap().replace("&amp;", "&");
    let id = href.split("id=").nth(1).unwrap().to_owned();
    (href, format!("{run}/{id}"))
}

async fn call(browser: &Browser, page: &Page, plugin: &str, artifact: &str, message: &Value) -> Page {
    let message = message.to_string();
    let fields = [("pack", PACK), ("plugin", plugin), ("artifact", artifact), ("message", message.as_str())];
    browser.submit(page, "/plugins/rpc", &fields).await
}

fn asked(method: &str, params: Value) -> Value {
    let mut message = json!({"openwop": "ui-plugin/1", "type": "request", "id": 1, "method": method});
    message["params"] = params;
    message
}

fn answer(page: &Page) -> Value {
    assert_eq!((page.status, page.header("content-type")), (200, "application/json"), "{}", page.text);
    serde_json::from_str(&page.text).unwrap()
}

#[tokio::test]
async fn plugins_are_placed_by_composition_and_policy() {
    let site = Site::beside("http://127.0.0.1:7717", Some(ORIGIN)).await;
    let browser = site.signed_in(KEY).await;
    install(&site);
    let (href, name) = artifact(&site, &browser).await;
    let page = browser.get(&href).await;
    let frame = format!("<iframe sandbox=\"allow-scripts\" src=\"{ORIGIN}/{PACK}/1.0.0/index.html\"");
    page.shows(&[&frame, &format!("data-artifact=\"{name}\"")]);
    page.hides(&["allow-same-origin"]);
    let policy = page.header("content-security-policy");
    assert!(
        policy.ends_with(&format!("; frame-src {ORIGIN}")) && policy.contains("script-src 'self';"),
        "{policy}"
    );
    let board = browser.get(&format!("/plugins/{OWNER}/board")).await;
    board.shows(&[&frame, "Plugins", ">Board</a>"]);
    browser.get("/settings").await.shows(&[&frame, "Panel"]);
    browser.get("/diagnostics").await.hides(&["WCP_RENDER_HANDLE_MISSING"]);
    let policy = json!({"policySchemaVersion": "0.1", "operations": [
        {"id": "h", "kind": "hide", "target": format!("{OWNER}:integration-surfaces/viewer")},
        {"id": "a", "kind": "pathAlias", "target": format!("{OWNER}:routes/board"), "path": "/board"},
    ]});
    site.write("policy.json", &policy.to_string());
    browser.get(&href).await.hides(&["<iframe"]);
    browser.get("/board").await.shows(&[&frame]);
}

#[tokio::test]
async fn unavailable_plugins_show_fallbacks() {
    let without = Site::open().await;
    install(&without);
    let browser = without.signed_in(KEY).await;
    browser.get("/modules").await.shows(&[OWNER, "needsConfiguration", "plugins.listen"]);
    let (href, _) = artifact(&without, &browser).await;
    let page = browser.get(&href).await;
    page.hides(&["<iframe"]);
    assert!(!page.header("content-security-policy").contains("frame-src"));
    browser.get(&format!("/plugins/{OWNER}/board")).await.shows(&["Not available", "needsConfiguration"]);
    let refused = call(&browser, &page, "viewer", "", &asked("artifact.read", json!({}))).await;
    assert_eq!(refused.status, 404);

    let site = Site::beside("http://127.0.0.1:7717", Some(ORIGIN)).await;
    install(&site);
    let browser = site.signed_in(KEY).await;
    // Finding H5: operators must see this before they allow a plugin.
    browser.get("/modules").await.shows(&[
        OWNER,
        "ready",
        "send the data that they read to any address through WebRTC",
    ]);
    site.signed_in(READER).await.get("/modules").await.shows(&[OWNER, "readOnly"]);
    std::fs::write(site.packs().join(PACK).join("1.0.0/index.html"), "<p>changed").unwrap();
    let page = browser.get("/modules").await;
    page.shows(&[OWNER, "have changed since the install"]);
    browser.get(&format!("/plugins/{OWNER}/board")).await.hides(&["<iframe"]);
    let refused = call(&browser, &page, "board", "", &asked("host.toast", json!({"message": "x"}))).await;
    assert_eq!(refused.status, 404, "unverified plugins get no responses");
}

#[tokio::test]
async fn plugin_messages_use_the_viewers_rights() {
    let site = Site::beside("http://127.0.0.1:7717", Some(ORIGIN)).await;
    install(&site);
    let browser = site.signed_in(KEY).await;
    let (href, name) = artifact(&site, &browser).await;
    let page = browser.get(&href).await;
    let read = asked("artifact.read", json!({"artifactId": name}));
    let held = answer(&call(&browser, &page, "viewer", &name, &read).await)["response"]["result"].clone();
    assert_eq!(held["payload"], json!({"text": "as it was made"}));
    let code = |page: &Page| answer(page)["response"]["error"]["code"].as_str().unwrap_or("done").to_owned();
    // A viewer has its artifact; on a page without one, it has none.
    assert_eq!(code(&call(&browser, &page, "viewer", "", &read).await), "artifact_not_found");
    assert_eq!(code(&call(&browser, &page, "board", &name, &read).await), "method_not_allowed");
    let other = site.signed_in(OTHER).await;
    let their_page = other.get("/runs").await;
    assert_eq!(code(&call(&other, &their_page, "viewer", &name, &read).await), "artifact_not_found");
    let write = |version: &Value| {
        asked("artifact.write", json!({"artifactId": name, "version": version, "payload": {"text": "new"}}))
    };
    let reader = site.signed_in(READER).await;
    let reading = reader.get("/runs").await;
    assert_eq!(
        code(&call(&reader, &reading, "viewer", &name, &write(&held["version"])).await),
        "unauthorized"
    );
    assert_eq!(
        code(&call(&browser, &page, "viewer", &name, &write(&json!("stale"))).await),
        "artifact_conflict"
    );
    assert_eq!(code(&call(&browser, &page, "viewer", &name, &write(&held["version"])).await), "done");
    assert_eq!(
        code(&call(&browser, &page, "viewer", &name, &write(&held["version"])).await),
        "artifact_conflict"
    );
    let navigated =
        answer(&call(&browser, &page, "board", "", &asked("host.navigate", json!({"path": "/runs"}))).await);
    assert_eq!(navigated["effect"], json!({"navigate": "/console/runs"}));
    // Not without the CSRF token, not for invalid messages, and not for messages over the limit.
    let message = read.to_string();
    let fields = [("pack", PACK), ("plugin", "viewer"), ("artifact", &name), ("message", &message)];
    assert_eq!(browser.post("/plugins/rpc", &fields).await.status, 403);
    assert_eq!(site.visitor().post("/plugins/rpc", &fields).await.status, 303);
    for message in
        [json!({"openwop": "ui-plugin/2"}), json!({"openwop": "ui-plugin/1", "apiKey": "x"}), json!("x")]
    {
        assert_eq!(call(&browser, &page, "viewer", &name, &message).await.status, 400);
    }
    let huge = asked("artifact.read", json!({"artifactId": name, "x": "y".repeat(300 << 10)}));
    assert_eq!(call(&browser, &page, "viewer", &name, &huge).await.status, 413);
}

#[tokio::test]
async fn the_plugin_origin_serves_only_plugin_documents() {
    let site = Site::beside("https://host.example", Some("https://plugins.example")).await;
    install(&site);
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("cookie", "a=b");
        let response =
            plugin_frames(site.plugins.clone()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
        Page { status: parts.status.as_u16(), headers: parts.headers, text }
    };
    let document = ask("GET", &format!("/{PACK}/1.0.0/index.html?secret=1")).await;
    assert_eq!((document.status, document.text.as_str()), (200, "<!doctype html><p>plugin"));
    let policy = document.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none';") && policy.ends_with("frame-ancestors https://host.example"),
        "{policy}"
    );
    assert_eq!(document.header("x-content-type-options"), "nosniff");
    assert_eq!((document.header("set-cookie"), document.header("x-frame-options")), ("", ""));
    for path in [
        "/",
        "/runs",
        "/sign-in",
        "/assets/x",
        &format!("/{PACK}/1.0.0/pack.json"),
        &format!("/{PACK}/1.0.1/index.html"),
    ] {
        let page = ask("GET", path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.header("content-security-policy").contains("default-src 'none'"), "{path}");
    }
    assert_eq!(ask("POST", &format!("/{PACK}/1.0.0/index.html")).await.status, 405);
}
