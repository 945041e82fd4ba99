//! The real program as a server.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::Chromium;
use crate::program::{interlock, root};

pub(crate) const KEY: &str = "a-key-of-the-tests-0123456789";

/// A server on a temporary data directory, killed when dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    pub(crate) data: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::on(TempDir::new().unwrap())
    }

    pub(crate) fn on(data: TempDir) -> Self {
        Self::serving(data, &["examples/runs", "examples/release-review"].map(|folder| root().join(folder)))
    }

    pub(crate) fn serving(data: TempDir, folders: &[PathBuf]) -> Self {
        let mut command = interlock(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data.path()).env("INTERLOCK_API_KEY", KEY).env("INTERLOCK_LOG", "warn");
        // A mock node creates the artifacts.
        command.env("OPENWOP_TEST_SEAM_ENABLED", "true");
        for folder in folders {
            command.arg("--workflows").arg(folder);
        }
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap());
        let url = said(&mut printed, "Serving ").split_whitespace().next().unwrap().to_owned();
        Self { process, url, data }
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let method: reqwest::Method = method.parse().unwrap();
        let mut request =
            reqwest::Client::new().request(method, format!("{}{path}", self.url)).bearer_auth(KEY);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let body = response.bytes().await.unwrap();
        assert!(status.is_success(), "{status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap_or(Value::Null)
    }

    /// Creates a run and returns its id.
    pub(crate) async fn create(&self, workflow: &str, inputs: Value) -> String {
        let body = json!({"workflowId": workflow, "inputs": inputs});
        self.ask("POST", "/v1/runs", Some(body)).await["runId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn run(&self, run_id: &str) -> Value {
        self.ask("GET", &format!("/v1/runs/{run_id}"), None).await
    }

    /// The snapshot of a run when it has ended or waits.
    pub(crate) async fn settled(&self, run_id: &str) -> Value {
        let mut last = -1_i64;
        loop {
            let snapshot = self.run(run_id).await;
            if !["pending", "running"].contains(&snapshot["status"].as_str().unwrap()) {
                return snapshot;
            }
            let poll = format!("/v1/runs/{run_id}/events/poll?lastSequence={last}&timeout=20");
            let polled = self.ask("GET", &poll, None).await;
            let newest = polled["events"].as_array().unwrap().last();
            last = newest.map_or(last, |event| event["sequence"].as_i64().unwrap());
        }
    }

    /// Calls an MCP tool with plain HTTP.
    pub(crate) async fn tool(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = reqwest::Client::new().post(format!("{}/mcp", self.url)).bearer_auth(KEY);
        let request = request
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        let answer = request.body(message.to_string()).send().await.unwrap().bytes().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads lines until one contains the text, and returns the rest of that line.
pub(crate) fn said(printed: &mut BufReader<ChildStdout>, text: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        assert!(printed.read_line(&mut line).unwrap() > 0, "no {text:?} in:\n{seen}");
        if let Some((_, rest)) = line.split_once(text) {
            return rest.trim().to_owned();
        }
        seen.push_str(&line);
    }
}

/// Signs in and waits for the redirect.
pub(crate) async fn sign_in(browser: &Chromium, url: &str, key: &str) {
    browser.goto(url).await;
    browser.fill("input[name=key]", key).await;
    browser.click("form.sign-in button[type=submit]").await;
    // Console pages have a sign-out form; the sign-in page, which stays visible until the next page
    // arrives, has none.
    browser.see("form[action='/console/sign-out']").await;
    browser.see("main").await;
}
