//! A guided node with the real programs: `serve` for the run, `mcp` for the agent, and `kill -9` in
//! between.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mcp::Client;
use crate::serve::{KEY, Served};

const MANIFEST: &str = "
apiVersion: interlock.dev/workspace/v1
kind: WorkspaceManifest
extends: interlock://manifest/primary-agent-base@1.0.0
metadata: {slug: writer, version: 1.0.0, surfaceCompat: [workflow]}
spec:
  mounts: {inputs: true, deliverables: true}
  agent: {slug: writer, stage: writing, role: engineer}
";

/// Both kinds of workflows, with a manifest and a library.
fn furnished() -> TempDir {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("kit/library/agents/writing")).unwrap();
    std::fs::write(at.join("kit/library/agents/writing/writer.md"), "# Writer\n\nWrites.\n").unwrap();
    std::fs::write(at.join("kit/writer.yaml"), MANIFEST).unwrap();
    let step = |id: &str| json!({"id": id, "title": id, "prompt": "Go on."});
    let notes = json!({
        "id": "project.notes", "name": "Notes", "description": "Writes notes.", "version": "1.0.0",
        "steps": [step("collect"), step("write")],
    });
    let config =
        json!({"workflow": "project.notes", "manifest": "kit/writer.yaml", "library": "kit/library"});
    let release = json!({
        "id": "release", "name": "Release", "version": "1",
        "nodes": [{
            "id": "notes", "typeId": "interlock.guided", "name": "Notes", "position": {"x": 0, "y": 0},
            "config": config, "inputs": {},
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    std::fs::write(at.join("notes.json"), notes.to_string()).unwrap();
    std::fs::write(at.join("release.json"), release.to_string()).unwrap();
    folder
}

impl Served {
    /// Every event of a run after it has ended.
    async fn log(&self, run_id: &str) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        while !events.last().is_some_and(|event| {
            ["run.completed", "run.failed", "run.cancelled"].contains(&event["type"].as_str().unwrap())
        }) {
            let last = events.last().map_or(-1, |event| event["sequence"].as_i64().unwrap());
            let poll = format!("/v1/runs/{run_id}/events/poll?lastSequence={last}&timeout=20");
            let (_, polled) = self.ask("GET", &poll, None, KEY, None).await;
            events.extend(polled["events"].as_array().unwrap().iter().cloned());
        }
        events
    }
}

/// An agent that connects over stdio and advances one step.
fn step(data: &Path, flows: &Path, token: &Value) -> (Value, bool) {
    let mut agent = Client::connect(data, flows);
    let call = json!({"continueToken": token, "intent": "advance", "output": {"notesMarkdown": "Done."}});
    let answer = agent.call("continue_workflow", call).unwrap();
    agent.hang_up();
    answer
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guided_node_survives_repeated_server_kills() {
    let (flows, data) = (furnished(), TempDir::new().unwrap());
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release", json!({})).await;
    // At any step of the guided node.
    served.kill();

    let served = Served::on(data.path(), flows.path());
    let waiting = served.settled(&run_id).await;
    assert_eq!(waiting["status"], "waiting-external", "{waiting}");
    let connect = waiting["interrupt"]["connect"].clone();
    assert!(connect["endpoint"].as_str().unwrap().ends_with("/mcp"), "{connect}");
    let workspace = Path::new(connect["workspaceRoot"].as_str().unwrap());
    assert!(workspace.join("AGENTS.md").is_file());
    let path = format!("/v1/runs/{run_id}/interrupts/notes");
    let (status, refused) = served.ask("POST", &path, Some(json!({"resumeValue": {}})), KEY, None).await;
    assert_eq!((status, &refused["error"]), (409, &json!("conflict")), "{refused}");
    assert!(refused["details"]["sessionId"].as_str().unwrap().starts_with("sess_"), "{refused}");
    let (second, is_error) = step(data.path(), flows.path(), &connect["continueToken"]);
    assert!(!is_error, "{second}");
    served.kill();

    // The agent advances without a server, and finishes before one starts.
    std::fs::write(workspace.join("deliverables/notes.md"), "All of it.\n").unwrap();
    let (last, is_error) = step(data.path(), flows.path(), &second["continueToken"]);
    assert!(!is_error && last["isComplete"] == true, "{last}");

    let served = Served::on(data.path(), flows.path());
    let events = served.log(&run_id).await;
    for (kind, times) in
        [("run.completed", 1), ("node.completed", 1), ("interrupt.requested", 1), ("artifact.created", 1)]
    {
        assert_eq!(count(&events, kind), times, "{kind}: {events:#?}");
    }
    let completed = events.iter().find(|event| event["type"] == "node.completed").unwrap();
    let delivered = &completed["payload"]["outputs"]["deliverables"][0];
    assert_eq!(delivered["path"], "notes.md");
    let path = format!("/v1/runs/{run_id}/artifacts/{}", delivered["artifactId"].as_str().unwrap());
    let (_, artifact) = served.ask("GET", &path, None, KEY, None).await;
    assert_eq!(artifact["data"]["text"], "All of it.\n", "{artifact}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_a_cancelled_run_must_stop() {
    let (flows, data) = (furnished(), TempDir::new().unwrap());
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release", json!({})).await;
    let waiting = served.settled(&run_id).await;
    let token = waiting["interrupt"]["connect"]["continueToken"].clone();
    let (status, _) =
        served.ask("POST", &format!("/v1/runs/{run_id}/cancel"), Some(json!({})), KEY, None).await;
    assert_eq!(status, 200);
    // The session is marked after the cancellation is acknowledged.
    let marked = data.path().join("sessions");
    let session = waiting["interrupt"]["data"]["correlation"]["sessionId"].as_str().unwrap();
    while !marked.join(session).join("ended.json").exists() {
        tokio::task::yield_now().await;
    }
    let refused = loop {
        let (refused, is_error) = step(data.path(), flows.path(), &token);
        assert!(is_error, "{refused}");
        if !refused.to_string().contains("TOKEN_SESSION_LOCKED") {
            break refused;
        }
    };
    assert!(refused.to_string().contains("SESSION_ENDED"), "{refused}");
}
