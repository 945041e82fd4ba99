//! A run that this process carries out itself.

use std::path::Path;
use std::sync::Arc;

use canon::error::Envelope;
use flow::id::{Principal, RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use host::runs::create::Creation;
use host::runs::{Caller, Runs, Scope};
use serde_json::{Map, Value, json};

use super::{Started, is_file, show};
use crate::arguments::Run;
use crate::commands::serve::{self, TENANT, folder, open_runs, refused, register};
use crate::failure::{CommandErrorCode, Failure};
use crate::service;
use crate::settings::Settings;

pub(super) async fn start(
    arguments: &Run,
    inputs: Map<String, Value>,
    settings: &Settings,
) -> Result<Started, Failure> {
    // Nobody else serves the directory, and nobody begins to while this runs.
    let _lock = serve::take(settings)?;
    let runs = open_runs(settings, "http://127.0.0.1:7717")?;
    // A run that guides an agent is started and waits; `serve` goes on with it.
    let guided = settings.clone().with_workflow_dirs(&arguments.workflows);
    service::walk(&runs, &guided, Arc::new(service::open_tenants(&guided)?));
    let caller = Caller {
        tenant: Tenant::new(TENANT),
        principal: Principal::new("command-line"),
        scopes: Scope::ALL.to_vec(),
        test: false,
    };
    for path in arguments.workflows.iter().flat_map(|dir| folder(dir)) {
        // One that cannot be run is reported by `interlock workflow validate`; here it is only not there.
        let _ = register(&runs, &path).await;
    }
    let workflow_id = match is_file(&arguments.workflow) {
        true => from_file(&runs, Path::new(&arguments.workflow)).await?,
        false => WorkflowId::new(arguments.workflow.as_str()),
    };
    let body = json!({"workflowId": workflow_id, "inputs": inputs});
    let reply =
        runs.create(&caller, &body, Creation::default(), None).await.map_err(|refusal| refused(&refusal))?;
    let reply: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let run_id = RunId::new(reply["runId"].as_str().unwrap_or_default());
    if arguments.follow {
        let time = tokio::spawn({
            let runs = runs.clone();
            async move { runs.keep_time().await }
        });
        follow(&runs, &run_id, arguments.answering.json).await?;
        time.abort();
    }
    let (snapshot, _) = runs.read(&caller, &run_id).map_err(|refusal| refused(&refusal))?;
    let snapshot: Value = serde_json::from_slice(&snapshot).unwrap_or(Value::Null);
    runs.drain().await;
    let status = snapshot["status"].as_str().and_then(RunStatus::parse).unwrap_or_default();
    Ok(Started { run_id, status, snapshot: Some(snapshot) })
}

async fn from_file(runs: &Runs, path: &Path) -> Result<WorkflowId, Failure> {
    match register(runs, path).await {
        Ok(Some(workflow_id)) => Ok(workflow_id),
        Ok(None) => Err(Envelope::new(
            CommandErrorCode::HostRefused,
            "the workflow guides an agent and cannot be run by itself",
        )
        .suggest("Serve it to an agent with `interlock mcp`.")
        .into()),
        Err(reason) => {
            Err(Envelope::new(CommandErrorCode::HostRefused, format!("{}: {reason}", path.display()))
                .suggest("Correct the file, or give the id of a workflow that is there.")
                .into())
        }
    }
}

/// Shows events until the run ends, or somebody is needed.
async fn follow(runs: &Runs, run_id: &RunId, quiet: bool) -> Result<(), Failure> {
    let mut following = runs.follow(&Tenant::new(TENANT), run_id, 0).map_err(|refusal| refused(&refusal))?;
    let mut backlog = following.stored().map_err(|refusal| refused(&refusal))?;
    loop {
        let batch = match backlog.take() {
            Some(batch) => batch,
            None => match following.next().await.map_err(|refusal| refused(&refusal))? {
                Some(batch) => batch,
                None => return Ok(()),
            },
        };
        for (_, text) in &batch.events {
            if !quiet {
                show::event(text)?;
            }
        }
        if batch.is_last || batch.events.iter().any(|(_, text)| show::needs_somebody(text)) {
            return Ok(());
        }
    }
}
