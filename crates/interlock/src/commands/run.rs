//! `interlock run`.

mod here;
mod server;
mod show;

use std::path::Path;

use canon::error::Envelope;
use canon::json;
use flow::id::RunId;
use flow::run::RunStatus;
use serde_json::{Map, Value};

use crate::arguments::{Globals, Run};
use crate::commands::serve::serving;
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output::{self, Layout};
use crate::settings::Settings;

/// A run that was started, and how it stands as far as was watched.
struct Started {
    run_id: RunId,
    status: RunStatus,
    snapshot: Option<Value>,
}

/// Starts a run on the server of the data directory, or here, and shows what becomes of it.
pub(crate) fn run(arguments: &Run, globals: &Globals) -> Result<Answer, Failure> {
    let settings = Settings::load(globals)?;
    let inputs = inputs(arguments.inputs.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|cause| Failure::Unreadable { name: "the system's threads".to_owned(), cause })?;
    let started = runtime.block_on(async {
        match serving(&settings) {
            Some(serving) => server::start(arguments, inputs, &serving, &settings).await,
            None => here::start(arguments, inputs, &settings).await,
        }
    })?;
    if arguments.answering.json {
        let document = serde_json::json!({
            "runId": started.run_id,
            "status": started.status,
            "run": started.snapshot,
        });
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&show::ending(&started, arguments.follow))?;
    }
    Ok(Answer::yes_if(!arguments.follow || started.status == RunStatus::Completed))
}

/// The inputs: an object as it is, or a file that holds one.
fn inputs(given: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let Some(given) = given else { return Ok(Map::new()) };
    let bytes = if given.trim_start().starts_with('{') {
        given.as_bytes().to_vec()
    } else {
        std::fs::read(given).map_err(|cause| Failure::Unreadable { name: given.to_owned(), cause })?
    };
    match json::read(&bytes, &json::Limits::default()) {
        Ok(Value::Object(inputs)) => Ok(inputs),
        Ok(_) => Err(Envelope::new(CommandErrorCode::InputUnreadable, "the inputs are no JSON object")
            .suggest("Give an object, such as '{\"name\": \"value\"}', or a file that holds one.")
            .into()),
        Err(error) => Err(error.envelope().into()),
    }
}

/// Whether a workflow was given as a file.
fn is_file(workflow: &str) -> bool {
    Path::new(workflow).extension().is_some() || workflow.contains('/')
}
