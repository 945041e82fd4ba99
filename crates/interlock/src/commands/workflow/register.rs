//! `interlock workflow register`.

use std::path::Path;

use canon::error::Envelope;
use runs::ApiCode;
use serde_json::{Value, json};

use crate::api::{Api, ServerCode, block_on};
use crate::arguments::{Globals, WorkflowRegister};
use crate::commands::serve::{WorkflowFile, read_workflow};
use crate::contexts::Contexts;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, GOOD, Layout, Overwrite, write_file};
use crate::settings::Settings;

pub(super) fn run(
    arguments: &WorkflowRegister,
    globals: &Globals,
    settings: &Settings,
) -> Result<ExitStatus, Failure> {
    let mut registered = Vec::new();
    for path in &arguments.files {
        let document = match read_workflow(path) {
            WorkflowFile::Run(document) => to_server(&document, path, arguments, globals)?,
            WorkflowFile::Guided => to_folder(path, arguments, globals, settings)?,
            WorkflowFile::Neither(reason) => return Err(unusable(path, &reason)),
        };
        if !arguments.target.answering.json {
            output::text(&format!(
                "{GOOD}Registered{GOOD:#} {} workflow {} ({})",
                document["kind"].as_str().unwrap_or_default(),
                document["workflowId"].as_str().unwrap_or_default(),
                document["at"].as_str().unwrap_or_default(),
            ))?;
        }
        registered.push(document);
    }
    if arguments.target.answering.json {
        output::json(&json!({"registered": registered}), Layout::Compact)?;
    }
    Ok(ExitStatus::Success)
}

/// A run workflow is registered with the server.
fn to_server(
    document: &Value,
    path: &Path,
    arguments: &WorkflowRegister,
    globals: &Globals,
) -> Result<Value, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let reply =
        block_on(api.register(document)).map_err(|failure| match failure {
            Failure::Refused(envelope) if envelope.has_code(ServerCode(ApiCode::ValidationError)) => {
                Failure::Refused(Box::new(envelope.suggest(format!(
                    "See all problems with `interlock workflow validate {}`.",
                    path.display()
                ))))
            }
            failure => failure,
        })?;
    Ok(
        json!({"kind": "run", "workflowId": reply["workflowId"], "at": format!("context {}", api.name()), "file": path.display().to_string()}),
    )
}

/// A guided workflow is copied into the user's folder, from which `mcp` and `serve` load it.
fn to_folder(
    path: &Path,
    arguments: &WorkflowRegister,
    globals: &Globals,
    settings: &Settings,
) -> Result<Value, Failure> {
    let contexts = Contexts::load()?;
    let selected = contexts.selected(arguments.target.context.as_deref(), globals.data_dir.is_some())?;
    if let Some(context) = selected {
        let message =
            format!("{} is a guided workflow, and context {} is remote.", path.display(), context.name);
        return Err(Envelope::new(CommandErrorCode::InputUnreadable, message)
            .suggest("Servers load guided workflows from files: copy it into a folder of its setting `guide.workflow_dirs`.")
            .into());
    }
    let validation = super::validated(path)?;
    let Some(compiled) = validation.compiled.filter(|_| validation.problems.is_empty()) else {
        let first = validation.problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
        return Err(unusable(path, &first));
    };
    let Some(folder) = &settings.user_workflows else {
        return Err(Envelope::new(
            CommandErrorCode::DataDirUnknown,
            "The folder for workflows is unknown because HOME is not set.",
        )
        .suggest("Set HOME or XDG_CONFIG_HOME.")
        .into());
    };
    std::fs::create_dir_all(folder).map_err(|cause| Failure::unwritable(Some(folder), cause))?;
    let id = compiled.workflow.workflow_id;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("yaml");
    let target = folder.join(format!("{id}.{extension}"));
    let bytes = std::fs::read(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
    // The same file again is not an error.
    if std::fs::read(&target).ok().as_deref() != Some(&bytes) {
        let overwrite = match arguments.replace {
            true => Overwrite::Replace,
            false => Overwrite::Refuse { advice: "Pass --replace to replace it." },
        };
        write_file(&target, &bytes, overwrite)?;
    }
    Ok(
        json!({"kind": "guided", "workflowId": id, "at": target.display().to_string(), "file": path.display().to_string()}),
    )
}

fn unusable(path: &Path, reason: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, format!("{}: {reason}", path.display()))
        .suggest(format!("See all problems with `interlock workflow validate {}`.", path.display()))
        .into()
}
