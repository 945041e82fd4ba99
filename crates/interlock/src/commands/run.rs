//! `interlock run`.

mod local;
mod server;
mod show;

use std::path::Path;

use canon::error::Envelope;
use canon::json;
use flow::id::RunId;
use flow::run::RunStatus;
use flow::snapshot::RunView;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::arguments::{Globals, Run};
use crate::commands::serve::serving;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::settings::Settings;

/// A started run and its last known state.
struct Started {
    view: RunView,
    /// The same state as the API returns it, with the tokens of an interrupt.
    snapshot: Box<RawValue>,
}

impl Started {
    fn read(snapshot: &[u8]) -> Result<Self, Failure> {
        let unreadable = |error: serde_json::Error| {
            let message = format!("the run was started, but its state cannot be read: {error}");
            Envelope::new(CommandErrorCode::HostRefused, message)
                .suggest("See the run in the console, or with `interlock runs list`.")
        };
        Ok(Self {
            view: RunView::read(snapshot).map_err(unreadable)?,
            snapshot: serde_json::from_slice(snapshot).map_err(unreadable)?,
        })
    }
}

/// The result for programs. The fields are sorted by name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'s> {
    run: &'s RawValue,
    run_id: &'s RunId,
    status: RunStatus,
}

/// Starts a run on the data directory's server, or in this process, and shows the result.
pub(crate) fn run(arguments: &Run, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    let inputs = inputs(arguments.inputs.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
    let started = runtime.block_on(async {
        match serving(&settings) {
            Some(serving) => server::start(arguments, inputs, &serving, &settings).await,
            None => local::start(arguments, inputs, &settings).await,
        }
    })?;
    if arguments.answering.json {
        let Started { view, snapshot } = &started;
        let printed = Printed { run: snapshot, run_id: &view.run_id, status: view.status };
        output::json(&printed, Layout::Compact)?;
    } else {
        output::text(&show::ending(&started, arguments.follow))?;
    }
    Ok(ExitStatus::success_if(!arguments.follow || started.view.status == RunStatus::Completed))
}

/// The inputs: a JSON object, or a file with one.
fn inputs(given: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let Some(given) = given else { return Ok(Map::new()) };
    let bytes = if given.trim_start().starts_with('{') {
        given.as_bytes().to_vec()
    } else {
        std::fs::read(given).map_err(|cause| Failure::Unreadable { name: given.to_owned(), cause })?
    };
    match json::read(&bytes, &json::Limits::default()) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(Envelope::new(CommandErrorCode::InputUnreadable, "the inputs are not a JSON object")
            .suggest("Pass an object, such as '{\"name\": \"value\"}', or a file with one.")
            .into()),
        Err(error) => Err(error.envelope().into()),
    }
}

/// Whether the workflow is a file.
fn is_file(workflow: &str) -> bool {
    Path::new(workflow).extension().is_some() || workflow.contains('/')
}
