//! Nothing that an agent or a caller wrote is ever run.

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

/// Each would set `window.owned` if any of it were run.
const HOSTILE: [&str; 8] = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=\"window.owned = 1\">",
    "\"><svg onload=window.owned=1>",
    "[click](javascript:window.owned=1)",
    "</textarea><script>window.owned = 1</script>",
    "<iframe srcdoc=\"<script>parent.owned = 1</script>\"></iframe>",
    "<a href=\"data:text/html,<script>opener.owned=1</script>\">x</a>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.owned=1>",
];

#[tokio::test]
async fn words_of_others_are_shown_and_never_run() {
    let Some(browser) = Chromium::start().await else { return };
    let server = Server::start();
    let hostile = HOSTILE.join("\n\n");
    let gate = json!({"title": hostile, "description": hostile, "artifactData": {"notes": hostile}});
    let document = json!({
        "id": "hostile", "name": HOSTILE[1], "version": "1", "description": hostile,
        "nodes": [{"id": "ask", "typeId": "core.approvalGate", "name": hostile, "position": {"x": 0, "y": 0}, "config": gate, "inputs": {}}],
        "edges": [], "triggers": [], "metadata": {}, "settings": {},
        "variables": [{"name": "text", "type": "string", "defaultValue": hostile}],
    });
    server.ask("POST", "/v1/workflows", Some(document)).await;
    let run = server.create("hostile", json!({"text": hostile})).await;
    sign_in(&browser, &server.url, KEY).await;
    let pages = ["", "/runs", "/approvals", "/workflows"].map(str::to_owned);
    let of_run = ["/runs/RUN", "/runs/RUN/events", "/approvals/RUN"].map(|page| page.replace("RUN", &run));
    for page in pages.into_iter().chain(of_run) {
        browser.goto(&format!("{}{page}", server.url)).await;
        browser.see("main").await;
        let owned = browser.client.execute("return window.owned === undefined", vec![]).await.unwrap();
        assert_eq!(owned, Value::Bool(true), "{page}");
        let loose = "return document.querySelectorAll('main script, main iframe, main [onerror], main [onload], a[href^=\"javascript:\"], a[href^=\"data:\"]').length";
        assert_eq!(browser.client.execute(loose, vec![]).await.unwrap(), 0, "{page}");
    }
}
