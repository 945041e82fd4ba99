//! Runs a workflow on the data directory's server.

use std::path::Path;

use flow::event::EventKind;
use flow::id::RunId;
use serde_json::{Map, Value, json};

use super::show::{self, Line};
use super::{Started, is_file};
use crate::arguments::Run;
use crate::client::{Client, Enough, refused};
use crate::commands::serve::{Serving, WorkflowFile, read_workflow};
use crate::failure::Failure;
use crate::settings::Settings;

pub(super) async fn start(
    arguments: &Run,
    inputs: Map<String, Value>,
    serving: &Serving,
    settings: &Settings,
) -> Result<Started, Failure> {
    let client = Client::of(&serving.url, settings)?;
    let workflow_id = if is_file(&arguments.workflow) {
        let path = Path::new(&arguments.workflow);
        let document = match read_workflow(path) {
            WorkflowFile::Run(document) => document,
            WorkflowFile::Guided => {
                return Err(refused("the workflow has `steps` for an agent and cannot be run without one"));
            }
            WorkflowFile::Neither(reason) => return Err(refused(&format!("{}: {reason}", path.display()))),
        };
        client.post("/v1/workflows", &document).await?;
        document["id"].as_str().unwrap_or_default().to_owned()
    } else {
        arguments.workflow.clone()
    };
    let created = client.post("/v1/runs", &json!({"workflowId": workflow_id, "inputs": inputs})).await?;
    let run_id = RunId::new(created["runId"].as_str().unwrap_or_default());
    if arguments.follow {
        follow(&client, &run_id, arguments.answering.json).await?;
    }
    let snapshot = client.get(&format!("/v1/runs/{run_id}")).await?;
    Started::read(snapshot.to_string().as_bytes())
}

/// Prints events until the run ends or waits for a person.
async fn follow(client: &Client, run_id: &RunId, quiet: bool) -> Result<(), Failure> {
    let events = format!("/v1/runs/{run_id}/events?streamMode=debug");
    let show = |text: &str| {
        let event: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        let kind = EventKind::parse(event["type"].as_str().unwrap_or_default());
        if !quiet {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            show::event(&Line {
                timestamp: text("/timestamp").to_owned(),
                kind: &kind,
                node: text("/nodeId"),
                message: text("/payload/error/message"),
            })?;
        }
        Ok(if kind == EventKind::InterruptRequested { Enough::Yes } else { Enough::No })
    };
    client.stream(&events, show).await
}
