//! What the MCP surface needs of the services behind it.

use std::path::PathBuf;
use std::sync::Arc;

use canon::error::Envelope;
use catalogue::{Listing, ResolvedWorkflow};
use guide::engine::PeopleAnswers;
use guide::record::WorkflowHash;
use guided::api::{CheckpointReply, ContinueRequest, Reply, ResumeReply, ResumeRequest, StartRequest};
use guided::{Guided, Questions, Refusal};
use ports::{PortFuture, blocking};

use crate::tool::Tool;

/// The result of a call to the service, or the envelope with the error.
pub type ServiceResult<T> = Result<T, Box<Envelope>>;

/// The same as a future.
pub type ServiceFuture<'a, T> = PortFuture<'a, ServiceResult<T>>;

/// Guided sessions and the catalogue of workflows.
///
/// # Contract
/// * No method blocks the thread that polls its future.
/// * An `Err` is complete: it says what went wrong and what to do next, and is sent as it is.
pub trait GuideService: Send + Sync + 'static {
    /// Whether the caller may use a tool. Checked before the arguments of a call are read, and for the list of tools.
    ///
    /// # Errors
    /// The tool is not allowed.
    fn admit(&self, _tool: Tool) -> ServiceResult<()> {
        Ok(())
    }

    /// Starts a run. Fails for an unknown or invalid workflow, an invalid context, and errors of the store.
    fn start(&self, request: StartRequest) -> ServiceFuture<'_, Reply>;

    /// Advances a run, or describes where it is. Fails for tokens that cannot be used for this, output that is not accepted, and
    /// errors of the store.
    fn proceed(&self, request: ContinueRequest) -> ServiceFuture<'_, Reply>;

    /// The questions that a person must answer before this call can advance its run; `None` if there are none. Fails as
    /// [`Self::proceed`].
    fn questions<'a>(&'a self, _request: &'a ContinueRequest) -> ServiceFuture<'a, Option<Questions>> {
        PortFuture::ready(Ok(None))
    }

    /// [`Self::proceed`], with the answers of a person who was asked before.
    fn proceed_with(&self, request: ContinueRequest, _people: PeopleAnswers) -> ServiceFuture<'_, Reply> {
        self.proceed(request)
    }

    /// Makes a checkpoint. Fails for tokens that cannot be used for this, and errors of the store.
    fn checkpoint<'a>(
        &'a self,
        checkpoint_token: &'a str,
        notes: Option<&'a str>,
    ) -> ServiceFuture<'a, CheckpointReply>;

    /// Finds a run to resume. Fails for errors of the store.
    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> ServiceFuture<'a, ResumeReply>;

    /// All workflows that can be started in a workspace. A broken file is part of the result.
    fn list(&self, workspace: Option<PathBuf>) -> PortFuture<'_, Listing>;

    /// The hash that a run of a bundled workflow would be pinned to. Listings leave it out, because it takes compiling.
    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash>;

    /// A workflow as a run started now would be pinned to it. Fails for an unknown or invalid workflow.
    fn find(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> ServiceFuture<'_, Arc<ResolvedWorkflow>>;

    /// Adds a folder to the sources, and gives its path as it is kept. Fails for a path that is not a folder, and errors of the
    /// list of sources.
    fn attach(&self, path: String) -> ServiceFuture<'_, String>;

    /// Removes a folder from the sources, and gives its path as it was kept. Fails for errors of the list of sources.
    fn detach(&self, path: String) -> ServiceFuture<'_, String>;
}

impl GuideService for Guided {
    fn start(&self, request: StartRequest) -> ServiceFuture<'_, Reply> {
        PortFuture::boxed(async move { self.start(request).await.map_err(Refusal::into_envelope) })
    }

    fn proceed(&self, request: ContinueRequest) -> ServiceFuture<'_, Reply> {
        PortFuture::boxed(async move { self.proceed(request).await.map_err(Refusal::into_envelope) })
    }

    fn questions<'a>(&'a self, request: &'a ContinueRequest) -> ServiceFuture<'a, Option<Questions>> {
        PortFuture::boxed(async move { self.questions(request).await.map_err(Refusal::into_envelope) })
    }

    fn proceed_with(&self, request: ContinueRequest, people: PeopleAnswers) -> ServiceFuture<'_, Reply> {
        PortFuture::boxed(
            async move { self.proceed_with(request, people).await.map_err(Refusal::into_envelope) },
        )
    }

    fn checkpoint<'a>(
        &'a self,
        checkpoint_token: &'a str,
        notes: Option<&'a str>,
    ) -> ServiceFuture<'a, CheckpointReply> {
        PortFuture::boxed(async move {
            self.checkpoint(checkpoint_token, notes).await.map_err(Refusal::into_envelope)
        })
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> ServiceFuture<'a, ResumeReply> {
        PortFuture::boxed(async move { self.resume(request).await.map_err(Refusal::into_envelope) })
    }

    fn list(&self, workspace: Option<PathBuf>) -> PortFuture<'_, Listing> {
        PortFuture::boxed(self.list_workflows(workspace))
    }

    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash> {
        self.catalogue().bundled_hash(workflow_id)
    }

    fn find(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> ServiceFuture<'_, Arc<ResolvedWorkflow>> {
        PortFuture::boxed(async move { self.find_workflow(workspace, workflow_id).await.map_err(Box::new) })
    }

    fn attach(&self, path: String) -> ServiceFuture<'_, String> {
        let catalogue = self.catalogue().clone();
        blocking(move || catalogue.attach(&path).map_err(Box::new))
    }

    fn detach(&self, path: String) -> ServiceFuture<'_, String> {
        let catalogue = self.catalogue().clone();
        blocking(move || catalogue.detach(&path).map_err(Box::new))
    }
}
