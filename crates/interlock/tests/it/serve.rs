//! `interlock serve` and its clients, with the real program.

mod configured;
mod elicitation;
mod http_request;
mod packs;
mod plugins;
mod postgres;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{interlock, root, run_command, text};

pub(crate) const KEY: &str = "a-key-of-the-tests-0123456789";

/// A server on a data directory, killed when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) url: String,
}

impl Served {
    /// Starts a server and waits until it listens.
    pub(crate) fn on(data: &Path, workflows: &Path) -> Self {
        Self::with_environment(data, workflows, &[])
    }

    /// The same, with environment variables.
    pub(crate) fn with_environment(data: &Path, workflows: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command
            .arg(data)
            .arg("--workflows")
            .arg(workflows)
            .env("INTERLOCK_API_KEY", KEY)
            .env("INTERLOCK_LOG", "warn")
            .envs(variables.iter().copied());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url =
            line.split_whitespace().nth(1).unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { process, url }
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        let pid = self.process.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        key: &str,
        once: Option<&str>,
    ) -> (u16, Value) {
        let method: reqwest::Method = method.parse().unwrap();
        let mut request =
            reqwest::Client::new().request(method, format!("{}{path}", self.url)).bearer_auth(key);
        if let Some(once) = once {
            request = request.header("Idempotency-Key", once);
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or(Value::Null))
    }

    pub(crate) async fn create(&self, workflow: &str, inputs: Value) -> String {
        let body = json!({"workflowId": workflow, "inputs": inputs});
        let (status, created) = self.ask("POST", "/v1/runs", Some(body), KEY, None).await;
        assert_eq!(status, 201, "{created}");
        created["runId"].as_str().unwrap().to_owned()
    }

    /// The snapshot of a run when it has ended or waits: long polls, no sleeping.
    pub(crate) async fn settled(&self, run_id: &str) -> Value {
        let mut last = -1_i64;
        loop {
            let (_, snapshot) = self.ask("GET", &format!("/v1/runs/{run_id}"), None, KEY, None).await;
            if !["pending", "running"].contains(&snapshot["status"].as_str().unwrap()) {
                return snapshot;
            }
            let poll = format!("/v1/runs/{run_id}/events/poll?lastSequence={last}&timeout=20");
            let (_, polled) = self.ask("GET", &poll, None, KEY, None).await;
            last = polled["events"]
                .as_array()
                .unwrap()
                .last()
                .map_or(last, |event| event["sequence"].as_i64().unwrap());
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn examples() -> std::path::PathBuf {
    root().join("examples/runs")
}

#[tokio::test]
async fn a_waiting_run_is_answered_after_a_server_kill() {
    let data = TempDir::new().unwrap();
    let served = Served::on(data.path(), &examples());
    let run_id = served.create("hello", json!({"text": "good morning"})).await;
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
    served.kill();

    let served = Served::on(data.path(), &examples());
    let path = format!("/v1/runs/{run_id}/interrupts/ask");
    let accept = json!({"resumeValue": {"action": "accept"}});
    let (status, body) = served.ask("POST", &path, Some(accept.clone()), KEY, None).await;
    assert_eq!((status, &body["status"]), (200, &json!("completed")), "{body}");
    let run = served.settled(&run_id).await;
    assert_eq!(run["variables"]["greeting"], "good morning");
    assert_eq!(served.ask("POST", &path, Some(accept), KEY, None).await.0, 409, "answered once");
}

#[tokio::test]
async fn a_second_server_on_a_data_directory_is_rejected() {
    let data = TempDir::new().unwrap();
    let served = Served::on(data.path(), &examples());
    let mut second = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let second = run_command(second.arg(data.path()).env("INTERLOCK_API_KEY", KEY), b"");
    let words = text(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{words}");
    assert!(words.contains("SERVE_RUNNING") && words.contains(&served.url), "{words}");
}

#[test]
fn without_a_key_only_loopback_is_allowed() {
    let data = TempDir::new().unwrap();
    let mut open = interlock(&["serve", "--listen", "0.0.0.0:0", "--data-dir"]);
    let open = run_command(open.arg(data.path()).env_remove("INTERLOCK_API_KEY"), b"");
    assert_eq!(open.status.code(), Some(2));
    assert!(text(&open.stderr).contains("KEY_REQUIRED"), "{}", text(&open.stderr));
}

#[tokio::test]
async fn a_key_is_limited_to_its_scopes_and_tenant() {
    let data = TempDir::new().unwrap();
    let key = |arguments: &[&str]| {
        let mut command = interlock(&["key", "new-api-key", "--json", "--data-dir"]);
        let made = run_command(command.arg(data.path()).args(arguments), b"");
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        serde_json::from_slice::<Value>(&made.stdout).unwrap()["key"].as_str().unwrap().to_owned()
    };
    let served = Served::on(data.path(), &examples());
    let run_id = served.create("hello", json!({})).await;
    // Created while the server runs, and valid at once.
    let reader = key(&["--scope", "runs:read"]);
    let stranger = key(&["--tenant", "acme"]);
    let path = format!("/v1/runs/{run_id}");
    assert_eq!(served.ask("GET", &path, None, &reader, None).await.0, 200);
    let (status, refusal) =
        served.ask("POST", "/v1/runs", Some(json!({"workflowId": "hello"})), &reader, None).await;
    assert_eq!((status, &refusal["details"]["scopeRequired"]), (403, &json!("runs:create")), "{refusal}");
    assert_eq!(served.ask("GET", &path, None, &stranger, None).await.0, 404);
    assert_eq!(served.ask("GET", &path, None, "no-key-of-this-host-0000", None).await.0, 401);
    let slip = run_command(
        interlock(&["key", "new-api-key", "--scope", "runs:raed", "--data-dir"]).arg(data.path()),
        b"",
    );
    assert!(text(&slip.stderr).contains("`runs:read`"), "{}", text(&slip.stderr));
}

/// Finding M5: a server starts with an empty database only with `--new-database`, and the local key
/// then works.
#[tokio::test]
async fn a_new_database_requires_the_flag() {
    let data = TempDir::new().unwrap();
    let started = |flags: &[&str]| {
        let mut command = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data.path()).args(flags).env_remove("INTERLOCK_API_KEY").env("INTERLOCK_LOG", "warn");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.map_while(Result::ok).find(|line| line.starts_with("Serving")).unwrap();
        Served { process, url: line.split_whitespace().nth(1).unwrap().to_owned() }
    };
    started(&[]).kill();
    let key = std::fs::read_to_string(data.path().join("keys/local-api-key")).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(data.path().join(format!("runs.sqlite3{suffix}")));
    }
    let served = started(&["--new-database"]);
    assert_eq!(served.ask("GET", "/v1/runs", None, key.trim(), None).await.0, 200);
    served.kill();
    let served = started(&["--new-database"]);
    assert_eq!(
        served.ask("GET", "/v1/runs", None, key.trim(), None).await.0,
        200,
        "an existing database is kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_executes_locally_or_on_the_server() {
    let data = TempDir::new().unwrap();
    let follow = |workflow: &str| {
        let mut command = interlock(&["run", "--follow", "--json", "--data-dir"]);
        command.arg(data.path()).arg(root().join(workflow)).env("INTERLOCK_API_KEY", KEY);
        let ran = run_command(&mut command, b"");
        (
            ran.status.code(),
            serde_json::from_slice::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran.stderr))),
        )
    };
    let (code, here) = follow("examples/runs/nightly.yaml");
    assert_eq!((code, &here["status"]), (Some(0), &json!("completed")), "{here}");
    let served = Served::on(data.path(), &examples());
    let followed = tokio::task::block_in_place(|| follow("examples/runs/hello.json"));
    assert_eq!((followed.0, &followed.1["status"]), (Some(1), &json!("waiting-approval")), "{}", followed.1);
    let run_id = followed.1["runId"].as_str().unwrap();
    assert_eq!(served.settled(run_id).await["status"], "waiting-approval", "the server owns the run");
}

#[test]
fn invalid_workflows_are_rejected_with_a_reason() {
    let data = TempDir::new().unwrap();
    let broken = data.path().join("broken.json");
    std::fs::write(&broken, r#"{"id": "x", "nodes": []}"#).unwrap();
    let cases = [("no-such-workflow", "workflow_not_found"), (broken.to_str().unwrap(), "/name: required")];
    for (workflow, reason) in cases {
        let ran = run_command(interlock(&["run", workflow, "--data-dir"]).arg(data.path().join("data")), b"");
        let words = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{words}");
        assert!(words.contains("HOST_REFUSED") && words.contains(reason), "{words}");
    }
}

#[tokio::test]
async fn a_backup_is_served_like_the_original() {
    let data = TempDir::new().unwrap();
    let served = Served::on(data.path(), &examples());
    let run_id = served.create("hello", json!({})).await;
    let copy = TempDir::new().unwrap();
    let backup = || run_command(interlock(&["backup", "--data-dir"]).arg(data.path()).arg(copy.path()), b"");
    assert_eq!(backup().status.code(), Some(0));
    assert!(text(&backup().stderr).contains("OUTPUT_EXISTS"), "a backup never overwrites another");
    drop(served);
    let served = Served::on(copy.path(), &examples());
    assert_eq!(served.settled(&run_id).await["status"], "waiting-approval");
}
