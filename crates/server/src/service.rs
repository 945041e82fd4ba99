//! What the surface needs of the services behind it.

use std::path::Path;
use std::sync::Arc;

use canon::error::Envelope;
use guide::engine::FromPeople;
use guide::record::WorkflowHash;
use host::catalogue::{Found, Listing};
use host::guided::api::{CheckpointReply, ContinueRequest, Reply, ResumeReply, ResumeRequest, StartRequest};
use host::guided::{Guided, Questions, Refusal};

use crate::tool::Tool;

/// An answer, or the one envelope that says why there is none.
pub type Answer<T> = Result<T, Box<Envelope>>;

/// Guided sessions, and the workflows there are.
///
/// # Contract
/// * Methods block: whoever calls them is on a thread where that is fine.
/// * An `Err` is complete. It says what went wrong and what to do next, and is sent as it is.
pub trait GuideService: Send + Sync + 'static {
    /// Whether whoever is served may call a tool at all. Asked before the arguments of a call are read, and for the list of tools.
    ///
    /// # Errors
    /// They may not.
    fn admit(&self, _tool: Tool) -> Answer<()> {
        Ok(())
    }

    /// Begins a run.
    ///
    /// # Errors
    /// An unknown or invalid workflow, a context that cannot be, and trouble with the store.
    fn start(&self, request: StartRequest) -> Answer<Reply>;

    /// Goes on with a run, or tells where it is.
    ///
    /// # Errors
    /// Tokens that are not good for this, output that cannot be taken, and trouble with the store.
    fn proceed(&self, request: ContinueRequest) -> Answer<Reply>;

    /// What a person has to be asked before a run can go on with this call; nothing where asking would not help.
    ///
    /// # Errors
    /// As [`Self::proceed`].
    fn questions(&self, _request: &ContinueRequest) -> Answer<Option<Questions>> {
        Ok(None)
    }

    /// Goes on with a run, with what a person said who was asked before.
    ///
    /// # Errors
    /// As [`Self::proceed`].
    fn proceed_with(&self, request: ContinueRequest, _people: FromPeople) -> Answer<Reply> {
        self.proceed(request)
    }

    /// Bookmarks a place.
    ///
    /// # Errors
    /// Tokens that are not good for this, and trouble with the store.
    fn checkpoint(&self, checkpoint_token: &str, notes: Option<&str>) -> Answer<CheckpointReply>;

    /// Finds a run again.
    ///
    /// # Errors
    /// Trouble with the store.
    fn resume(&self, request: &ResumeRequest) -> Answer<ResumeReply>;

    /// Everything there is to choose from in a workspace. A broken file is part of the answer.
    fn list(&self, workspace: Option<&Path>) -> Listing;

    /// What a run of a bundled workflow would be pinned to: listings leave it out, because it takes
    /// compiling.
    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash>;

    /// One workflow as a run started now would pin it.
    ///
    /// # Errors
    /// An unknown or invalid workflow.
    fn find(&self, workspace: Option<&Path>, workflow_id: &str) -> Answer<Arc<Found>>;

    /// Adds a folder to the sources, and gives its path as it is kept.
    ///
    /// # Errors
    /// Not a folder, or trouble with the list of sources.
    fn attach(&self, path: &str) -> Answer<String>;

    /// Removes a folder from the sources, and gives its path as it was kept.
    ///
    /// # Errors
    /// Trouble with the list of sources.
    fn detach(&self, path: &str) -> Answer<String>;
}

impl GuideService for Guided {
    fn start(&self, request: StartRequest) -> Answer<Reply> {
        self.start(request).map_err(Refusal::into_envelope)
    }

    fn proceed(&self, request: ContinueRequest) -> Answer<Reply> {
        self.proceed(request).map_err(Refusal::into_envelope)
    }

    fn questions(&self, request: &ContinueRequest) -> Answer<Option<Questions>> {
        self.questions(request).map_err(Refusal::into_envelope)
    }

    fn proceed_with(&self, request: ContinueRequest, people: FromPeople) -> Answer<Reply> {
        self.proceed_with(request, people).map_err(Refusal::into_envelope)
    }

    fn checkpoint(&self, checkpoint_token: &str, notes: Option<&str>) -> Answer<CheckpointReply> {
        self.checkpoint(checkpoint_token, notes).map_err(Refusal::into_envelope)
    }

    fn resume(&self, request: &ResumeRequest) -> Answer<ResumeReply> {
        self.resume(request).map_err(Refusal::into_envelope)
    }

    fn list(&self, workspace: Option<&Path>) -> Listing {
        self.catalogue().list(workspace)
    }

    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash> {
        self.catalogue().bundled_hash(workflow_id)
    }

    fn find(&self, workspace: Option<&Path>, workflow_id: &str) -> Answer<Arc<Found>> {
        self.catalogue().find(workspace, workflow_id).map_err(Box::new)
    }

    fn attach(&self, path: &str) -> Answer<String> {
        self.catalogue().attach(path).map_err(Box::new)
    }

    fn detach(&self, path: &str) -> Answer<String> {
        self.catalogue().detach(path).map_err(Box::new)
    }
}
