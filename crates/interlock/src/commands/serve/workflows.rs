//! Loads workflow files, and reloads them when they change.
//!
//! A run is pinned to the digest of its definition, so a changed file does not affect existing
//! runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use canon::{json, yaml};
use executors::Executors;
use flow::id::{Principal, Tenant, WorkflowId};
use guide::workflow::source::is_script_name;
use runs::{Caller, Runs, Scope};
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

/// A file, as it was when it was last read.
pub(super) struct KnownFile {
    modified: SystemTime,
    bytes: u64,
    /// The workflow that was registered from it, if it can be advertised to conformance suites.
    fixture: Option<WorkflowId>,
}

/// The files that were read.
pub(super) type KnownFiles = BTreeMap<PathBuf, KnownFile>;

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
    register_document(runs, &read(path)).await
}

async fn register_document(runs: &Runs, file: &WorkflowFile) -> Result<Option<WorkflowId>, String> {
    match file {
        WorkflowFile::Run(document) => match runs.definitions().register(&caller(), document).await {
            Ok(definition) => Ok(Some(definition.id.clone())),
            Err(refusal) => Err(refusal.message),
        },
        WorkflowFile::Guided => Ok(None),
        WorkflowFile::Neither(reason) => Err(reason.clone()),
    }
}

/// Whether a conformance workflow can be tested here: the packs and agents that its `metadata` names are installed.
fn has_its_agents(runs: &Runs, file: &WorkflowFile) -> bool {
    let WorkflowFile::Run(document) = file else { return false };
    let agents = runs.features().executors().and_then(Executors::agents);
    let named = |member: &str| document.pointer(&format!("/metadata/{member}")).and_then(Value::as_str);
    let is_installed = |agent_id: &str| agents.is_some_and(|agents| agents.get(agent_id).is_some());
    let has_pack = |name: &str| agents.is_some_and(|agents| agents.has_pack(name));
    named("requiresInstalledPack").is_none_or(has_pack)
        && named("requiresWorkspaceAgent").is_none_or(is_installed)
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
        let (modified, bytes) = (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len());
        if seen.get(&path).is_some_and(|known| (known.modified, known.bytes) == (modified, bytes)) {
            continue;
        }
        changed = true;
        let file = read(&path);
        let fixture = match register_document(runs, &file).await {
            Ok(Some(workflow_id)) => {
                tracing::info!(file = %path.display(), workflow_id = workflow_id.as_str(), "workflow loaded");
                Some(workflow_id).filter(|_| has_its_agents(runs, &file))
            }
            Ok(None) => {
                tracing::info!(file = %path.display(), "guided workflow loaded");
                None
            }
            Err(reason) => {
                tracing::warn!(file = %path.display(), reason, "workflow file skipped");
                None
            }
        };
        seen.insert(path, KnownFile { modified, bytes, fixture });
    }
    if changed {
        // Only what this process could register: a workflow that an earlier process registered may need an agent that is gone.
        fixtures.set(seen.values().filter_map(|known| known.fixture.clone()));
    }
}
