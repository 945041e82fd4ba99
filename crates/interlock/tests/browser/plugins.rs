//! Plugins in a real browser: a well-behaved one edits, a hostile one is contained.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Chromium;
use crate::packed::install;
use crate::program::root;
use crate::server::{KEY, Server, sign_in};

/// A data directory whose host has a plugin origin.
fn data() -> TempDir {
    let data = TempDir::new().unwrap();
    std::fs::write(data.path().join("config.toml"), "[plugins]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    data
}

/// Creates a run with an artifact. Returns the path of the artifact's page and its API path.
async fn artifact(server: &Server, browser: &Chromium) -> (String, String) {
    let workflow = json!({
        "id": "conformance-artifact", "name": "artifact", "version": "1", "edges": [], "variables": [], "metadata": {},
        "nodes": [{
            "id": "make", "typeId": "conformance.artifact.emit", "name": "make", "position": {"x": 0, "y": 0}, "inputs": {},
            "config": {"artifactType": "note", "data": {"text": "as it was made"}},
        }],
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}], "settings": {"timeout": 0},
    });
    server.ask("POST", "/v1/workflows", Some(workflow)).await;
    let run = server.create("conformance-artifact", json!({})).await;
    sign_in(browser, &format!("{}/console/runs/{run}", server.url), KEY).await;
    let link = browser.see("a[href*='/artifact?']").await;
    let page = link.attr("href").await.unwrap().unwrap();
    let id = page.split("id=").nth(1).unwrap().to_owned();
    (page, format!("/v1/runs/{run}/artifacts/{id}"))
}

async fn enter(browser: &Chromium) {
    browser.see(".plugin iframe").await.enter_frame().await.unwrap();
}

async fn leave(browser: &Chromium) {
    browser.client.enter_parent_frame().await.unwrap();
}

/// Waits for the editor's exact message. Its script contains the same words, so the page text is
/// not sufficient.
async fn says(browser: &Chromium, text: &str) {
    let xpath = format!("//*[@id='state' and . = {text:?}]");
    if let Err(error) = browser.client.wait().for_element(fantoccini::Locator::XPath(&xpath)).await {
        panic!("the editor does not say {text:?} ({error}) on:\n{}", browser.text().await);
    }
}

async fn value(browser: &Chromium, script: &str) -> Value {
    browser.client.execute(script, vec![]).await.unwrap()
}

/// Writes the artifact from the page, as another client would.
const WRITTEN_ELSEWHERE: &str = r#"
    const [text, done] = arguments;
    const { dataset } = document.querySelector(".plugin");
    const ask = async (id, method, params) => {
        const message = JSON.stringify({ openwop: "ui-plugin/1", type: "request", id, method, params: { artifactId: dataset.artifact, ...params } });
        const form = new URLSearchParams({ pack: dataset.pack, plugin: dataset.plugin, artifact: dataset.artifact, message });
        form.set(dataset.csrfField, dataset.csrf);
        return (await (await fetch(dataset.rpc, { method: "POST", body: form })).json()).response;
    };
    (async () => {
        const { result } = await ask(1, "artifact.read", {});
        done(await ask(2, "artifact.write", { version: result.version, payload: { text } }));
    })();
"#;

#[tokio::test]
async fn a_plugin_edits_an_artifact_and_handles_a_conflict() {
    let Some(browser) = Chromium::start().await else { return };
    let data = data();
    let folder = root().join("examples/plugins/artifact-editor");
    let file = |name: &str| std::fs::read(folder.join(name)).unwrap();
    install(data.path(), &[("pack.json", &file("pack.json")), ("editor.html", &file("editor.html"))]);
    let server = Server::on(data);
    let (page, address) = artifact(&server, &browser).await;
    let kept = async || server.ask("GET", &address, None).await["data"]["text"].clone();
    browser.goto(&format!("{}{page}", server.url)).await;
    enter(&browser).await;
    browser.see("#text:not([disabled])").await;
    assert_eq!(value(&browser, "return document.getElementById('text').value").await, "as it was made");
    browser.fill("#text", "better").await;
    browser.click("#save").await;
    says(&browser, "Saved.").await;
    assert_eq!(kept().await, "better");
    leave(&browser).await;
    browser.see_text("artifact-editor: Saved.").await;
    browser.picture("plugin").await;
    let written =
        browser.client.execute_async(WRITTEN_ELSEWHERE, vec![json!("by another client")]).await.unwrap();
    assert_eq!(written["ok"], true, "{written}");
    enter(&browser).await;
    browser.fill("#text", "mine").await;
    browser.click("#save").await;
    says(&browser, "Not saved: a conflict.").await;
    assert_eq!(kept().await, "by another client", "nothing was written");
    assert_eq!(
        value(&browser, "return document.getElementById('theirs').textContent").await,
        "by another client"
    );
    assert_eq!(
        value(&browser, "return document.getElementById('text').value").await,
        "mine",
        "the user's text is kept"
    );
    leave(&browser).await;
    browser.picture("plugin-conflict").await;
    enter(&browser).await;
    browser.click("#take").await;
    browser.fill("#text", "both").await;
    browser.click("#save").await;
    says(&browser, "Saved.").await;
    assert_eq!(kept().await, "both");
}

/// Listens and records the requested paths.
fn spy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let noted = Arc::clone(&noted);
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut asked = [0; 256];
                let count = stream.read(&mut asked).unwrap_or_default();
                noted.lock().unwrap().push(String::from_utf8_lossy(&asked[..count]).into_owned());
                let _ = stream
                    .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            });
        }
    });
    (url, seen)
}

#[tokio::test]
async fn a_hostile_plugin_reaches_neither_network_parent_storage_nor_undeclared_methods() {
    let Some(browser) = Chromium::start().await else { return };
    let data = data();
    let (spy, seen) = spy();
    let hostile = include_str!("hostile.html").replace("SPY", &spy);
    let manifest = json!({
        "name": "vendor.acme.hostile", "version": "1.0.0", "kind": "frontend-plugin", "engines": {"openwop": "^1.0.0"},
        "uiPlugins": [{"pluginId": "hostile", "surface": "artifact-viewer", "entry": "hostile.html", "hostApi": ["artifact.read"]}],
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    install(data.path(), &[("pack.json", &manifest), ("hostile.html", hostile.as_bytes())]);
    let server = Server::on(data);
    let (page, address) = artifact(&server, &browser).await;
    let before = server.ask("GET", &address, None).await;
    let here = format!("{}{page}", server.url);
    browser.goto(&here).await;
    enter(&browser).await;
    let wait = browser.client.wait().at_most(std::time::Duration::from_secs(90));
    wait.for_element(fantoccini::Locator::Css("#done")).await.expect("every attempt comes to its end");
    let results = value(&browser, "return document.getElementById('result').textContent").await;
    let results: Value = serde_json::from_str(results.as_str().unwrap()).unwrap();
    let codes = [
        ("read", "done"),
        ("write", "method_not_allowed"),
        ("toast", "method_not_allowed"),
        ("navigate", "method_not_allowed"),
        ("exec", "method_not_allowed"),
        ("other", "artifact_not_found"),
        ("with_key", "nothing"),
        ("huge", "internal"),
    ];
    for (name, outcome) in results.as_object().unwrap() {
        match codes.iter().find(|(known, _)| known == name) {
            Some((_, wanted)) => assert_eq!(outcome, wanted, "{name}: {results}"),
            None => assert!(matches!(outcome.as_str(), Some("refused" | "nothing")), "{name}: {results}"),
        }
    }
    assert!(results.as_object().unwrap().len() >= 30, "{results}");
    leave(&browser).await;
    assert_eq!(browser.client.current_url().await.unwrap().as_str(), here, "the page did not navigate");
    assert!(!browser.text().await.contains("signed out"));
    assert_eq!(server.ask("GET", &address, None).await, before);

    // Navigating its own frame: the page allows only plugin documents in frames.
    let listening = "window.violated = new Promise((done) => document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective)))";
    browser.client.execute(listening, vec![]).await.unwrap();
    enter(&browser).await;
    browser.click("#go").await;
    leave(&browser).await;
    let violated = browser.client.execute_async("window.violated.then(arguments[0])", vec![]).await.unwrap();
    assert_eq!(violated, "frame-src");

    // A plugin that floods is stopped, and the page keeps working.
    browser.goto(&here).await;
    enter(&browser).await;
    browser.click("#flood").await;
    leave(&browser).await;
    browser.see_text("The plugin was stopped").await;
    browser.click("div.side a[href='/console/runs']").await;
    browser.see_text("conformance-artifact").await;

    reqwest::get(format!("{spy}/control")).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 1, "only the request of the test arrived: {seen:?}");
    assert!(seen[0].starts_with("GET /control"), "{seen:?}");
}
