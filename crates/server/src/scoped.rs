//! The guided service as one caller may use it.
//!
//! Over standard input and output the caller is the user of the machine. Over HTTP it has a key: it uses the sessions of one
//! tenant and the tools that the key allows, and does not choose which folders of this machine are read.

use std::path::PathBuf;
use std::sync::Arc;

use canon::error::{Envelope, Retry};
use catalogue::{Listing, ResolvedWorkflow};
use flow::id::Tenant;
use guide::engine::PeopleAnswers;
use guide::record::{SessionId, WorkflowHash};
use guided::api::{
    CheckpointReply, ContinueRequest, Intent, Reply, ResumeReply, ResumeRequest, StartRequest,
};
use guided::{Guided, Questions, Refusal, Tenants, WorkspaceRoots};
use ports::{PortFuture, blocking};
use runs::Scope;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::SurfaceErrorCode;
use crate::service::{GuideService, ServiceFuture, ServiceResult};
use crate::tool::Tool;

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// What these scopes allow, with every session of the tenant.
    Scopes(Vec<Scope>),
    /// To continue one session, and nothing else.
    Session(SessionId),
}

/// The scopes of which one is enough to call a tool.
pub const fn scopes_of(tool: Tool) -> &'static [Scope] {
    match tool {
        // `continue_workflow` can also only describe a run; `continuing` checks the intent.
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
        // Such a caller must not learn what else is on this host.
        Tool::ListWorkflows | Tool::InspectWorkflow | Tool::StartWorkflow | Tool::ManageWorkflowSource => {
            false
        }
    }
}

impl Authority {
    /// Whether any tool may be called.
    pub fn opens_anything(&self) -> bool {
        Tool::ALL.into_iter().any(|tool| self.check(tool).is_ok())
    }

    /// Whether a tool may be called.
    ///
    /// # Errors
    /// `FORBIDDEN`, with the scope that is missing.
    pub fn check(&self, tool: Tool) -> ServiceResult<()> {
        match self {
            Self::Scopes(_) => self.need(tool, scopes_of(tool)),
            Self::Session(_) if is_for_one_session(tool) => Ok(()),
            Self::Session(session) => Err(forbidden(
                format!("This key is for session {session} only, so {} is not allowed.", tool.name()),
                "Continue the session: call continue_workflow with your token, or resume_session to get one.",
            )),
        }
    }

    fn need(&self, tool: Tool, scopes: &'static [Scope]) -> ServiceResult<()> {
        let Self::Scopes(owned) = self else { return Ok(()) };
        if scopes.iter().any(|scope| owned.contains(scope)) {
            return Ok(());
        }
        // The last is the one for agents.
        let needed = scopes.last().map_or("", |scope| scope.as_str());
        let mut envelope = *forbidden(
            format!("This key lacks the scope {needed}, which {} requires.", tool.name()),
            "Ask the user for a key that has it; `interlock key new` creates one.",
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
    /// For a caller of a tenant. `place` is released when the last call is done.
    pub const fn new(
        tenants: Arc<Tenants>,
        tenant: Tenant,
        authority: Authority,
        roots: Arc<WorkspaceRoots>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self { tenants, tenant, authority, roots, _place: place }
    }

    async fn guided(&self) -> ServiceResult<Arc<Guided>> {
        self.tenants.guided(self.tenant.as_str()).await.map_err(Refusal::into_envelope)
    }

    /// The sessions, for a call that may continue the one that it names.
    async fn continuing(&self, request: &ContinueRequest) -> ServiceResult<Arc<Guided>> {
        self.authority.check(Tool::ContinueWorkflow)?;
        if request.intent == Intent::Advance {
            self.authority.need(Tool::ContinueWorkflow, &[Scope::SessionsDrive])?;
        }
        let guided = self.guided().await?;
        if matches!(self.authority, Authority::Session(_)) {
            self.own(&guided.sessions_of(&request.handle).await.map_err(Refusal::into_envelope)?)?;
        }
        Ok(guided)
    }

    /// Refuses calls about another session than that of the key.
    fn own(&self, sessions: &[SessionId]) -> ServiceResult<()> {
        match &self.authority {
            Authority::Session(own) if sessions.iter().any(|session| session != own) => Err(forbidden(
                format!("This key is for session {own} only, and the call is about another one."),
                "Send the tokens of your own session; resume_session returns a new one.",
            )),
            Authority::Session(_) | Authority::Scopes(_) => Ok(()),
        }
    }

    /// The workspace if it may be opened, otherwise the warning that it is not.
    async fn workspace(&self, named: Option<PathBuf>) -> (Option<PathBuf>, Option<String>) {
        let Some(named) = named else { return (None, None) };
        let roots = Arc::clone(&self.roots);
        match blocking(move || roots.open(&named)).await {
            Some(opened) => (Some(opened), None),
            None => (
                None,
                Some(
                    "workspacePath is used only as a label. It is not inside a folder of \
                     `guide.workspace_roots`, so the server read no project workflows and no git state \
                     from it."
                        .to_owned(),
                ),
            ),
        }
    }

    async fn start_here(&self, mut request: StartRequest) -> ServiceResult<Reply> {
        self.authority.check(Tool::StartWorkflow)?;
        let (workspace, label) = self.workspace(request.workspace).await;
        request.workspace = workspace;
        let mut reply = self.guided().await?.start(request).await.map_err(Refusal::into_envelope)?;
        reply.warnings.extend(label);
        Ok(reply)
    }

    async fn checkpoint_here(
        &self,
        checkpoint_token: &str,
        notes: Option<&str>,
    ) -> ServiceResult<CheckpointReply> {
        self.authority.check(Tool::CheckpointWorkflow)?;
        let guided = self.guided().await?;
        if matches!(self.authority, Authority::Session(_)) {
            let session = guided.session_of_checkpoint(checkpoint_token).await;
            self.own(&[session.map_err(Refusal::into_envelope)?])?;
        }
        guided.checkpoint(checkpoint_token, notes).await.map_err(Refusal::into_envelope)
    }

    async fn resume_here(&self, request: &ResumeRequest) -> ServiceResult<ResumeReply> {
        self.authority.check(Tool::ResumeSession)?;
        let guided = self.guided().await?;
        let (workspace, label) = self.workspace(request.workspace.clone()).await;
        let mut request = ResumeRequest { workspace, ..request.clone() };
        let mut reply = match &self.authority {
            Authority::Scopes(_) => guided.resume(&request).await.map_err(Refusal::into_envelope)?,
            Authority::Session(own) => {
                if let Some(named) = request.session_id.as_deref().filter(|named| *named != own.as_str()) {
                    self.own(&SessionId::parse(named).into_iter().collect::<Vec<_>>())?;
                }
                request = ResumeRequest { session_id: Some(own.to_string()), ..ResumeRequest::default() };
                let mut reply = guided.resume(&request).await.map_err(Refusal::into_envelope)?;
                reply.candidates.retain(|candidate| candidate["sessionId"] == own.as_str());
                // This caller must not learn how many others there are.
                reply.total_eligible = reply.candidates.len();
                reply
            }
        };
        reply.warnings.extend(label);
        Ok(reply)
    }

    async fn list_here(&self, workspace: Option<PathBuf>) -> Listing {
        let (workspace, label) = self.workspace(workspace).await;
        let guided = match self.authority.check(Tool::ListWorkflows) {
            Ok(()) => self.guided().await,
            Err(refused) => Err(refused),
        };
        let mut listing = match guided {
            Ok(guided) => guided.list_workflows(workspace).await,
            Err(refused) => Listing { unreadable: vec![refused.message().to_owned()], ..Listing::default() },
        };
        listing.unreadable.extend(label);
        listing
    }

    async fn find_here(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> ServiceResult<Arc<ResolvedWorkflow>> {
        self.authority.check(Tool::InspectWorkflow)?;
        let (workspace, label) = self.workspace(workspace).await;
        let found = self.guided().await?.find_workflow(workspace, workflow_id).await;
        let mut found = found.map_err(Box::new)?;
        if label.is_some() {
            Arc::make_mut(&mut found).warnings.extend(label);
        }
        Ok(found)
    }
}

impl GuideService for Scoped {
    fn admit(&self, tool: Tool) -> ServiceResult<()> {
        self.authority.check(tool)
    }

    fn start(&self, request: StartRequest) -> ServiceFuture<'_, Reply> {
        PortFuture::boxed(self.start_here(request))
    }

    fn proceed(&self, request: ContinueRequest) -> ServiceFuture<'_, Reply> {
        self.proceed_with(request, PeopleAnswers::default())
    }

    fn questions<'a>(&'a self, request: &'a ContinueRequest) -> ServiceFuture<'a, Option<Questions>> {
        PortFuture::boxed(async move {
            self.continuing(request).await?.questions(request).await.map_err(Refusal::into_envelope)
        })
    }

    fn proceed_with(&self, request: ContinueRequest, people: PeopleAnswers) -> ServiceFuture<'_, Reply> {
        PortFuture::boxed(async move {
            let guided = self.continuing(&request).await?;
            guided.proceed_with(request, people).await.map_err(Refusal::into_envelope)
        })
    }

    fn checkpoint<'a>(
        &'a self,
        checkpoint_token: &'a str,
        notes: Option<&'a str>,
    ) -> ServiceFuture<'a, CheckpointReply> {
        PortFuture::boxed(self.checkpoint_here(checkpoint_token, notes))
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> ServiceFuture<'a, ResumeReply> {
        PortFuture::boxed(self.resume_here(request))
    }

    fn list(&self, workspace: Option<PathBuf>) -> PortFuture<'_, Listing> {
        PortFuture::boxed(self.list_here(workspace))
    }

    fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash> {
        self.tenants.catalogue().bundled_hash(workflow_id)
    }

    fn find(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> ServiceFuture<'_, Arc<ResolvedWorkflow>> {
        PortFuture::boxed(self.find_here(workspace, workflow_id))
    }

    fn attach(&self, path: String) -> ServiceFuture<'_, String> {
        PortFuture::boxed(async move {
            self.authority.check(Tool::ManageWorkflowSource)?;
            GuideService::attach(&*self.guided().await?, path).await
        })
    }

    fn detach(&self, path: String) -> ServiceFuture<'_, String> {
        PortFuture::boxed(async move {
            self.authority.check(Tool::ManageWorkflowSource)?;
            GuideService::detach(&*self.guided().await?, path).await
        })
    }
}
