//! The guided service: start, continue, checkpoint and resume over the durable log.
//!
//! Each call loads facts, asks the pure engine, appends what it gives, and answers. A call whose
//! outcome is in the log already is answered from there, without a lock and without deciding
//! anything again; telling a caller where a run is touches no file at all.

pub mod api;
mod checkpoint;
mod children;
mod cut_notes;
mod gaps;
pub mod linked;
mod missing_context;
mod open_run;
mod people;
mod portability;
mod position;
mod proceed;
mod refusal;
mod reply;
mod resume;
mod sessions;
mod start;
mod tenants;
mod verify;
pub mod view;
mod workspace_roots;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use guide::record::WorkflowHash;
use guide::state::Run;
use guide::token::Keyring;
use guide::workflow::compiled::{COMPILED_VERSION, CompiledWorkflow};
use storage::files::{Loaded, SessionFiles};
use storage::index::{Index, Projection};
use tokio::sync::Notify;

pub use open_run::OpenRun;
pub use people::{Questions, WaitingRun};
pub use portability::{ImportOutcome, SalvagedExport};
pub use refusal::{GuidedErrorCode, Refusal, is_failure};
pub use tenants::{DEFAULT_TENANT, Tenants, is_tenant_name};
pub(crate) use verify::INHERITED;
pub use verify::{AllowedCommand, Verifier, Workspaces};
pub use workspace_roots::WorkspaceRoots;

use crate::catalogue::Catalogue;
use crate::system::{Clock, Entropy};
use sessions::Sessions;

/// How many pinned workflows are kept in memory.
const CACHED_WORKFLOWS: usize = 16;

/// Guided sessions of one data directory.
pub struct Guided {
    files: SessionFiles,
    index: Index,
    catalogue: Catalogue,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    sessions: Sessions,
    making_keys: Mutex<()>,
    shelf: view::Shelf,
    workflows: Mutex<HashMap<WorkflowHash, Arc<CompiledWorkflow>>>,
    /// Who wants to know that a session was advanced by this process.
    listener: OnceLock<Arc<Notify>>,
    verifier: OnceLock<Arc<Verifier>>,
}

impl std::fmt::Debug for Guided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guided").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Guided {
    /// The service over these files and workflows.
    pub fn new(
        files: SessionFiles,
        catalogue: Catalogue,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            index: Index::new(files.clone()),
            files,
            catalogue,
            clock,
            entropy,
            sessions: Sessions::default(),
            making_keys: Mutex::default(),
            shelf: view::Shelf::default(),
            workflows: Mutex::default(),
            listener: OnceLock::new(),
            verifier: OnceLock::new(),
        }
    }

    /// The workflows there are.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The files below.
    pub const fn files(&self) -> &SessionFiles {
        &self.files
    }

    /// The derived index.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// The signing keys, read anew each time: a rotation by another process takes effect at once.
    fn keyring(&self) -> Result<Keyring, Refusal> {
        if let Some(keyring) = self.files.keyring()? {
            return Ok(keyring);
        }
        // Of the first calls of a new directory one makes the keys; the others wait for it and find them.
        let _first = self.making_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entropy = [0; 32];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::no_entropy(&cause))?;
        Ok(self.files.keyring_or_create(entropy)?)
    }

    /// The compiled workflow that a run is pinned to.
    pub fn pinned(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Refusal> {
        let cached = self.workflows.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(workflow) = cached {
            return Ok(workflow);
        }
        let bytes = self.files.workflow(hash)?;
        let workflow = Arc::new(decode(hash, &bytes)?);
        self.keep_workflow(hash, &workflow);
        Ok(workflow)
    }

    /// Keeps a workflow that is stored, so that the next call of its run does not read it.
    fn keep_workflow(&self, hash: WorkflowHash, workflow: &Arc<CompiledWorkflow>) {
        let mut cached = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CACHED_WORKFLOWS && !cached.contains_key(&hash) {
            // Which one goes decides only how soon it is read again.
            cached.clear();
        }
        cached.insert(hash, Arc::clone(workflow));
    }

    /// The name of a run's workflow. One that cannot be read has none: it is only looked for by it.
    fn workflow_name(&self, run: &Run) -> Option<String> {
        self.pinned(run.workflow_hash).ok().map(|workflow| workflow.name.clone())
    }

    /// What the index keeps of a session that it does not know.
    fn project(&self, loaded: &Loaded) -> Option<Projection> {
        sessions::project(loaded, |run| self.workflow_name(run))
    }
}

/// Reads a pinned workflow. The version comes first: a newer one has members that nobody here knows.
fn decode(hash: WorkflowHash, bytes: &[u8]) -> Result<CompiledWorkflow, Refusal> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: u64,
    }
    let unreadable = |cause| refusal::unreadable_workflow(hash, &cause);
    let Version { schema_version } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if schema_version > u64::from(COMPILED_VERSION) {
        return Err(refusal::newer_workflow(hash, schema_version));
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_workflow_of_a_newer_version_is_told_as_such() {
        for (bytes, code) in [
            (&br#"{"schemaVersion":2,"future":true}"#[..], "STORE_NEWER_VERSION"),
            (br#"{"schemaVersion":1,"future":true}"#, "INTERNAL_ERROR"),
            (b"{}", "INTERNAL_ERROR"),
        ] {
            let refusal = decode(WorkflowHash::of_bytes(bytes), bytes).unwrap_err();
            assert_eq!(refusal.envelope().code(), code);
        }
    }
}
