//! Starts a run.

use catalogue::git;
use guide::derive;
use guide::engine::{self, Start};
use guide::record::{Preferences, SessionId};
use ports::blocking;
use ports::sessions::{Creation, NewObject, NewObjects};

use super::Guided;
use super::api::{Reply, StartRequest};
use super::refusal::{self, Refusal, inconsistent};
use super::reply::{Ingredients, Moment, reply};
use super::sessions::Session;

impl Guided {
    /// Starts a run of a workflow in a new session.
    ///
    /// # Errors
    /// An unknown or invalid workflow, an invalid context, and errors of the store.
    pub async fn start(&self, request: StartRequest) -> Result<Reply, Refusal> {
        if let Some(handle) = request.child_handle.clone() {
            return self.start_child(&handle, request).await;
        }
        let mut entropy = [0; 16];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::random_failed(&cause))?;
        self.start_as(&derive::session_id(&entropy), request).await
    }

    /// Starts a run in a new session with this id. The id must not exist.
    pub(super) async fn start_as(
        &self,
        session_id: &SessionId,
        request: StartRequest,
    ) -> Result<Reply, Refusal> {
        if let Some(parent) = &request.parent_session_id
            && self.store.revision(parent.clone()).await?.is_none()
        {
            return Err(refusal::unknown_parent(parent));
        }
        let (catalogue, workflow_id) = (self.catalogue.clone(), request.workflow_id);
        let (workspace, equipped_root) = (request.workspace, request.equipped_root);
        // The workflow and the repository are both files. Read them in one blocking call.
        let (found, observations) = blocking(move || {
            let found = catalogue.find(workspace.as_deref(), &workflow_id)?;
            let is_verified = found.workflow.steps.iter().any(|step| step.evidence.is_some());
            let facts = workspace.as_deref().map(git::facts).unwrap_or_default();
            let mut observations = git::observations(&facts);
            // Outside of a repository, record the directory in which evidence is verified.
            if is_verified && facts.root.is_none() {
                let root = equipped_root.as_deref().or(workspace.as_deref());
                observations.extend(root.and_then(git::observed_root));
            }
            Ok::<_, Refusal>((found, observations))
        })
        .await?;
        let additions = engine::start(Start {
            session_id: session_id.clone(),
            parent_session_id: request.parent_session_id,
            workflow: &found.workflow,
            source_kind: found.source_kind,
            source_ref: found.source_ref.clone(),
            goal: request.goal,
            context: request.context,
            preferences: request.preferences.map(|delta| delta.over(Preferences::default())),
            observations,
            now_ms: self.clock.now_ms(),
        })?;
        // Folded before it is written, like every append, so that it does not have to be read back.
        let mut session = Session::unread(session_id);
        let Some(plan) = session.plan(additions.events)? else {
            return Err(inconsistent("The new session is already recorded."));
        };
        let snapshot = additions
            .snapshots
            .first()
            .ok_or_else(|| inconsistent("The root has no snapshot."))?
            .named
            .clone();
        let keyring = self.keyring().await?;
        let workflow = NewObject { digest: found.workflow.hash(), bytes: found.workflow.bytes().into() };
        let creation = Creation {
            plans: vec![plan],
            objects: NewObjects {
                snapshots: additions.snapshots,
                workflows: vec![workflow],
                artifacts: Vec::new(),
            },
            projection: session.projection(None, |_| Some(found.workflow.name.clone())),
            salvaged: None,
            imported_ms: None,
        };
        session.cursor = self.store.create(creation).await?.cursor;
        self.keep_workflow(found.workflow.hash(), found.workflow.workflow());
        let session = self.sessions.insert(session);
        let session = session.lock().await;
        let node =
            session.state.node(&additions.node_id).ok_or_else(|| inconsistent("The root is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("The run is missing."))?;
        let mut started = reply(&Ingredients {
            session: &session,
            run,
            node,
            workflow: &found.workflow,
            snapshot: snapshot.snapshot(),
            keyring: &keyring,
            moment: Moment::Start,
        });
        started.warnings.extend(found.warnings.iter().cloned());
        Ok(started)
    }
}
