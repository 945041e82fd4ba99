//! Runs a workflow in this process.

use std::path::Path;
use std::sync::Arc;

use canon::error::Envelope;
use flow::event::EventKind;
use flow::id::{Principal, RunId, Tenant, WorkflowId};
use postgres::Role;
use runs::create::Creation;
use runs::{Caller, Direct, NewRun, Runs, Scope};
use serde_json::{Map, Value};

use super::show::{self, Line};
use super::{Started, is_file};
use crate::arguments::Run;
use crate::commands::serve::{
    self, Parts, TENANT, build_runs, folder, open_store_and_keys, refused, register, session_keys,
};
use crate::failure::{CommandErrorCode, Failure};
use crate::service;
use crate::settings::Settings;

pub(super) async fn start(
    arguments: &Run,
    inputs: Map<String, Value>,
    settings: &Settings,
) -> Result<Started, Failure> {
    // The lock ensures that no other process serves the directory.
    let _lock = serve::take(settings)?;
    // A run with a guided node starts and waits; `serve` continues it.
    let guided = settings.clone().with_workflow_dirs(&arguments.workflows);
    let (store, keyring) = open_store_and_keys(settings, Role::Host)?;
    let stores = store.session_stores(&guided)?;
    let tenants = Arc::new(service::open_tenants(&guided, stores).await?);
    let guided_nodes = service::guided_nodes(&guided, session_keys(&keyring), tenants, None)?;
    let parts = Parts { guided_nodes: Some(guided_nodes), ..Parts::default() };
    let runs = build_runs(settings, "http://127.0.0.1:7717", &store, &keyring, parts)?;
    let caller = Caller {
        tenant: Tenant::new(TENANT),
        principal: Principal::new("command-line"),
        scopes: Scope::ALL.to_vec(),
        test: false,
    };
    for path in arguments.workflows.iter().flat_map(|dir| folder(dir)) {
        // `interlock workflow validate` reports files that cannot be run; here they are ignored.
        let _ = register(&runs, &path).await;
    }
    let workflow_id = match is_file(&arguments.workflow) {
        true => from_file(&runs, Path::new(&arguments.workflow)).await?,
        false => WorkflowId::new(arguments.workflow.as_str()),
    };
    let new = NewRun { inputs, ..NewRun::of(workflow_id) };
    let created = runs.commands().create(&caller, new, Creation::default(), Direct).await;
    let run_id = created.map_err(|refusal| refused(&refusal))?.run_id;
    if arguments.follow {
        let time = tokio::spawn({
            let runs = runs.clone();
            async move { runs.engine().keep_time().await }
        });
        follow(&runs, &run_id, arguments.answering.json).await?;
        time.abort();
    }
    let (snapshot, _) = runs.queries().read(&caller, &run_id).await.map_err(|refusal| refused(&refusal))?;
    runs.drain().await;
    store.close().await;
    Started::read(&snapshot)
}

async fn from_file(runs: &Runs, path: &Path) -> Result<WorkflowId, Failure> {
    match register(runs, path).await {
        Ok(Some(workflow_id)) => Ok(workflow_id),
        Ok(None) => Err(Envelope::new(
            CommandErrorCode::HostRefused,
            "the workflow has `steps` for an agent and cannot be run without one",
        )
        .suggest("Connect an agent with `interlock mcp`.")
        .into()),
        Err(reason) => {
            Err(Envelope::new(CommandErrorCode::HostRefused, format!("{}: {reason}", path.display()))
                .suggest("Fix the file, or pass the id of a registered workflow.")
                .into())
        }
    }
}

/// Prints events until the run ends or waits for a person.
async fn follow(runs: &Runs, run_id: &RunId, quiet: bool) -> Result<(), Failure> {
    let mut following =
        runs.queries().follow(&Tenant::new(TENANT), run_id, 0).await.map_err(|refusal| refused(&refusal))?;
    let mut backlog = following.stored().await.map_err(|refusal| refused(&refusal))?;
    loop {
        let batch = match backlog.take() {
            Some(batch) => batch,
            None => match following.next().await.map_err(|refusal| refused(&refusal))? {
                Some(batch) => batch,
                None => return Ok(()),
            },
        };
        let events = batch.decoded().map_err(|refusal| refused(&refusal))?;
        if !quiet {
            for event in &events {
                show::event(&Line::of(event))?;
            }
        }
        if batch.is_last || events.iter().any(|event| event.kind == EventKind::InterruptRequested) {
            return Ok(());
        }
    }
}
