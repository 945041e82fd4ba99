//! A run on the server of the data directory.

use std::path::Path;

use canon::error::Envelope;
use flow::run::RunStatus;
use serde_json::{Map, Value, json};

use super::{Started, is_file, show};
use crate::arguments::Run;
use crate::commands::serve::{Found, KEY_VARIABLE, LOCAL_KEY, Serving, read_workflow};
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// How long the server may take to answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

pub(super) async fn start(
    arguments: &Run,
    inputs: Map<String, Value>,
    serving: &Serving,
    settings: &Settings,
) -> Result<Started, Failure> {
    let http =
        reqwest::Client::builder().build().map_err(|error| unreachable_server(&serving.url, &error))?;
    let client = Client { http, url: serving.url.clone(), key: key(settings)? };
    let workflow_id = if is_file(&arguments.workflow) {
        let path = Path::new(&arguments.workflow);
        let document = match read_workflow(path) {
            Found::Run(document) => document,
            Found::Guided => return Err(refused("the workflow guides an agent and cannot be run by itself")),
            Found::Neither(reason) => return Err(refused(&format!("{}: {reason}", path.display()))),
        };
        client.post("/v1/workflows", &document).await?;
        document["id"].as_str().unwrap_or_default().to_owned()
    } else {
        arguments.workflow.clone()
    };
    let created = client.post("/v1/runs", &json!({"workflowId": workflow_id, "inputs": inputs})).await?;
    let run_id = created["runId"].as_str().unwrap_or_default().to_owned();
    if arguments.follow {
        client.follow(&run_id, arguments.answering.json).await?;
    }
    let snapshot = client.get(&format!("/v1/runs/{run_id}")).await?;
    let status = snapshot["status"].as_str().and_then(RunStatus::parse).unwrap_or_default();
    Ok(Started { run_id, status, snapshot: Some(snapshot) })
}

/// The key of this machine: that of the environment, or the one that `serve` made.
fn key(settings: &Settings) -> Result<String, Failure> {
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        return Ok(key);
    }
    let path = settings.data_dir.value.join(LOCAL_KEY);
    std::fs::read_to_string(&path).map(|key| key.trim().to_owned()).map_err(|_| {
        Envelope::new(
            CommandErrorCode::KeyRequired,
            format!("the server wants a key, and there is none in {}", path.display()),
        )
        .suggest(format!("Set {KEY_VARIABLE} to a key that may create and read runs."))
        .into()
    })
}

fn refused(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::HostRefused, message)
        .suggest("See what the server says, and try again.")
        .into()
}

fn unreachable_server(url: &str, error: &reqwest::Error) -> Failure {
    Envelope::new(
        CommandErrorCode::ServerUnreachable,
        format!("the server at {url} does not answer: {error}"),
    )
    .suggest("Look at its log, or end it; without a server the run is carried out here.")
    .into()
}

impl Client {
    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.answer(self.http.post(format!("{}{path}", self.url)).body(body.to_string())).await
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let request =
            request.bearer_auth(&self.key).header("Content-Type", "application/json").timeout(PATIENCE);
        let response = request.send().await.map_err(|error| unreachable_server(&self.url, &error))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| unreachable_server(&self.url, &error))?;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(body);
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Err(refused(&format!("{}: {}", text("error"), text("message"))))
    }

    /// Shows events until the run ends, or somebody is needed.
    async fn follow(&self, run_id: &str, quiet: bool) -> Result<(), Failure> {
        let url = format!("{}/v1/runs/{run_id}/events?streamMode=debug", self.url);
        let request = self.http.get(url).bearer_auth(&self.key).header("Accept", "text/event-stream");
        let mut response = request.send().await.map_err(|error| unreachable_server(&self.url, &error))?;
        let mut rest = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| unreachable_server(&self.url, &error))?
        {
            rest.extend_from_slice(&chunk);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let Some(text) = line.trim_end().strip_prefix("data:").map(str::trim_start) else { continue };
                if !quiet {
                    show::event(text)?;
                }
                if show::needs_somebody(text) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
