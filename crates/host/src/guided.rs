//! The guided service: start, continue, checkpoint and resume over the durable log.
//!
//! Each call loads facts, asks the pure engine, appends what it gives, and answers. A call whose
//! outcome is in the log already is answered from there, without a lock and without deciding
//! anything again; telling a caller where a run is touches no file at all.

pub mod api;
mod checkpoint;
mod place;
mod portability;
mod proceed;
mod refusal;
mod reply;
mod resume;
mod sessions;
mod start;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guide::record::WorkflowHash;
use guide::token::Keyring;
use guide::workflow::compiled::CompiledWorkflow;
use storage::files::SessionFiles;
use storage::index::Index;

pub use portability::ImportOutcome;
pub use refusal::{GuidedErrorCode, Refusal};

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
    workflows: Mutex<HashMap<WorkflowHash, Arc<CompiledWorkflow>>>,
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
            workflows: Mutex::default(),
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
        let mut entropy = [0; 32];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::no_entropy(&cause))?;
        Ok(self.files.keyring_or_create(entropy)?)
    }

    /// The compiled workflow that a run is pinned to.
    pub fn pinned(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Refusal> {
        let mut cached = self.workflows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workflow) = cached.get(&hash) {
            return Ok(Arc::clone(workflow));
        }
        let bytes = self.files.workflow(hash)?;
        let workflow: CompiledWorkflow =
            serde_json::from_slice(&bytes).map_err(|cause| refusal::unreadable_workflow(hash, &cause))?;
        let workflow = Arc::new(workflow);
        if cached.len() >= CACHED_WORKFLOWS {
            // Which one goes decides only how soon it is read again.
            cached.clear();
        }
        cached.insert(hash, Arc::clone(&workflow));
        Ok(workflow)
    }
}
