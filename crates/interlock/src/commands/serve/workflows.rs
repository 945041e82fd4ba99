//! Workflow files: loaded, and loaded again when they change.
//!
//! A run pins the digest of its definition when it is created, so a file that changes touches no run that is under way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use canon::{json, yaml};
use flow::id::{Principal, Tenant, WorkflowId};
use host::runs::{Caller, Runs, Scope};
use serde_json::Value;
use server::http::Fixtures;

use super::TENANT;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// The longest workflow file.
const FILE_BYTES: u64 = 8 << 20;
const YAML: yaml::Limits = yaml::Limits {
    max_bytes: 8 << 20,
    // The reader recurses: this is what fits into the stack of a thread in every build.
    max_depth: 64,
    max_nodes: 1_000_000,
    max_aliases: 1000,
    tags: yaml::Tags::Ignored,
    booleans: yaml::Booleans::Yaml11,
};

/// What a workflow file is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// A workflow that is run: it has `nodes`.
    Run(Value),
    /// A workflow that guides: it has `steps`.
    Guided,
    /// Something else, with the reason.
    Neither(String),
}

/// What is known of the files: when each was changed last.
pub(super) type Seen = BTreeMap<PathBuf, (SystemTime, u64)>;

fn caller() -> Caller {
    Caller {
        tenant: Tenant::new(TENANT),
        principal: Principal::new("files"),
        scopes: vec![Scope::ManifestWrite],
        test: false,
    }
}

/// The workflow files at the top of a folder, by name.
pub(crate) fn folder(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_workflow = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "yaml" | "yml")) && path.is_file()
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_workflow).collect();
    files.sort();
    files
}

/// Reads a workflow file and tells its kind by its shape.
pub(crate) fn read(path: &Path) -> Found {
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > FILE_BYTES {
        return Found::Neither(format!("it has {size} bytes, and a workflow has at most {FILE_BYTES}"));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Found::Neither(error.to_string()),
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
        Ok(document) if document.get("nodes").is_some() => Found::Run(document),
        Ok(document) if document.get("steps").is_some() => Found::Guided,
        Ok(_) => Found::Neither("it has neither `nodes` nor `steps`".to_owned()),
        Err(reason) => Found::Neither(reason),
    }
}

/// Registers the workflow of a file; the reason where it is none that can be run.
pub(crate) async fn register(runs: &Runs, path: &Path) -> Result<Option<WorkflowId>, String> {
    match read(path) {
        Found::Run(document) => match runs.register(&caller(), &document).await {
            Ok(definition) => Ok(Some(definition.id.clone())),
            Err(refusal) => Err(refusal.message),
        },
        Found::Guided => Ok(None),
        Found::Neither(reason) => Err(reason),
    }
}

/// Loads every file, and says which were left out.
pub(super) async fn load(runs: &Runs, dirs: &[PathBuf], fixtures: &Fixtures) -> Seen {
    let mut seen = Seen::new();
    update(runs, dirs, &mut seen, fixtures).await;
    seen
}

/// Loads what changes, for ever.
pub(super) async fn watch(runs: Runs, dirs: Vec<PathBuf>, mut seen: Seen, fixtures: Fixtures) {
    if dirs.is_empty() {
        return;
    }
    loop {
        tokio::time::sleep(EVERY).await;
        update(&runs, &dirs, &mut seen, &fixtures).await;
    }
}

async fn update(runs: &Runs, dirs: &[PathBuf], seen: &mut Seen, fixtures: &Fixtures) {
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
                tracing::info!(file = %path.display(), "workflow loaded, for agents over MCP");
            }
            Err(reason) => tracing::warn!(file = %path.display(), reason, "no workflow was loaded"),
        }
    }
    if changed && let Ok(workflows) = runs.workflows(&caller()) {
        fixtures.set(workflows.into_iter().map(|(workflow_id, _)| workflow_id));
    }
}
