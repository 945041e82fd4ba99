//! Screenshots of every page, light and dark, wide and narrow, and checks of the layout.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Chromium;
use crate::program::root;
use crate::server::{KEY, Server, sign_in};

const MODULE: &str = r##"{
    "instanceId": "desk", "packageId": "@example/desk", "packageVersion": "1.0.0", "moduleApiVersion": "0.1",
    "contributions": {
        "routes": [{"id": "home", "path": "/desk", "activeWhen": ["ready", "readOnly"], "label": "Release desk",
            "renderHandle": {"renderHandleVersion": "0.1", "kind": "page", "id": "interlock.text", "data": {"text": "# Welcome\n\nWhat goes out this week."}}}],
        "sidebarItems": [{"id": "home", "activeWhen": ["ready", "readOnly"], "label": "Desk", "section": "Teams", "routeKey": "desk:routes/home"}]
    }
}"##;

/// A chain of many nodes that waits at the last one.
fn large() -> Value {
    let node = |place: usize| {
        let kind = if place == 399 { "core.approvalGate" } else { "core.noop" };
        json!({"id": format!("step-{place}"), "typeId": kind, "name": format!("Step {place}"), "position": {"x": 0, "y": 0}, "config": {"title": "Enough?"}, "inputs": {}})
    };
    let edges: Vec<Value> = (1..400)
        .map(|place| json!({"id": format!("e{place}"), "sourceNodeId": format!("step-{}", (place - 1) / 3), "targetNodeId": format!("step-{place}")}))
        .collect();
    json!({
        "id": "large", "name": "A large workflow", "version": "1", "nodes": (0..400).map(node).collect::<Vec<_>>(), "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

/// A host with data on every page, and the pages' paths.
async fn furnished() -> (Server, TempDir, Vec<(&'static str, String)>) {
    let flows = TempDir::new().unwrap();
    let data = TempDir::new().unwrap();
    std::fs::create_dir_all(data.path().join("console/modules")).unwrap();
    std::fs::write(data.path().join("console/modules/desk.json"), MODULE).unwrap();
    std::fs::write(
        data.path().join("console/policy.json"),
        r#"{"policySchemaVersion": "0.1", "operations": []}"#,
    )
    .unwrap();
    let steps = |last: &str| {
        json!({
            "id": "project.notes", "name": "Write the notes", "description": "Collects what changed, and writes it down.", "version": "1.0.0",
            "about": "Used before **every** release.",
            "steps": [
                {"id": "collect", "title": "Collect", "prompt": "Collect what changed for {{goal}}."},
                {"id": "write", "title": "Write", "prompt": "Write it down."},
                {"id": "check", "title": last, "prompt": "Read it once more."},
            ],
        })
    };
    let file = flows.path().join("notes.json");
    std::fs::write(&file, steps("Check").to_string()).unwrap();
    let mut folders = ["examples/runs", "examples/release-review"].map(|folder| root().join(folder)).to_vec();
    folders.push(PathBuf::from(flows.path()));
    let server = Server::serving(data, &folders);

    let reviewed = server.create("release-review", json!({})).await;
    let waiting = server.settled(&reviewed).await;
    assert_eq!(waiting["status"], "waiting-external", "{waiting}");
    let started =
        server.tool("start_workflow", json!({"workflowId": "project.notes", "goal": "Release 2.4"})).await;
    let session = started["run"]["sessionId"].as_str().unwrap().to_owned();
    let blocked = server
        .tool("continue_workflow", json!({"continueToken": started["continueToken"], "intent": "advance"}))
        .await;
    let output = json!({"notesMarkdown": "## Changes\n\n- **c1**: restarts are quicker\n- c2: a renamed option, see `docs/options.md`", "artifacts": [{"kind": "changes", "count": 2}]});
    let second = server
        .tool(
            "continue_workflow",
            json!({"continueToken": blocked["continueToken"], "intent": "advance", "output": output}),
        )
        .await;
    server.tool("checkpoint_workflow", json!({"checkpointToken": second["checkpointToken"]})).await;
    let output = json!({"notesMarkdown": "Written."});
    server
        .tool(
            "continue_workflow",
            json!({"continueToken": second["continueToken"], "intent": "advance", "output": output}),
        )
        .await;
    std::fs::write(&file, steps("Check twice").to_string()).unwrap();

    let (one, two) = (
        server.create("hello", json!({"text": "good morning"})).await,
        server.create("hello", json!({"text": "good night"})).await,
    );
    let accept = json!({"resumeValue": {"action": "accept"}});
    server.settled(&one).await;
    server.ask("POST", &format!("/v1/runs/{one}/interrupts/ask"), Some(accept)).await;
    server.settled(&one).await;
    let reject = json!({"resumeValue": {"action": "reject", "comment": "not today"}});
    server.settled(&two).await;
    server.ask("POST", &format!("/v1/runs/{two}/interrupts/ask"), Some(reject)).await;
    server.settled(&two).await;
    server.ask("POST", "/v1/workflows", Some(large())).await;
    let large = server.create("large", json!({})).await;
    server.settled(&large).await;
    let asks = server.create("hello", json!({"text": "good evening"})).await;
    server.settled(&asks).await;
    let pages = vec![
        ("overview", String::new()),
        ("runs", "/console/runs".to_owned()),
        ("run", format!("/console/runs/{one}")),
        ("run-failed", format!("/console/runs/{two}")),
        ("run-node", format!("/console/runs/{one}?node=ask")),
        ("run-events", format!("/console/runs/{one}/events")),
        ("run-graph-large", format!("/console/runs/{large}/graph")),
        ("run-guided", format!("/console/runs/{reviewed}")),
        ("run-diff", format!("/console/runs/{one}/diff?with={two}")),
        ("approvals", "/console/approvals".to_owned()),
        ("approval", format!("/console/approvals/{asks}")),
        ("approval-guided", format!("/console/approvals/{reviewed}")),
        ("sessions", "/console/sessions".to_owned()),
        ("session", format!("/console/sessions/{session}")),
        ("session-workflow", format!("/console/sessions/{session}/workflow")),
        ("workflows", "/console/workflows".to_owned()),
        ("workflow-run", "/console/workflows/runs/release-review".to_owned()),
        ("workflow-guided", "/console/workflows/guided/project.notes".to_owned()),
        ("workspaces", "/console/workspaces".to_owned()),
        ("workspace", format!("/console/workspaces/{reviewed}/review")),
        ("modules", "/console/modules".to_owned()),
        ("module-page", "/console/desk".to_owned()),
        ("diagnostics", "/console/diagnostics".to_owned()),
        ("keys", "/console/keys".to_owned()),
        ("settings", "/console/settings".to_owned()),
        ("not-found", "/console/nowhere".to_owned()),
    ];
    (server, flows, pages)
}

/// How much wider the page is than the viewport, and the likely causes.
const OVERFLOW: &str = r#"
    const width = document.documentElement.clientWidth;
    const wider = document.documentElement.scrollWidth - width;
    if (wider <= 0) return [];
    const beyond = [...document.querySelectorAll("body *")]
        .filter((element) => element.getBoundingClientRect().right > width + 1 && !element.closest("svg"))
        .map((element) => element.outerHTML.slice(0, 200)).slice(0, 5);
    return [`${wider} px`, ...beyond];
"#;

/// The statuses in a list that are outside the viewport, and those that are visible.
const STATES: &str = r#"
    const seen = (element) => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && box.left >= 0 && box.right <= document.documentElement.clientWidth;
    };
    const states = [...document.querySelectorAll("main .cards .status")];
    return [states.filter((state) => !seen(state)).map((state) => state.textContent), states.filter(seen).length];
"#;

/// Text that is squeezed to one letter per line.
const SQUEEZED: &str = r#"
    return [...document.querySelectorAll("td, td *, th *")]
        .filter((element) => element.textContent.length > 4 && element.checkVisibility())
        .filter((element) => { const box = element.getBoundingClientRect(); return box.width > 1 && box.width < 45 && box.height > 55; })
        .map((element) => element.outerHTML.slice(0, 200)).slice(0, 5);
"#;

/// Texts with too little contrast.
const CONTRAST: &str = r#"
    const parse = (text) => {
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => {
        const part = (value) => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const poor = [];
    const known = new Map();
    for (const element of document.querySelectorAll("body *")) {
        if (element.closest("svg, .skip, .hidden, canvas")) continue;
        if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "")) continue;
        if (element.checkVisibility && !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const back = behind(element);
        const key = style.color + back.join();
        if (known.has(key)) continue;
        const [one, two] = [light(parse(style.color)), light(back)];
        const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        known.set(key, ratio);
        if (ratio < 4.5) poor.push(ratio.toFixed(2) + " " + element.outerHTML.slice(0, 120));
    }
    return poor;
"#;

#[tokio::test]
async fn every_page_fits_in_light_and_dark_mode() {
    let Some(day) = Chromium::start().await else { return };
    let Some(night) = Chromium::start_dark().await else { return };
    let (server, _flows, mut pages) = furnished().await;
    sign_in(&day, &format!("{}{}", server.url, pages[13].1), KEY).await;
    let node = day.see("main a[href*='/nodes/']").await.attr("href").await.unwrap().unwrap();
    pages.push(("session-node", node));
    sign_in(&night, &server.url, KEY).await;
    for (name, path) in &pages {
        for (browser, when) in [(&day, "light"), (&night, "dark")] {
            browser.goto(&format!("{}{path}", server.url)).await;
            browser.see("main h1").await;
            let dark =
                browser.client.execute("return matchMedia('(prefers-color-scheme: dark)').matches", vec![]);
            assert_eq!(dark.await.unwrap(), when == "dark");
            let poor = browser.client.execute(CONTRAST, vec![]).await.unwrap();
            assert_eq!(poor, json!([]), "{name} is hard to read when it is {when}");
            browser.whole_picture(&format!("{name}-{when}"), 1280).await;
        }
        for width in [1280, 420] {
            day.client.set_window_size(width, 900).await.unwrap();
            let overflow = day.client.execute(OVERFLOW, vec![]).await.unwrap();
            assert_eq!(overflow, json!([]), "{name} is wider than {width}");
            let squeezed = day.client.execute(SQUEEZED, vec![]).await.unwrap();
            assert_eq!(squeezed, json!([]), "{name} at {width}");
        }
        day.whole_picture(&format!("{name}-narrow"), 520).await;
    }
}

/// First use, section B: on a phone the run list showed ids and no states, and the page of keys was 571 pixels wide.
#[tokio::test]
async fn every_page_fits_on_a_phone_and_lists_show_statuses() {
    const WIDTH: u32 = 390;
    let Some(phone) = Chromium::start_phone(WIDTH).await else { return };
    let (server, _flows, pages) = furnished().await;
    sign_in(&phone, &server.url, KEY).await;
    for (name, path) in &pages {
        phone.goto(&format!("{}{path}", server.url)).await;
        phone.see("main h1").await;
        let shown = phone.client.execute("return document.documentElement.clientWidth", vec![]);
        assert_eq!(shown.await.unwrap(), WIDTH, "{name}");
        let overflow = phone.client.execute(OVERFLOW, vec![]).await.unwrap();
        assert_eq!(overflow, json!([]), "{name} is wider than {WIDTH}");
        let states = phone.client.execute(STATES, vec![]).await.unwrap();
        assert_eq!(states[0], json!([]), "{name} has states beside the screen");
        if ["overview", "runs", "sessions", "keys"].contains(name) {
            assert_ne!(states[1], 0, "{name} shows no state");
        }
        phone.picture(&format!("{name}-phone")).await;
    }
}
