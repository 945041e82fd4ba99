//! `interlock backup` and `interlock session gc` next to active runs and agents, with the real
//! programs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mcp::Client;
use crate::program::{interlock, run_command, text};
use crate::serve::{KEY, Served};

/// A guided workflow with many steps, and two run workflows: one asks a person, one an agent.
fn furnished() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, document: Value| {
        std::fs::write(folder.path().join(name), document.to_string()).unwrap();
    };
    let step = |number: usize| json!({"id": format!("step-{number}"), "title": "Go", "prompt": "Go on."});
    let steps: Vec<Value> = (0..2_000).map(step).collect();
    write(
        "long.json",
        json!({"id": "project.long", "name": "Long", "description": "Many steps.", "version": "1.0.0", "steps": steps}),
    );
    let node = |id: &str, kind: &str, config: Value| {
        json!({
            "id": id, "name": id, "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
            "nodes": [{"id": "n", "typeId": kind, "name": "n", "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}],
        })
    };
    write("asks.json", node("asks", "core.approvalGate", json!({"title": "Say hello?"})));
    write("guides.json", node("guides", "interlock.guided", json!({"workflow": "project.long"})));
    folder
}

fn run_json(arguments: &[&str], data: &Path) -> (Option<i32>, Value) {
    let ran = run_command(interlock(arguments).arg("--json").arg("--data-dir").arg(data), b"");
    let document = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran.stderr)));
    (ran.status.code(), document)
}

fn advance(agent: &mut Client, token: &Value) -> Value {
    let call = json!({"continueToken": token, "intent": "advance", "output": {"notesMarkdown": "Done."}});
    let (answer, is_error) = agent.call("continue_workflow", call).unwrap();
    assert!(!is_error, "{answer}");
    answer["continueToken"].clone()
}

/// Everything below a folder that other users could open.
fn open_to_others(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
            found.push(entry.path().display().to_string());
        }
        if metadata.is_dir() {
            open_to_others(&entry.path(), found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_while_an_agent_advances_is_consistent() {
    let (flows, data, elsewhere) = (furnished(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("asks", json!({})).await;
    let guided = served.create("guides", json!({})).await;
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
    assert_eq!(served.settled(&guided).await["status"], "waiting-external");
    std::fs::create_dir_all(data.path().join("console")).unwrap();
    std::fs::write(data.path().join("console/policy.json"), r#"{"operations": []}"#).unwrap();
    std::fs::write(data.path().join("config.toml"), "").unwrap();

    // An agent that keeps advancing.
    let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut agent = Client::connect(data.path(), flows.path());
    let (started, _) =
        agent.call("start_workflow", json!({"workflowId": "project.long", "goal": "go"})).unwrap();
    let session = started["run"]["sessionId"].as_str().unwrap().to_owned();
    let working = std::thread::spawn({
        let (stop, steps) = (Arc::clone(&stop), Arc::clone(&steps));
        move || {
            let mut token = started["continueToken"].clone();
            while !stop.load(Ordering::SeqCst) {
                token = advance(&mut agent, &token);
                steps.fetch_add(1, Ordering::SeqCst);
            }
            agent.hang_up();
            token
        }
    });
    while steps.load(Ordering::SeqCst) < 3 {
        std::thread::yield_now();
    }
    let before = steps.load(Ordering::SeqCst);
    let copies: Vec<_> = (0..3).map(|number| elsewhere.path().join(format!("copy-{number}"))).collect();
    for copy in &copies {
        let (code, report) = run_json(&["backup", copy.to_str().unwrap()], data.path());
        assert_eq!(code, Some(0), "{report}");
        assert_eq!((&report["sessions"], &report["damagedSessions"]), (&json!(2), &json!([])), "{report}");
    }
    let after = steps.load(Ordering::SeqCst);
    stop.store(true, Ordering::SeqCst);
    working.join().unwrap();
    assert!(after > before, "the agent advanced meanwhile");

    for copy in &copies {
        let (code, verified) = run_json(&["session", "verify"], copy);
        assert_eq!((code, &verified["sound"]), (Some(0), &json!(true)), "{verified}");
        let events = verified["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|found| found["sessionId"] == session.as_str());
        assert!(events.unwrap()["events"].as_u64().unwrap() > before, "{verified}");
        let mut found = Vec::new();
        open_to_others(copy, &mut found);
        assert_eq!(found, Vec::<String>::new(), "only the owner has access");
        for kept in ["runs.sqlite3", "keys/keyring.json", "format.json", "console/policy.json", "config.toml"]
        {
            assert!(copy.join(kept).is_file(), "{kept}");
        }
        for left_out in ["cache", "serve.lock", "serve.json", "runs.sqlite3-wal"] {
            assert!(!copy.join(left_out).exists(), "{left_out}");
        }
    }
    let names: Vec<_> =
        std::fs::read_dir(elsewhere.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "no unfinished files are left: {names:?}");
    drop(served);

    // The copy can be served directly: the runs still wait, and the agent continues with its old
    // token.
    let served = Served::on(&copies[0], flows.path());
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
    let waiting = served.settled(&guided).await;
    assert_eq!(waiting["status"], "waiting-external", "{waiting}");
    let mut agent = Client::connect(&copies[0], flows.path());
    advance(&mut agent, &waiting["interrupt"]["connect"]["continueToken"]);
    agent.hang_up();
    let path = format!("/v1/runs/{run_id}/interrupts/n");
    let answer = json!({"resumeValue": {"action": "accept"}});
    assert_eq!(served.ask("POST", &path, Some(answer), KEY, None).await.0, 200);
    assert_eq!(served.settled(&run_id).await["status"], "completed");
}

#[test]
fn backup_targets_that_are_rejected() {
    let (flows, data, elsewhere) = (furnished(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut agent = Client::connect(data.path(), flows.path());
    agent.call("start_workflow", json!({"workflowId": "project.long", "goal": "go"})).unwrap();
    agent.hang_up();
    std::fs::create_dir_all(data.path().join("tenants/acme/sessions")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", data.path().join("keys/elsewhere")).unwrap();
    let full = elsewhere.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("note.txt"), "mine").unwrap();
    let inside = data.path().join("copy");
    for (name, target) in [("a folder with something in it", &full), ("the data directory itself", &inside)] {
        let ran = run_command(interlock(&["backup"]).arg(target).arg("--data-dir").arg(data.path()), b"");
        assert_ne!(ran.status.code(), Some(0), "{name}");
        assert!(text(&ran.stderr).contains("OUTPUT_EXISTS"), "{name}: {}", text(&ran.stderr));
    }
    assert_eq!(std::fs::read_dir(&full).unwrap().count(), 1);
    assert!(!inside.exists());

    // Without runs there is no database, in the original and in the copy; a link stays a link.
    let copy = elsewhere.path().join("new/copy");
    let (code, report) = run_json(&["backup", copy.to_str().unwrap()], data.path());
    assert_eq!((code, &report["sessions"]), (Some(0), &json!(1)), "{report}");
    assert!(!copy.join("runs.sqlite3").exists() && !data.path().join("runs.sqlite3").exists());
    assert_eq!(std::fs::read_link(copy.join("keys/elsewhere")).unwrap(), Path::new("/etc/passwd"));
    assert!(copy.join("tenants/acme").is_dir());
    assert_eq!(run_json(&["session", "verify"], &copy).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_waiting_runs_are_never_collected() {
    let (flows, data) = (furnished(), TempDir::new().unwrap());
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("guides", json!({})).await;
    let waiting = served.settled(&run_id).await;
    assert_eq!(waiting["status"], "waiting-external", "{waiting}");
    let awaited = waiting["interrupt"]["data"]["correlation"]["sessionId"].clone();
    let mut agent = Client::connect(data.path(), flows.path());
    let (other, _) =
        agent.call("start_workflow", json!({"workflowId": "project.long", "goal": "go"})).unwrap();
    agent.hang_up();
    let other = other["run"]["sessionId"].clone();

    // No session is too young to be collected.
    let gc = |extra: &[&str]| {
        let arguments: Vec<&str> =
            ["session", "gc", "--older-than", "0s"].iter().chain(extra).copied().collect();
        // A concurrent writer is not blocked; the collection waits.
        loop {
            let ran =
                run_command(interlock(&arguments).arg("--json").arg("--data-dir").arg(data.path()), b"");
            if !text(&ran.stderr).contains("STORE_BUSY") {
                return serde_json::from_slice::<Value>(&ran.stdout)
                    .unwrap_or_else(|_| panic!("{}", text(&ran.stderr)));
            }
        }
    };
    for report in [gc(&["--dry-run"]), gc(&[])] {
        assert_eq!(report["deletedSessions"], json!([other]), "{report}");
        assert_eq!(report["awaitedSessions"], json!([awaited]), "{report}");
    }
    let (code, verified) = run_json(&["session", "verify"], data.path());
    assert_eq!((code, verified["sessions"].as_array().unwrap().len()), (Some(0), 1), "{verified}");

    // After the run has ended, the session is collected like any other.
    let (status, _) =
        served.ask("POST", &format!("/v1/runs/{run_id}/cancel"), Some(json!({})), KEY, None).await;
    assert_eq!(status, 200);
    assert_eq!(served.settled(&run_id).await["status"], "cancelled");
    let session = data.path().join("sessions").join(awaited.as_str().unwrap());
    while !session.join("ended.json").exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(gc(&[])["deletedSessions"], json!([awaited]));
    assert!(!session.exists());
}

/// Databases of workflow stores are copied at one point in time, while they are written.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_live_server_contains_workflow_stores() {
    let (flows, data, elsewhere) =
        (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let workflow = |id: &str, kind: &str, inputs: Value| {
        let given = |value: &Value| json!({"type": "static", "value": value});
        let inputs: serde_json::Map<_, _> =
            inputs.as_object().unwrap().iter().map(|(name, value)| (name.clone(), given(value))).collect();
        let document = json!({
            "id": id, "name": id, "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
            "nodes": [{"id": "n", "typeId": kind, "name": "n", "position": {"x": 0, "y": 0}, "config": {}, "inputs": inputs}],
        });
        let file = flows.path().join(format!("{id}.json"));
        std::fs::write(&file, document.to_string()).unwrap();
        file
    };
    workflow("keeps", "core.storage.kv-set", json!({"key": "k", "value": {"n": 1}}));
    let reads = workflow("reads", "core.storage.kv-get", json!({"key": "k"}));
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("keeps", json!({})).await;
    assert_eq!(served.settled(&run_id).await["status"], "completed");
    let copy = elsewhere.path().join("copy");
    let (code, report) = run_json(&["backup", copy.to_str().unwrap()], data.path());
    assert_eq!(code, Some(0), "{report}");
    assert!(
        !copy.join("surfaces/surfaces.sqlite3-wal").exists(),
        "the write-ahead log belongs to the server"
    );
    let (code, read) = run_json(&["run", reads.to_str().unwrap(), "--follow"], &copy);
    assert_eq!(code, Some(0), "{read}");
    assert_eq!(read["run"]["nodeStates"]["n"]["outputs"]["value"], json!({"n": 1}), "{read}");
}
