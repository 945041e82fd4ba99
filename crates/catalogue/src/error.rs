//! Errors of the catalogue.

use std::io;
use std::path::Path;

use canon::error::{Envelope, Retry};
use canon::nearest::nearest;
use guide::workflow::problem::Problem;
use serde_json::json;

canon::error_codes! {
    /// Error codes of the catalogue.
    pub enum CatalogueErrorCode {
        /// No source has a workflow with that id.
        NotFound => "NOT_FOUND",
        /// A file has that id but is not a valid workflow, or its bindings are invalid.
        Invalid => "PRECONDITION_FAILED",
        /// The given path is not a folder.
        InvalidPath => "VALIDATION_ERROR",
        /// The list of sources cannot be read or written, or another process is changing it.
        StoreTrouble => "INTERNAL_ERROR",
    }
}

/// The maximum number of similar ids that are suggested.
const NEAREST: usize = 3;
/// The maximum number of problems in an error. The validation command lists all of them.
const PROBLEMS_SHOWN: usize = 10;

/// No workflow has that id.
pub(super) fn not_found(workflow_id: &str, known: &[&str], unreadable: &[String]) -> Envelope {
    let shown = shortened(workflow_id);
    let mut near = nearest(workflow_id, known, NEAREST);
    if near.is_empty() && (3..=64).contains(&workflow_id.len()) {
        let word = workflow_id.rsplit('.').next().unwrap_or(workflow_id);
        near = known.iter().filter(|id| word.len() >= 3 && id.contains(word)).take(NEAREST).collect();
    }
    let near: Vec<&str> = near.into_iter().copied().collect();
    let suggestion = if near.is_empty() {
        "Call list_workflows (or `interlock workflow list`) to list all workflow ids.".to_owned()
    } else {
        let names: Vec<String> = near.iter().map(|id| format!("`{id}`")).collect();
        format!("Did you mean {}? list_workflows lists all ids.", names.join(" or "))
    };
    let mut envelope = Envelope::new(CatalogueErrorCode::NotFound, format!("Workflow {shown:?} not found."))
        .suggest(suggestion)
        .detail("workflowId", shown)
        .detail("nearest", json!(near));
    if !unreadable.is_empty() {
        envelope = envelope.detail("unreadableSources", json!(unreadable[..unreadable.len().min(NEAREST)]));
    }
    envelope
}

/// A file has that id but is invalid.
pub(super) fn invalid(workflow_id: &str, file: &str, problems: &[Problem]) -> Envelope {
    let cause = problems.first().map_or_else(
        || "it is not valid".to_owned(),
        |problem| {
            if problem.path.is_empty() {
                problem.message.clone()
            } else {
                format!("{}: {}", problem.path, problem.message)
            }
        },
    );
    let more = match problems.len() {
        0 | 1 => String::new(),
        count => format!(" ({} more)", count - 1),
    };
    let fix = problems.first().map_or("", |problem| problem.fix.as_str());
    let shown: Vec<_> = problems
        .iter()
        .take(PROBLEMS_SHOWN)
        .map(|problem| {
            json!({
                "path": problem.path, "code": problem.code, "message": problem.message, "fix": problem.fix,
            })
        })
        .collect();
    Envelope::new(
        CatalogueErrorCode::Invalid,
        format!("The workflow {:?} cannot be used: in {file}, {cause}{more}.", shortened(workflow_id)),
    )
    .suggest(format!("{fix} `interlock workflow validate` lists every problem of a file.").trim_start())
    .detail("workflowId", shortened(workflow_id))
    .detail("file", file)
    .detail("problems", json!(shown))
}

/// A path that cannot be a source.
pub(super) fn invalid_path(path: &str, why: &str, fix: &str) -> Envelope {
    Envelope::new(
        CatalogueErrorCode::InvalidPath,
        format!("{:?} cannot be a source: {why}.", shortened(path)),
    )
    .suggest(fix)
    .detail("path", shortened(path))
}

/// Another process is changing the list of sources.
pub(super) fn busy(file: &Path) -> Envelope {
    Envelope::new(
        CatalogueErrorCode::StoreTrouble,
        format!("Another process is changing {}.", file.display()),
    )
    .suggest("Nothing was changed, and your input is not the cause. Retry this call in a moment.")
    .retry(Retry::AfterMs(250))
}

/// The list of sources cannot be read.
pub(super) fn unreadable_store(file: &Path, why: &str) -> Envelope {
    Envelope::new(CatalogueErrorCode::StoreTrouble, format!("{} cannot be used: {why}.", file.display()))
        .suggest(
            "Nothing was changed. Correct that file by hand, or move it away to begin with an empty list.",
        )
        .detail("file", file.display().to_string())
}

/// The list of sources cannot be written.
pub(super) fn unwritable_store(file: &Path, error: &io::Error) -> Envelope {
    Envelope::new(CatalogueErrorCode::StoreTrouble, format!("{} cannot be written: {error}.", file.display()))
        .suggest("Nothing was changed. Free disk space, or get permission to write there, then retry.")
        .detail("file", file.display().to_string())
}

/// No file for a list of sources is configured.
pub(super) fn no_store() -> Envelope {
    Envelope::new(CatalogueErrorCode::StoreTrouble, "This process keeps no list of workflow sources.")
        .suggest("Name folders with --workflows instead, or start it with a data directory.")
}

/// Shortens text of the caller for a message.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
