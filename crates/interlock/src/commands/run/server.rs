//! Runs a workflow on the data directory's server.

use std::path::Path;

use flow::id::RunId;
use flow::run::RunStatus;
use serde_json::{Map, Value, json};

use super::{Started, is_file, show};
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
    let status = snapshot["status"].as_str().and_then(RunStatus::parse).unwrap_or_default();
    Ok(Started { run_id, status, snapshot: Some(snapshot) })
}

/// Prints events until the run ends or waits for a person.
async fn follow(client: &Client, run_id: &RunId, quiet: bool) -> Result<(), Failure> {
    let events = format!("/v1/runs/{run_id}/events?streamMode=debug");
    let show = |text: &str| {
        if !quiet {
            show::event(text)?;
        }
        Ok(if show::needs_person(text) { Enough::Yes } else { Enough::No })
    };
    client.stream(&events, show).await
}
