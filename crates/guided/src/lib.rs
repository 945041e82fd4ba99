//! The guided service: starts, continues, checkpoints and resumes sessions in a [store](ports::sessions).
//!
//! Each call reads the log, asks the pure engine which events to add, appends them, and replies. A call that is already
//! recorded is answered from the log, without a lock and without a new decision.
#![forbid(unsafe_code)]

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
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use canon::error::Envelope;
use guide::record::WorkflowHash;
use guide::state::{Run, SessionState};
use guide::token::Keyring;
use guide::workflow::compiled::{COMPILED_VERSION, CompiledWorkflow};
use ports::blocking;
use ports::sessions::SessionStore;
use tokio::sync::Notify;

pub use open_run::OpenRun;
pub use people::{Questions, WaitingRun};
pub use portability::{ImportOutcome, SalvagedExport};
pub use refusal::{GuidedErrorCode, Refusal, is_failure};
pub use tenants::{DEFAULT_TENANT, Tenants, TenantsOptions, is_tenant_name};
pub use verify::INHERITED;
pub use verify::{AllowedCommand, Verifier, Workspaces};
pub use workspace_roots::WorkspaceRoots;

use catalogue::{Catalogue, Listing, ResolvedWorkflow};
use sessions::Sessions;
use system::{Clock, Entropy};

/// The maximum number of pinned workflows that are cached.
const CACHED_WORKFLOWS: usize = 16;

/// The dependencies of the guided service.
pub struct GuidedOptions {
    /// The sessions of one tenant.
    pub store: Arc<dyn SessionStore>,
    pub catalogue: Catalogue,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Verifies evidence. [`Verifier::none`] allows no command and opens no workspace.
    pub verifier: Arc<Verifier>,
    /// Notified whenever this process advances a session.
    pub advanced: Arc<Notify>,
}

/// The guided sessions of one tenant.
pub struct Guided {
    store: Arc<dyn SessionStore>,
    catalogue: Catalogue,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    verifier: Arc<Verifier>,
    advanced: Arc<Notify>,
    sessions: Sessions,
    making_keys: tokio::sync::Mutex<()>,
    shelf: view::Shelf,
    workflows: Mutex<HashMap<WorkflowHash, Arc<CompiledWorkflow>>>,
}

impl std::fmt::Debug for Guided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guided").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Guided {
    pub fn new(options: GuidedOptions) -> Self {
        let GuidedOptions { store, catalogue, clock, entropy, verifier, advanced } = options;
        Self {
            store,
            catalogue,
            clock,
            entropy,
            verifier,
            advanced,
            sessions: Sessions::default(),
            making_keys: tokio::sync::Mutex::default(),
            shelf: view::Shelf::default(),
            workflows: Mutex::default(),
        }
    }

    /// The catalogue of workflows. It reads files, so its methods block: see [`Guided::list_workflows`] and
    /// [`Guided::find_workflow`].
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The store of this tenant's sessions.
    pub fn store(&self) -> &dyn SessionStore {
        &*self.store
    }

    /// Lists all workflows that can be started in a workspace. Invalid files are part of the result.
    pub async fn list_workflows(&self, workspace: Option<PathBuf>) -> Listing {
        let catalogue = self.catalogue.clone();
        blocking(move || catalogue.list(workspace.as_deref())).await
    }

    /// Finds a workflow, in the version that a run started now would be pinned to.
    ///
    /// # Errors
    /// An unknown or invalid workflow.
    pub async fn find_workflow(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> Result<Arc<ResolvedWorkflow>, Envelope> {
        let catalogue = self.catalogue.clone();
        blocking(move || catalogue.find(workspace.as_deref(), &workflow_id)).await
    }

    /// The signing keys. They are read for each call, so a rotation by another process takes effect immediately.
    async fn keyring(&self) -> Result<Keyring, Refusal> {
        if let Some(keyring) = self.store.keyring().await? {
            return Ok(keyring);
        }
        // One of the first calls on a new store creates the keys. Concurrent calls wait here and then read them.
        let _first = self.making_keys.lock().await;
        let mut entropy = [0; 32];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::random_failed(&cause))?;
        Ok(self.store.keyring_or_create(entropy).await?)
    }

    /// The compiled workflow that a run is pinned to.
    ///
    /// # Errors
    /// The workflow is missing, damaged, or was written by a newer version.
    pub async fn pinned(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Refusal> {
        let cached = self.workflows.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(workflow) = cached {
            return Ok(workflow);
        }
        let bytes = self.store.workflow(hash).await?;
        let workflow = Arc::new(decode(hash, &bytes)?);
        self.keep_workflow(hash, &workflow);
        Ok(workflow)
    }

    /// Caches a stored workflow, so that the next call of its run does not read it from the store.
    fn keep_workflow(&self, hash: WorkflowHash, workflow: &Arc<CompiledWorkflow>) {
        let mut cached = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CACHED_WORKFLOWS && !cached.contains_key(&hash) {
            // Evicting everything is correct: evicted workflows are read again on demand.
            cached.clear();
        }
        cached.insert(hash, Arc::clone(workflow));
    }

    /// The names of the workflows of a session's runs, for the index. Workflows that cannot be read are left out.
    async fn workflow_names(&self, state: &SessionState) -> WorkflowNames {
        let mut names = HashMap::with_capacity(1);
        for run in state.runs() {
            if !names.contains_key(&run.workflow_hash)
                && let Ok(workflow) = self.pinned(run.workflow_hash).await
            {
                names.insert(run.workflow_hash, workflow.name.clone());
            }
        }
        WorkflowNames(names)
    }
}

struct WorkflowNames(HashMap<WorkflowHash, String>);

impl WorkflowNames {
    fn of(&self, run: &Run) -> Option<String> {
        self.0.get(&run.workflow_hash).cloned()
    }
}

/// Parses a pinned workflow. The version is checked first, because a newer version may have unknown fields.
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
    fn a_pinned_workflow_of_a_newer_version_is_reported() {
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
