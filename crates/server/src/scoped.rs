//! The guided service as one caller may use it.
//!
//! Over standard input and output the caller is the user of the machine. Over HTTP it is somebody with a key, who works with the
//! sessions of one tenant, may call what the key is for, and does not choose which folders of this machine are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use canon::error::{Envelope, Retry};
use flow::id::Tenant;
use guide::engine::FromPeople;
use guide::record::{SessionId, WorkflowHash};
use host::catalogue::{Found, Listing};
use host::guided::api::{
    CheckpointReply, ContinueRequest, Intent, Reply, ResumeReply, ResumeRequest, StartRequest,
};
use host::guided::{Guided, Questions, Refusal, Tenants, WorkspaceRoots};
use host::runs::Scope;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::SurfaceErrorCode;
use crate::service::{Answer, GuideService};
use crate::tool::Tool;

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// What these scopes say, with every session of the tenant.
    Scopes(Vec<Scope>),
    /// To go on with one session, and nothing else.
    Session(SessionId),
}

/// The scopes of which one is enough to call a tool.
pub const fn scopes_of(tool: Tool) -> &'static [Scope] {
    match tool {
        // Going on includes being told again where a run is, which reads; `proceed` looks at which of the two is wanted.
        Tool::ListWorkflows | Tool::InspectWorkflow | Tool::ContinueWorkflow | Tool::ResumeSession => {
            &[Scope::SessionsRead, Scope::SessionsDrive]
        }
        Tool::StartWorkflow | Tool::CheckpointWorkflow => &[Scope::SessionsDrive],
        Tool::ManageWorkflowSource => &[Scope::Admin],
    }
}

/// Whether a key for one session may call a tool.
pub const fn is_for_one_session(tool: Tool) -> bool {
    match tool {
        Tool::ContinueWorkflow | Tool::CheckpointWorkflow | Tool::ResumeSession => true,
        // What else there is on this host is not theirs to know.
        Tool::ListWorkflows | Tool::InspectWorkflow | Tool::StartWorkflow | Tool::ManageWorkflowSource => {
            false
        }
    }
}

impl Authority {
    /// Whether there is any tool that may be called.
    pub fn opens_anything(&self) -> bool {
        Tool::ALL.into_iter().any(|tool| self.check(tool).is_ok())
    }

    /// Whether a tool may be called.
    ///
    /// # Errors
    /// `FORBIDDEN`, with the scope that is missing.
    pub fn check(&self, tool: Tool) -> Answer<()> {
        match self {
            Self::Scopes(_) => self.need(tool, scopes_of(tool)),
            Self::Session(_) if is_for_one_session(tool) => Ok(()),
            Self::Session(session) => Err(forbidden(
                format!("This key opens session {session} and nothing else, so {} is refused.", tool.name()),
                "Go on with the session: continue_workflow with the token that you were given, or resume_session to get one.",
            )),
        }
    }

    fn need(&self, tool: Tool, scopes: &'static [Scope]) -> Answer<()> {
        let Self::Scopes(owned) = self else { return Ok(()) };
        if scopes.iter().any(|scope| owned.contains(scope)) {
            return Ok(());
        }
        // The last is the one for agents.
        let needed = scopes.last().map_or("", |scope| scope.as_str());
        let mut envelope = *forbidden(
            format!("This key lacks the scope {needed}, which {} needs.", tool.name()),
            "Ask the user for a key that has it; `interlock key new-api-key` makes one.",
        );
        envelope = envelope.detail("scopeRequired", needed);
        Err(Box::new(envelope))
    }
}

fn forbidden(message: String, suggestion: &str) -> Box<Envelope> {
    let envelope = Envelope::new(SurfaceErrorCode::Forbidden, message);
    Box::new(envelope.suggest(suggestion).retry(Retry::NotRetryable))
}

/// The guided service for one request of one caller.
#[derive(Debug)]
pub struct Scoped {
    tenants: Arc<Tenants>,
    tenant: Tenant,
    authority: Authority,
    roots: Arc<WorkspaceRoots>,
    _place: OwnedSemaphorePermit,
}

impl Scoped {
    /// For a caller of a tenant. `place` is given back when the last thread that works for them is done.
    pub const fn new(
        tenants: Arc<Tenants>,
        tenant: Tenant,
        authority: Authority,
        roots: Arc<WorkspaceRoots>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self { tenants, tenant, authority, roots, _place: place }
    }

    fn guided(&self) -> Answer<Arc<Guided>> {
        self.tenants.guided(self.tenant.as_str()).map_err(Refusal::into_envelope)
    }

    /// The sessions, for a call that may go on with the one that it names.
    fn continuing(&self, request: &ContinueRequest) -> Answer<Arc<Guided>> {
        self.authority.check(Tool::ContinueWorkflow)?;
        if request.intent == Intent::Advance {
            self.authority.need(Tool::ContinueWorkflow, &[Scope::SessionsDrive])?;
        }
        let guided = self.guided()?;
        if matches!(self.authority, Authority::Session(_)) {
            self.own(&guided.sessions_of(&request.handle).map_err(Refusal::into_envelope)?)?;
        }
        Ok(guided)
    }

    /// Refuses what is about another session than the one that the key opens.
    fn own(&self, sessions: &[SessionId]) -> Answer<()> {
        match &self.authority {
            Authority::Session(own) if sessions.iter().any(|session| session != own) => Err(forbidden(
                format!("This key opens session {own}, and the call is about another one."),
                "Send the tokens of your own session; resume_session gives you a fresh one.",
            )),
            Authority::Session(_) | Authority::Scopes(_) => Ok(()),
        }
    }

    /// The workspace as it may be opened, and what to say where it may not.
    fn workspace(&self, named: Option<&Path>) -> (Option<PathBuf>, Option<String>) {
        let Some(named) = named else { return (None, None) };
        match self.roots.open(named) {
            Some(opened) => (Some(opened), None),
            None => (
                None,
                Some(
                    "workspacePath is taken as a label only: it does not lie below a folder that this server opens \
                     (`guide.workspace_roots`), so no project workflows and no git facts were read from it."
                        .to_owned(),
                ),
            ),
        }
    }
}

impl GuideService for Scoped {
    fn admit(&self, tool: Tool) -> Answer<()> {
        self.authority.check(tool)
    }

    fn start(&self, mut request: StartRequest) -> Answer<Reply> {
        self.authority.check(Tool::StartWorkflow)?;
        let (workspace, label) = self.workspace(request.workspace.as_deref());
        request.workspace = workspace;
        let mut reply = self.guided()?.start(request).map_err(Refusal::into_envelope)?;
        reply.warnings.extend(label);
        Ok(reply)
    }

    fn proceed(&self, request: ContinueRequest) -> Answer<Reply> {
        self.proceed_with(request, FromPeople::default())
    }

    fn questions(&self, request: &ContinueRequest) -> Answer<Option<Questions>> {
        self.continuing(request)?.questions(request).map_err(Refusal::into_envelope)
    }

    fn proceed_with(&self, request: ContinueRequest, people: FromPeople) -> Answer<Reply> {
        self.continuing(&request)?.proceed_with(request, people).map_err(Refusal::into_envelope)
    }

    fn checkpoint(&self, checkpoint_token: &str, notes: Option<&str>) -> Answer<CheckpointReply> {
        self.authority.check(Tool::CheckpointWorkflow)?;
        let guided = self.guided()?;
        if matches!(self.authority, Authority::Session(_)) {
            let session = guided.session_of_checkpoint(checkpoint_token).map_err(Refusal::into_envelope)?;
            self.own(&[session])?;
        }
        guided.checkpoint(checkpoint_token, notes).map_err(Refusal::into_envelope)
    }

    fn resume(&self, request: &ResumeRequest) -> Answer<ResumeReply> {
        self.authority.check(Tool::ResumeSession)?;
        let guided = self.guided()?;
        let (workspace, label) = self.workspace(request.workspace.as_deref());
        let mut request = ResumeRequest { workspace, ..request.clone() };
        let mut reply = match &self.authority {
            Authority::Scopes(_) => guided.resume(&request).map_err(Refusal::into_envelope)?,
            Authority::Session(own) => {
                if let Some(named) = request.session_id.as_deref().filter(|named| *named != own.as_str()) {
                    self.own(&SessionId::parse(named).into_iter().collect::<Vec<_>>())?;
                }
                request = ResumeRequest { session_id: Some(own.to_string()), ..ResumeRequest::default() };
                let mut reply = guided.resume(&request).map_err(Refusal::into_envelope)?;
                reply.candidates.retain(|candidate| candidate["sessionId"] == own.as_str());
                // How many others there are is nothing that this caller should know.
                reply.total_eligible = reply.candidates.len();
                reply
            }
        };
        reply.warnings.extend(label);
        Ok(reply)
    }

    fn list(&self, workspace: Option<&Path>) -> Listing {
        let (workspace, label) = self.workspace(workspace);
        let mut listing = match self.authority.check(Tool::ListWorkflows).and_then(|()| self.guided()) {
            Ok(guided) => guided.catalogue().list(workspace.as_deref()),
            Err(refused) => Listing { unreadable: vec![refused.message().to_owned()], ..Listing::default() },
        };
        listing.unreadable.extend(label);
        listing
    }

    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash> {
        self.guided().ok()?.catalogue().bundled_hash(workflow_id)
    }

    fn find(&self, workspace: Option<&Path>, workflow_id: &str) -> Answer<Arc<Found>> {
        self.authority.check(Tool::InspectWorkflow)?;
        let (workspace, label) = self.workspace(workspace);
        let mut found =
            self.guided()?.catalogue().find(workspace.as_deref(), workflow_id).map_err(Box::new)?;
        if label.is_some() {
            Arc::make_mut(&mut found).warnings.extend(label);
        }
        Ok(found)
    }

    fn attach(&self, path: &str) -> Answer<String> {
        self.authority.check(Tool::ManageWorkflowSource)?;
        self.guided()?.catalogue().attach(path).map_err(Box::new)
    }

    fn detach(&self, path: &str) -> Answer<String> {
        self.authority.check(Tool::ManageWorkflowSource)?;
        self.guided()?.catalogue().detach(path).map_err(Box::new)
    }
}
