//! Loads workflow files, and reloads them when they change.
//!
//! A run is pinned to the digest of its definition, so a changed file does not affect existing
//! runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use canon::{json, yaml};
use flow::id::{Principal, Tenant, WorkflowId};
use guide::workflow::source::is_script_name;
use host::runs::{Caller, Runs, Scope};
use serde_json::Value;
use server::http::Fixtures;

use super::TENANT;

/// The polling interval.
const EVERY: Duration = Duration::from_secs(1);
const FILE_BYTES: u64 = 8 << 20;
const YAML: yaml::Limits = yaml::Limits {
    max_bytes: 8 << 20,
    // The reader is recursive: this depth fits into a thread's stack in every build.
    max_depth: 64,
    max_nodes: 1_000_000,
    max_aliases: 1000,
    tags: yaml::Tags::Ignored,
    booleans: yaml::Booleans::Yaml11,
};

/// The kind of a workflow file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WorkflowFile {
    /// A run workflow: it has `nodes`.
    Run(Value),
    /// A guided workflow: it has `steps`.
    Guided,
    /// Neither, with the reason.
    Neither(String),
}

/// The last modification time of each known file.
pub(super) type KnownFiles = BTreeMap<PathBuf, (SystemTime, u64)>;

fn caller() -> Caller {
    Caller {
        tenant: Tenant::new(TENANT),
        principal: Principal::new("files"),
        scopes: vec![Scope::ManifestWrite],
        test: false,
    }
}

/// The workflow files at the top level of a folder, sorted by name.
pub(crate) fn folder(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_workflow = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        matches!(extension, Some("json" | "yaml" | "yml")) && !is_script_name(&name) && path.is_file()
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_workflow).collect();
    files.sort();
    files
}

/// Reads a workflow file and determines its kind from its shape.
pub(crate) fn read(path: &Path) -> WorkflowFile {
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > FILE_BYTES {
        return WorkflowFile::Neither(format!("the file is {size} bytes; the limit is {FILE_BYTES} bytes"));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return WorkflowFile::Neither(error.to_string()),
    };
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let document = if is_json {
        let limits = json::Limits { max_bytes: bytes.len().max(1), ..json::Limits::default() };
        json::read(&bytes, &limits).map_err(|error| error.to_string())
    } else {
        std::str::from_utf8(&bytes)
            .map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to()))
            .and_then(|text| yaml::read::<Value>(text, &YAML).map_err(|error| error.to_string()))
    };
    match document {
        Ok(document) if document.get("nodes").is_some() => WorkflowFile::Run(document),
        Ok(document) if document.get("steps").is_some() => WorkflowFile::Guided,
        Ok(_) => WorkflowFile::Neither("the file has neither `nodes` nor `steps`".to_owned()),
        Err(reason) => WorkflowFile::Neither(reason),
    }
}

/// Registers the workflow of a file; fails with the reason if it is not a run workflow.
pub(crate) async fn register(runs: &Runs, path: &Path) -> Result<Option<WorkflowId>, String> {
    match read(path) {
        WorkflowFile::Run(document) => match runs.register(&caller(), &document).await {
            Ok(definition) => Ok(Some(definition.id.clone())),
            Err(refusal) => Err(refusal.message),
        },
        WorkflowFile::Guided => Ok(None),
        WorkflowFile::Neither(reason) => Err(reason),
    }
}

/// Loads all files and logs those that were skipped.
pub(super) async fn load(runs: &Runs, dirs: &[PathBuf], fixtures: &Fixtures) -> KnownFiles {
    let mut seen = KnownFiles::new();
    update(runs, dirs, &mut seen, fixtures).await;
    seen
}

/// Reloads changed files forever.
pub(super) async fn watch(runs: Runs, dirs: Vec<PathBuf>, mut seen: KnownFiles, fixtures: Fixtures) {
    if dirs.is_empty() {
        return;
    }
    loop {
        tokio::time::sleep(EVERY).await;
        update(&runs, &dirs, &mut seen, &fixtures).await;
    }
}

async fn update(runs: &Runs, dirs: &[PathBuf], seen: &mut KnownFiles, fixtures: &Fixtures) {
    let mut changed = false;
    for path in dirs.iter().flat_map(|dir| folder(dir)) {
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        let state = (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len());
        if seen.insert(path.clone(), state) == Some(state) {
            continue;
        }
        changed = true;
        match register(runs, &path).await {
            Ok(Some(workflow_id)) => {
                tracing::info!(file = %path.display(), workflow_id = workflow_id.as_str(), "workflow loaded");
            }
            Ok(None) => {
                tracing::info!(file = %path.display(), "guided workflow loaded");
            }
            Err(reason) => tracing::warn!(file = %path.display(), reason, "workflow file skipped"),
        }
    }
    if changed && let Ok(workflows) = runs.workflows(&caller()).await {
        fixtures.set(workflows.into_iter().map(|(workflow_id, _)| workflow_id));
    }
}
