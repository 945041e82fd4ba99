//! `interlock workflow new`.

use std::path::{Path, PathBuf};

use canon::error::Envelope;
use guide::workflow::ids::{self, IdStatus, SourceOrigin};
use guide::workflow::source::Format;
use serde_json::json;

use super::starter;
use crate::arguments::{SourceFormat, WorkflowNew};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout, Overwrite};

pub(super) fn run(arguments: &WorkflowNew) -> Result<ExitStatus, Failure> {
    let id = &arguments.id;
    check(id)?;
    let to_stdout = arguments.output.as_deref() == Some(Path::new("-"));
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{}.yaml", id.rsplit('.').next().unwrap_or(id))),
    };
    let by_name = Format::of_name(&path.display().to_string());
    let format = match (arguments.format, by_name) {
        (Some(SourceFormat::Json), None | Some(Format::Json)) | (None, Some(Format::Json)) => Format::Json,
        (Some(SourceFormat::Yaml), None | Some(Format::Yaml)) | (None, Some(Format::Yaml)) => Format::Yaml,
        (None, None) if to_stdout => Format::Yaml,
        (Some(_), Some(_)) | (None, None) => return Err(unclear(&path)),
    };
    let text = starter::text(id, format);
    if to_stdout {
        output::bytes(text.as_bytes())?;
        return Ok(ExitStatus::Success);
    }
    let advice = "Choose another name with -o. Existing files are never overwritten.";
    // The project may not have a workflows folder yet.
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|cause| Failure::Unwritable { name: folder.display().to_string(), cause })?;
    }
    output::write_file(&path, text.as_bytes(), Overwrite::Refuse { advice })?;
    if arguments.answering.json {
        output::json(&json!({"workflowId": id, "file": path.display().to_string()}), Layout::Compact)?;
    } else {
        let file = path.display();
        output::text(&format!(
            "Created {file}, a workflow that works without changes. Edit it, then run:\n  interlock workflow validate {file}\n\
             Agents find it in `workflows/` of a project, in the user's directory, or in a configured directory."
        ))?;
    }
    Ok(ExitStatus::Success)
}

fn check(id: &str) -> Result<(), Failure> {
    let reason = match ids::check(id, SourceOrigin::Project) {
        Ok(IdStatus::Namespaced) => return Ok(()),
        Ok(IdStatus::Legacy) => format!("{id:?} has no namespace; new workflows require one"),
        Err(error) => error.to_string(),
    };
    let suggestion = ids::suggest(id, SourceOrigin::Project, id.as_bytes(), |_| false);
    Err(Envelope::new(CommandErrorCode::WorkflowIdInvalid, format!("{reason}."))
        .suggest(format!("Use `namespace.name`, for example `{suggestion}`. Nothing was written."))
        .detail("suggestedId", suggestion)
        .into())
}

fn unclear(path: &Path) -> Failure {
    let cause = std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        "the file name does not match --format; use a name that ends in .json, .yaml or .yml",
    );
    Failure::unwritable(Some(path), cause)
}
