//! Agents that `serve` starts for guided nodes (issue line 14), with the real program as host and as agent.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{interlock, root, run_command, text};
use crate::serve::{KEY, Served};

/// The release example, whose agent is the one of this name.
fn flows() -> TempDir {
    let folder = TempDir::new().unwrap();
    copy(&root().join("examples/release-review"), folder.path());
    edit(
        &folder.path().join("release-review.yaml"),
        "      goal: Decide",
        "      agent: helper\n      goal: Decide",
    );
    folder
}

/// Variables of the manifest, one of which would change what an agent's program does.
const VARIABLES: &str =
    "spec:\n  env: [{name: TICKET, value: T-7}, {name: NODE_OPTIONS, value: '--require ./evil.js'}]\n";

fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let edited = text.replacen(from, to, 1);
    assert_ne!(edited, text, "{} has {from:?}", file.display());
    std::fs::write(file, edited).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A data directory whose agent `helper` is this command.
fn data(argv: &[&str], more: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let argv = serde_json::to_string(argv).unwrap();
    let config = format!("[guide.agents.helper]\nargv = {argv}\n{more}\n");
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    folder
}

/// The scripted agent of the demo.
fn scripted() -> String {
    format!("{} demo --agent", env!("CARGO_BIN_EXE_interlock"))
}

fn session_of(run: &Value) -> String {
    run["interrupt"]["data"]["correlation"]["sessionId"].as_str().unwrap().to_owned()
}

/// The only session that has an agent.
fn session_in(data: &Path) -> String {
    let mut found = std::fs::read_dir(data.join("agents")).unwrap().map(|entry| entry.unwrap().file_name());
    let session = found.next().expect("a session").into_string().unwrap();
    assert!(found.next().is_none());
    session
}

fn file(data: &Path, session: &str, name: &str) -> PathBuf {
    data.join("agents").join(session).join(name)
}

/// The record of an agent when it is as wanted.
async fn record(data: &Path, session: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let bytes = std::fs::read(file(data, session, "agent.json")).unwrap_or_default();
        if let Ok(record) = serde_json::from_slice::<Value>(&bytes)
            && wanted(&record)
        {
            return record;
        }
        tokio::task::yield_now().await;
    }
}

/// The lines of a file when there are so many.
async fn lines(file: &Path, count: usize) -> Vec<String> {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        tokio::task::yield_now().await;
    }
}

/// Whether a process runs. One that has ended and was not reaped does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

async fn gone(pid: &str) {
    while runs(pid) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_starts_an_agent_over_mcp_and_the_run_continues_with_its_work() {
    let script =
        format!("cat > prompt; echo \"my key: $INTERLOCK_SESSION_KEY\"; env | sort; exec {}", scripted());
    let more = "env = [\"TICKET\"]";
    let (flows, data) = (flows(), data(&["sh", "-c", &script, "{session_id}", "{mcp_config}"], more));
    edit(&flows.path().join("workspace/manifest.yaml"), "spec:\n", VARIABLES);
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let run = loop {
        let run = served.settled(&run_id).await;
        if run["status"] != "waiting-external" {
            break run;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(run["status"], "waiting-approval", "{run}");
    let session = session_in(data.path());
    let record = record(data.path(), &session, |record| record["process"].is_null()).await;
    assert_eq!((&record["starts"], &record["agent"]), (&json!(1), &json!("helper")), "{record}");
    let output = std::fs::read_to_string(file(data.path(), &session, "output.log")).unwrap();
    for wanted in ["agent did", "Write the notes", "my key: [redacted:session key]", "[interlock] start 1 at"]
    {
        assert!(output.contains(wanted), "no {wanted:?} in {output}");
    }
    assert!(!output.contains("ilk_session_"), "{output}");
    assert!(!output.contains("NODE_OPTIONS"), "a manifest sets only what the operator names: {output}");
    let environment = std::fs::read_to_string(file(data.path(), &session, "environment.json")).unwrap();
    assert!(environment.contains("T-7"), "commands that verify evidence get it too: {environment}");
    assert!(!file(data.path(), &session, "mcp.json").exists(), "the key is removed with its process");
    let workspace = data.path().join("workspaces").join(&run_id).join("review");
    let prompt = std::fs::read_to_string(workspace.join("prompt")).unwrap();
    assert!(prompt.contains("Decide whether this version can go out"), "{prompt}");
    // The scripted agent makes this call.
    let call = format!("`resume_session` with `{{\"sessionId\": \"{session}\"}}`");
    assert!(prompt.contains(&call) && !prompt.contains("ilk_session_"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_too_early_is_started_again_and_then_given_up() {
    let script = "cat \"$INTERLOCK_MCP_CONFIG\"; tr '\\0' ' ' < /proc/$$/cmdline; echo; exit 3";
    let (flows, data) = (flows(), data(&["sh", "-c", script, "{prompt}"], "restarts = 1"));
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let run = loop {
        let run = served.settled(&run_id).await;
        if run["status"] == "failed" {
            break run;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(run["error"]["code"], "guided_agent_failed", "{run}");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("ended 2 times") && message.contains("exited with code 3"), "{message}");
    let session = session_in(data.path());
    let output = std::fs::read_to_string(file(data.path(), &session, "output.log")).unwrap();
    assert_eq!(output.matches("[interlock] start ").count(), 2, "{output}");
    // The agent printed its configuration, with the key, and its arguments, which never have it.
    assert!(
        output.contains("Bearer [redacted:session key]") && output.contains("Interlock guides you"),
        "{output}"
    );
    assert!(!output.contains("ilk_session_"), "{output}");
    let mut shown = interlock(&["session", "show", &session, "--data-dir"]);
    let shown = run_command(shown.arg(data.path()), b"");
    assert!(text(&shown.stdout).contains("helper"), "{}", text(&shown.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_end_an_agent() {
    for (script, more, wanted) in [
        ("exec sleep 600", "timeout = \"1s\"", "killed after 1 s"),
        ("exec yes", "max_output = \"64 KiB\"", "wrote more than 65536 bytes"),
        ("exec no-such-program-here", "restarts = 50", "could not be started"),
    ] {
        let (flows, data) = (
            flows(),
            data(
                &["sh", "-c", script],
                &format!("{more}\nrestarts = 0").replace("restarts = 50\nrestarts = 0", "restarts = 50"),
            ),
        );
        let served = Served::on(data.path(), flows.path());
        let run_id = served.create("release-review", json!({})).await;
        let run = loop {
            let run = served.settled(&run_id).await;
            if run["status"] == "failed" {
                break run;
            }
            tokio::task::yield_now().await;
        };
        let message = run["error"]["message"].as_str().unwrap();
        assert!(message.contains(wanted), "{script}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_names_an_unknown_agent_fails() {
    let (flows, data) = (flows(), TempDir::new().unwrap());
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let run = served.settled(&run_id).await;
    assert_eq!(run["error"]["code"], "guided_start_failed", "off by default: {run}");
    assert!(run["error"]["message"].as_str().unwrap().contains("`guide.agents`"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_a_step_to_a_person_is_started_again_after_the_answer() {
    let (flows, notes) = (flows(), TempDir::new().unwrap());
    edit(
        &flows.path().join("review-steps.yaml"),
        "    title: Read",
        "    requireConfirmation: true\n    title: Read",
    );
    let file = notes.path().join("processes");
    let script = format!("echo $$ >> {}", file.display());
    let data = data(&["sh", "-c", &script], "restarts = 0");
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let waiting = served.settled(&run_id).await;
    let session = session_of(&waiting);
    let left = record(data.path(), &session, |record| record["waitsAt"].is_u64()).await;
    assert_eq!((&left["starts"], &left["failedStarts"]), (&json!(1), &json!(0)), "{left}");

    let answer = json!({
        "kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user", "outcome": "given",
        "answer": "Yes.",
    });
    let call = json!({
        "continueToken": waiting["interrupt"]["connect"]["continueToken"], "intent": "advance",
        "output": {"notesMarkdown": "- c1: read", "artifacts": [answer]},
    });
    let mut person = crate::mcp::Client::connect(data.path(), flows.path());
    let (reply, is_error) = person.call("continue_workflow", call).unwrap();
    assert!(!is_error && reply["kind"] == "ok", "{reply}");
    // The next step needs no person, so ending at it is too early.
    let run = loop {
        let run = served.settled(&run_id).await;
        if run["status"] == "failed" {
            break run;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(run["error"]["code"], "guided_agent_failed", "{run}");
    assert_eq!(lines(&file, 2).await.len(), 2);
}

/// The agent notes its process, and whether another one of it runs.
fn noting(file: &Path) -> String {
    let file = file.display();
    format!(
        "for other in $(cat {file} 2>/dev/null); do \
           [ -n \"$(tr -d '\\0' < /proc/$other/cmdline 2>/dev/null)\" ] && echo two at once >> {file}; \
         done; echo $$ >> {file}; sleep 600 & wait"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_ends_with_its_node_and_with_the_host() {
    let (flows, notes) = (flows(), TempDir::new().unwrap());
    let file = notes.path().join("processes");
    let data = data(&["sh", "-c", &noting(&file)], "");
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let first = lines(&file, 1).await.remove(0);
    let session = session_of(&served.settled(&run_id).await);

    // A host that shuts down stops its agents, and the next one starts them again.
    served.stop();
    assert!(!runs(&first), "the host waits for its agents");
    let stopped = record(data.path(), &session, |record| record["process"].is_null()).await;
    assert_eq!((&stopped["lastEnd"]["kind"], &stopped["failedStarts"]), (&json!("stopped"), &json!(0)));
    let served = Served::on(data.path(), flows.path());
    let second = lines(&file, 2).await.remove(1);

    // A run that is cancelled does as well.
    let path = format!("/v1/runs/{run_id}/cancel");
    assert_eq!(served.ask("POST", &path, Some(json!({})), KEY, None).await.0, 200);
    gone(&second).await;
    let ended = record(data.path(), &session, |record| record["process"].is_null()).await;
    assert_eq!((&ended["starts"], &ended["failedStarts"]), (&json!(2), &json!(0)), "{ended}");
    assert!(!crate::agents::file(data.path(), &session, "mcp.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_host_an_agent_is_started_again_only_when_none_is_alive() {
    let (flows, notes) = (flows(), TempDir::new().unwrap());
    let file = notes.path().join("processes");
    let data = data(&["sh", "-c", &noting(&file)], "");
    let served = Served::on(data.path(), flows.path());
    let run_id = served.create("release-review", json!({})).await;
    let first = lines(&file, 1).await.remove(0);
    served.kill();
    assert!(runs(&first), "a crash of the host leaves its agents");

    let served = Served::on(data.path(), flows.path());
    let session = session_of(&served.settled(&run_id).await);
    let kept = record(data.path(), &session, |_| true).await;
    assert_eq!(kept["process"]["pid"].to_string(), first, "{kept}");
    assert!(Command::new("kill").args(["-KILL", "--", &format!("-{first}")]).status().unwrap().success());
    let all = lines(&file, 2).await;
    assert_eq!(all.len(), 2, "one at a time: {all:?}");
    let next = record(data.path(), &session, |record| record["starts"] == 2).await;
    assert_eq!((&next["process"]["pid"].to_string(), &next["lastEnd"]["kind"]), (&all[1], &json!("unseen")));

    // A node that ends while its agent is a stranger to the host ends it too.
    served.kill();
    let served = Served::on(data.path(), flows.path());
    let path = format!("/v1/runs/{run_id}/cancel");
    assert_eq!(served.ask("POST", &path, Some(json!({})), KEY, None).await.0, 200);
    gone(&all[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_processes_run_at_once_than_allowed() {
    let (flows, notes) = (flows(), TempDir::new().unwrap());
    let (place, overlaps) = (notes.path().join("place"), notes.path().join("overlaps"));
    let script = format!(
        "mkdir {place} || echo overlap >> {overlaps}; {scripted}; rmdir {place}",
        place = place.display(),
        overlaps = overlaps.display(),
        scripted = scripted(),
    );
    let data = data(&["sh", "-c", &script], "processes = 1");
    let served = Served::on(data.path(), flows.path());
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(served.create("release-review", json!({})).await);
    }
    for run_id in all {
        while served.settled(&run_id).await["status"] != "waiting-approval" {
            tokio::task::yield_now().await;
        }
    }
    assert!(!overlaps.exists(), "two agents ran at once");
}
