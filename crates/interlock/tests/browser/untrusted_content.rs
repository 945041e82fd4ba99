//! Untrusted content of agents, authors and callers is never executed, in any field of any page.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Chromium;
use crate::server::{KEY, Server, sign_in};

/// Each would set `window.owned` or add an element if it were interpreted as markup.
const HOSTILE: [&str; 13] = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=\"window.owned = 1\">",
    "\"><svg onload=window.owned=1>",
    "' onmouseover='window.owned=1' autofocus onfocus='window.owned=1",
    "[click](javascript:window.owned=1) ![seen](https://example.org/pixel)",
    "</textarea><script>window.owned = 1</script>",
    "</title></pre></code><script>window.owned = 1</script>",
    "<iframe srcdoc=\"<script>parent.owned = 1</script>\"></iframe>",
    "<a class=planted href=\"data:text/html,<script>opener.owned=1</script>\">x</a>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.owned=1>",
    "<b class=planted id=planted style=\"position:fixed;inset:0\">x</b>",
    "<form class=planted action=/sign-out method=post><button>x</button></form>",
    "--><base href=https://example.org><link rel=stylesheet href=https://example.org/x>",
];

/// The problems of a page: executed content, and elements that the console never creates.
const FOREIGN: &str = r#"
    const wrong = [];
    if (window.owned !== undefined) wrong.push("content was executed");
    for (const element of document.querySelectorAll("*")) {
        const tag = element.localName;
        const inHead = element.closest("head") !== null;
        if (["iframe", "object", "embed", "math", "style", "base", "audio", "video", "frame"].includes(tag)) wrong.push(tag);
        if (["link", "meta"].includes(tag) && !inHead) wrong.push(tag + " in the body");
        if (["script", "img", "link"].includes(tag)) {
            const source = element.getAttribute("src") ?? element.getAttribute("href") ?? "";
            if (!source.startsWith("/console/assets/")) wrong.push(tag + " " + source);
        }
        if (tag === "form" && !(element.getAttribute("action") ?? "/").startsWith("/")) wrong.push("form elsewhere");
        if (element.matches(".planted, #planted")) wrong.push("planted " + tag);
        for (const { name, value } of element.attributes) {
            if (name.startsWith("on") || ["srcdoc", "style", "formaction", "autofocus"].includes(name)) wrong.push(tag + " " + name);
            if (["href", "src", "action", "xlink:href"].includes(name) && !/^(\/(?!\/)|\?|#|https?:\/\/|mailto:)/.test(value)) wrong.push(tag + " " + name + "=" + value);
        }
    }
    return wrong;
"#;

/// Untrusted content: a word to find it by, and every attack.
fn written(word: &str) -> String {
    format!("{word} {}", HOSTILE.join("\n\n"))
}

/// A short variant for titles: the word and one attack.
fn title(word: &str, attack: usize) -> String {
    format!("{word} {}", HOSTILE[attack % HOSTILE.len()])
}

const MANIFEST: &str = "
apiVersion: interlock.dev/workspace/v1
kind: WorkspaceManifest
extends: interlock://manifest/primary-agent-base@1.0.0
metadata: {slug: writer, version: 1.0.0, surfaceCompat: [workflow]}
spec:
  mounts: {inputs: true, deliverables: true}
  agent: {slug: writer, stage: writing, role: engineer}
";

/// Workflows with attacks in every text.
fn workflows() -> TempDir {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("kit/library/agents/writing")).unwrap();
    std::fs::write(at.join("kit/library/agents/writing/writer.md"), "# Writer\n\nWrites.\n").unwrap();
    std::fs::write(at.join("kit/writer.yaml"), MANIFEST).unwrap();
    let write = |name: &str, document: Value| std::fs::write(at.join(name), document.to_string()).unwrap();
    // A step for each attack, because a title has room for only one.
    let step = |place: usize| {
        let id = format!("step-{place}");
        json!({"id": id, "title": title("w-step-title", place), "prompt": written("w-step-prompt")})
    };
    let steps: Vec<Value> = (0..HOSTILE.len()).map(step).collect();
    write(
        "steps.json",
        json!({
            "id": "project.hostile", "name": title("w-guided-name", 1), "description": title("w-guided-description", 2),
            "version": "1.0.0", "about": written("w-guided-about"), "steps": steps,
        }),
    );
    let node = |id: &str, kind: &str, name: &str, config: Value| {
        json!({
            "id": id, "name": title(name, 5), "version": "1", "description": written("w-run-description"),
            "nodes": [{"id": "n", "typeId": kind, "name": title("w-node-name", 6), "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}],
            "edges": [], "triggers": [], "metadata": {}, "settings": {},
            "variables": [{"name": "text", "type": "string", "defaultValue": written("w-variable")}],
        })
    };
    let gate = json!({"title": written("w-question"), "description": written("w-question-text"), "artifactData": {"notes": written("w-approved")}});
    write("asks.json", node("asks", "core.approvalGate", "w-run-name", gate));
    write(
        "fails.json",
        node("fails", "core.fail", "w-failing-name", json!({"message": written("w-run-error")})),
    );
    let config = json!({"workflow": "project.hostile", "goal": written("w-node-goal"), "manifest": "kit/writer.yaml", "library": "kit/library"});
    write("guides.json", node("guides", "interlock.guided", "w-guiding-name", config));
    folder
}

/// An agent that sends attacks in every field. Returns its session.
async fn misbehave(server: &Server, started: &Value) -> String {
    let mut place = started.clone();
    let artifact = json!({"kind": "notes", "text": written("a-artifact")});
    let output = json!({"notesMarkdown": written("a-notes"), "artifacts": [artifact]});
    let context = json!({"reviewer": written("a-context")});
    let call = json!({"continueToken": place["continueToken"], "intent": "advance", "output": output, "context": context});
    place = server.tool("continue_workflow", call).await;
    let checkpoint = json!({"checkpointToken": place["checkpointToken"], "output": {"notesMarkdown": written("a-checkpoint")}});
    server.tool("checkpoint_workflow", checkpoint).await;
    // `never_stop` and no notes, so that the missing notes become a gap.
    let preferences = json!({"autonomy": "full_auto_never_stop"});
    let call =
        json!({"continueToken": place["continueToken"], "intent": "advance", "preferences": preferences});
    place = server.tool("continue_workflow", call).await;
    started["run"]["sessionId"].as_str().or(place["run"]["sessionId"].as_str()).unwrap().to_owned()
}

/// The links on a page that start with a path.
async fn links(browser: &Chromium, start: &str) -> Vec<String> {
    let script =
        "return [...document.querySelectorAll('main a[href]')].map((link) => link.getAttribute('href'))";
    let found = browser.client.execute(script, vec![]).await.unwrap();
    let found = found.as_array().unwrap().iter().filter_map(|link| Some(link.as_str()?.to_owned()));
    found.filter(|link| link.starts_with(start)).collect()
}

#[tokio::test]
async fn untrusted_content_is_shown_and_never_executed() {
    let Some(browser) = Chromium::start().await else { return };
    let flows = workflows();
    let server = Server::serving(TempDir::new().unwrap(), &[PathBuf::from(flows.path())]);

    // A session of an agent, one of a run, and runs that ask and fail.
    let goal = json!({"workflowId": "project.hostile", "goal": written("a-goal")});
    let own = misbehave(&server, &server.tool("start_workflow", goal).await).await;
    let guided = server.create("guides", json!({})).await;
    let waiting = server.settled(&guided).await;
    let connect = &waiting["interrupt"]["connect"];
    let deliverables = PathBuf::from(connect["workspaceRoot"].as_str().unwrap()).join("deliverables");
    std::fs::write(deliverables.join("d-name <img src=x onerror=window.owned=1>.md"), written("d-content"))
        .unwrap();
    let mut place = connect.clone();
    for _ in 0..HOSTILE.len() {
        let output = json!({"notesMarkdown": written("a-run-notes")});
        place = server
            .tool(
                "continue_workflow",
                json!({"continueToken": place["continueToken"], "intent": "advance", "output": output}),
            )
            .await;
    }
    assert_eq!(place["isComplete"], true, "{place}");
    let asks = server.create("asks", json!({"text": written("c-input")})).await;
    let fails = server.create("fails", json!({})).await;
    for run in [&asks, &fails, &guided] {
        server.settled(run).await;
    }

    sign_in(&browser, &server.url, KEY).await;
    let mut paths: Vec<String> = [
        "",
        "/console/runs",
        "/console/approvals",
        "/console/sessions",
        "/console/workflows",
        "/console/workspaces",
        "/console/modules",
        "/console/diagnostics",
        "/console/keys",
        "/console/settings",
    ]
    .map(str::to_owned)
    .to_vec();
    for run in [&asks, &fails, &guided] {
        for page in [
            "/console/runs/RUN",
            "/console/runs/RUN?node=n",
            "/console/runs/RUN/events",
            "/console/runs/RUN/events?event=1",
            "/console/runs/RUN/graph",
        ] {
            paths.push(page.replace("RUN", run));
        }
    }
    paths.push(format!("/console/runs/{asks}/diff?with={fails}"));
    paths.push(format!("/console/approvals/{asks}"));
    paths.push(format!("/console/workspaces/{guided}/n"));
    paths.push(format!("/console/sessions/{own}"));
    paths.push(format!("/console/sessions/{own}/workflow"));
    paths.extend(
        [
            "/console/workflows/guided/project.hostile",
            "/console/workflows/runs/asks",
            "/console/workflows/runs/fails",
        ]
        .map(str::to_owned),
    );
    let mut seen = String::new();
    let mut place = 0;
    while let Some(path) = paths.get(place).cloned() {
        place += 1;
        browser.goto(&format!("{}{path}", server.url)).await;
        browser.see("main").await;
        assert_eq!(browser.client.execute(FOREIGN, vec![]).await.unwrap(), json!([]), "{path}");
        let all = browser.client.execute("return document.body.textContent", vec![]).await.unwrap();
        seen.push_str(all.as_str().unwrap());
        // Linked pages are checked too: nodes of sessions, and artifacts of runs.
        if path == format!("/console/sessions/{own}") || path == format!("/console/runs/{guided}") {
            for start in
                [format!("/console/sessions/{own}/nodes/"), format!("/console/runs/{guided}/artifact")]
            {
                for link in links(&browser, &start).await {
                    if !paths.contains(&link) {
                        paths.push(link);
                    }
                }
            }
        }
    }
    // Every field must be shown somewhere, otherwise it was not tested.
    let missing: Vec<&str> = WORDS.into_iter().filter(|word| !seen.contains(word)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "of {paths:#?}");
}

/// The marker words of the fields that agents, authors and callers write.
const WORDS: [&str; 23] = [
    "a-goal",
    "a-notes",
    "a-artifact",
    "a-context",
    "a-run-notes",
    "a-checkpoint",
    "d-name",
    "d-content",
    "w-guided-name",
    "w-guided-description",
    "w-guided-about",
    "w-step-title",
    "w-step-prompt",
    "w-run-name",
    "w-node-name",
    "w-variable",
    "w-question",
    "w-question-text",
    "w-approved",
    "w-run-error",
    "w-node-goal",
    "w-run-description",
    "c-input",
];
