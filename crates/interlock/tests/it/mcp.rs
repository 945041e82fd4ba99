//! `interlock mcp` driven by a client over stdio.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::program::interlock;

/// A client of one running program.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Client {
    /// Starts the program and initializes the connection.
    pub(crate) fn connect(data: &Path, workflows: &Path) -> Self {
        let arguments =
            ["mcp", "--data-dir", data.to_str().unwrap(), "--workflows", workflows.to_str().unwrap()];
        let mut child = interlock(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take();
        let mut client = Self { child, input, output, requests: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let answer = client.request("initialize", &hello).expect("the program answers");
        assert_eq!(answer["result"]["serverInfo"]["name"], "interlock");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        if let Some(input) = &mut self.input {
            // The program may have been killed; then there is no response either.
            let _ = writeln!(input, "{message}");
            let _ = input.flush();
        }
    }

    /// The response to a request; `None` when the program is gone.
    fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let answer: Value = serde_json::from_str(&line).ok()?;
            if answer["id"] == id {
                return Some(answer);
            }
        }
    }

    /// The structured result of a tool call, and whether it is an error.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Option<(Value, bool)> {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let result = &answer["result"];
        Some((result["structuredContent"].clone(), result["isError"] == true))
    }

    /// Closes the connection and waits for the exit.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A folder with a workflow of many simple steps.
fn workflows(steps: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<Value> = (0..steps)
        .map(|number| json!({"id": format!("step-{number}"), "title": "Go", "prompt": "Go on."}))
        .collect();
    let workflow = json!({"id": "project.long", "name": "Long", "description": "Many steps.", "version": "1.0.0",
        "steps": steps});
    std::fs::write(folder.path().join("long.json"), workflow.to_string()).unwrap();
    folder
}

#[test]
fn a_client_is_guided_through_a_workflow() {
    let (flows, data) = (workflows(2), tempfile::tempdir().unwrap());
    let mut client = Client::connect(data.path(), flows.path());
    let (started, _) =
        client.call("start_workflow", json!({"workflowId": "project.long", "goal": "try"})).unwrap();
    assert_eq!(started["pending"]["stepId"], "step-0");
    let token = started["continueToken"].clone();
    let (blocked, is_error) =
        client.call("continue_workflow", json!({"continueToken": token, "intent": "advance"})).unwrap();
    assert!(!is_error, "a blocked step is not an error");
    assert_eq!(blocked["kind"], "blocked");
    let mut token = blocked["continueToken"].clone();
    for expected in [Some("step-1"), None] {
        let arguments = json!({"continueToken": token, "output": {"notesMarkdown": "done"}});
        let (next, _) = client.call("continue_workflow", arguments).unwrap();
        assert_eq!(next["pending"]["stepId"].as_str(), expected);
        token = next["continueToken"].clone();
    }
    let (mistake, is_error) = client.call("continue_workflow", json!({"contineToken": "ct_x"})).unwrap();
    assert!(is_error);
    assert_eq!(mistake["code"], "VALIDATION_ERROR");
    assert_eq!(client.hang_up(), Some(0));
}

#[test]
fn acknowledged_steps_survive_a_kill() {
    const ROUNDS: usize = 12;
    let (flows, data) = (workflows(400), tempfile::tempdir().unwrap());
    let mut client = Client::connect(data.path(), flows.path());
    let (started, _) =
        client.call("start_workflow", json!({"workflowId": "project.long", "goal": "survive"})).unwrap();
    let mut token = started["continueToken"].as_str().unwrap().to_owned();
    let mut acknowledged = 0_u64;
    for round in 0..ROUNDS {
        // Killed while calls are in progress: after some calls, and at any point of the next.
        let process = client.child.id().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(15 + 7 * round as u64));
            let _ = std::process::Command::new("kill").args(["-KILL", &process]).status();
        });
        while let Some((reply, is_error)) = client.call(
            "continue_workflow",
            json!({"continueToken": token, "output": {"notesMarkdown": format!("step {acknowledged}")}}),
        ) {
            assert!(!is_error, "{reply}");
            acknowledged += 1;
            assert_eq!(
                reply["pending"]["stepId"],
                format!("step-{acknowledged}"),
                "no step is skipped or repeated"
            );
            reply["continueToken"].as_str().unwrap().clone_into(&mut token);
        }
        killer.join().unwrap();
        client.kill();
        client = Client::connect(data.path(), flows.path());
        // The same token works, whether or not the interrupted call was recorded.
        let (here, is_error) =
            client.call("continue_workflow", json!({"continueToken": token, "intent": "rehydrate"})).unwrap();
        assert!(!is_error, "{here}");
        assert_eq!(here["pending"]["stepId"], format!("step-{acknowledged}"));
    }
    assert!(acknowledged > 0, "at least some calls were acknowledged");
    assert_eq!(client.hang_up(), Some(0));
    let verified = crate::program::run(
        &["session", "verify", "--all", "--data-dir", data.path().to_str().unwrap()],
        b"",
    );
    assert_eq!(verified.status.code(), Some(0), "{}", crate::program::text(&verified.stdout));
}
