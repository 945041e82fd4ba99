//! The guided service for tests without a runtime: each call runs to its end on the calling thread.

use std::path::Path;
use std::sync::Arc;

use catalogue::Catalogue;
use guide::record::{NodeId, RunId, SessionId, WorkflowHash};
use guide::workflow::compiled::CompiledWorkflow;
use guided::api::{CheckpointReply, ContinueRequest, Reply, ResumeReply, ResumeRequest, StartRequest};
use guided::view::{NodeLook, Pin, SessionLook, ShelfPage};
use guided::{GuidedOptions, ImportOutcome, Refusal, SalvagedExport, Verifier};
use storage::files::{FileSessions, SessionFiles};
use system::{Clock, Entropy};

#[derive(Debug)]
pub(crate) struct Guided {
    inner: guided::Guided,
    store: FileSessions,
}

impl Guided {
    pub(crate) fn new(
        files: SessionFiles,
        catalogue: Catalogue,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self::verifying(files, catalogue, clock, entropy, Verifier::none())
    }

    pub(crate) fn verifying(
        files: SessionFiles,
        catalogue: Catalogue,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        verifier: Arc<Verifier>,
    ) -> Self {
        let store = FileSessions::new(files);
        let inner = guided::Guided::new(GuidedOptions {
            store: Arc::new(store.clone()),
            catalogue,
            clock,
            entropy,
            verifier,
            advanced: Arc::default(),
        });
        Self { inner, store }
    }

    pub(crate) fn store(&self) -> &FileSessions {
        &self.store
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        self.inner.catalogue()
    }

    pub(crate) fn files(&self) -> &SessionFiles {
        self.store.files()
    }

    pub(crate) fn start(&self, request: StartRequest) -> Result<Reply, Refusal> {
        ports::wait(self.inner.start(request))
    }

    pub(crate) fn proceed(&self, request: ContinueRequest) -> Result<Reply, Refusal> {
        ports::wait(self.inner.proceed(request))
    }

    pub(crate) fn checkpoint(&self, token: &str, notes: Option<&str>) -> Result<CheckpointReply, Refusal> {
        ports::wait(self.inner.checkpoint(token, notes))
    }

    pub(crate) fn resume(&self, request: &ResumeRequest) -> Result<ResumeReply, Refusal> {
        ports::wait(self.inner.resume(request))
    }

    pub(crate) fn pinned(&self, hash: WorkflowHash) -> Result<Arc<CompiledWorkflow>, Refusal> {
        ports::wait(self.inner.pinned(hash))
    }

    pub(crate) fn export(&self, id: &SessionId) -> Result<Vec<u8>, Refusal> {
        ports::wait(self.inner.export(id))
    }

    pub(crate) fn export_sound_part(&self, id: &SessionId) -> Result<SalvagedExport, Refusal> {
        ports::wait(self.inner.export_sound_part(id))
    }

    pub(crate) fn import(&self, bytes: &[u8], as_new: bool) -> Result<ImportOutcome, Refusal> {
        ports::wait(self.inner.import(bytes.to_vec(), as_new))
    }

    pub(crate) fn look(
        &self,
        id: &SessionId,
        run: Option<&RunId>,
        page: Option<usize>,
        address: &(dyn Fn(&NodeId) -> String + Sync),
    ) -> Result<SessionLook, Refusal> {
        ports::wait(self.inner.look(id, run, page, address))
    }

    pub(crate) fn look_at_node(&self, id: &SessionId, node: &NodeId) -> Result<Option<NodeLook>, Refusal> {
        ports::wait(self.inner.look_at_node(id, node))
    }

    pub(crate) fn shelf(&self, first: usize, limit: usize) -> Result<ShelfPage, Refusal> {
        ports::wait(self.inner.shelf(first, limit))
    }

    pub(crate) fn pin(
        &self,
        id: &SessionId,
        run: Option<&RunId>,
        is_open: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<Option<Pin>, Refusal> {
        ports::wait(self.inner.pin(id, run, is_open))
    }
}
