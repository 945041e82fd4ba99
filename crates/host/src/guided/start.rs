//! Beginning a run.

use std::sync::PoisonError;

use guide::derive;
use guide::engine::{self, Start};
use guide::record::{Preferences, SessionId};
use storage::files::{Attachments, NewObject, NewSnapshot};

use super::Guided;
use super::api::{Reply, StartRequest};
use super::refusal::{self, Refusal, inconsistent};
use super::reply::{Ingredients, Moment, reply};
use super::sessions::Session;
use crate::catalogue::git;

impl Guided {
    /// Begins a run of a workflow in a session of its own.
    ///
    /// # Errors
    /// An unknown or invalid workflow, a context that cannot be, and trouble with the store.
    pub fn start(&self, request: StartRequest) -> Result<Reply, Refusal> {
        if let Some(handle) = request.child_handle.clone() {
            return self.start_child(&handle, request);
        }
        let mut entropy = [0; 16];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::no_entropy(&cause))?;
        self.start_as(&derive::session_id(&entropy), request)
    }

    /// Begins a run in the session of that id, which must not exist.
    pub(super) fn start_as(&self, session_id: &SessionId, request: StartRequest) -> Result<Reply, Refusal> {
        if let Some(parent) = &request.parent_session_id
            && self.files.manifest_stat(parent)?.is_none()
        {
            return Err(refusal::unknown_parent(parent));
        }
        let found = self.catalogue.find(request.workspace.as_deref(), &request.workflow_id)?;
        let is_verified = found.workflow.steps.iter().any(|step| step.evidence.is_some());
        let facts = request.workspace.as_deref().map(git::facts).unwrap_or_default();
        let mut observations = git::observations(&facts);
        // Outside of a repository nobody would know later where evidence is to be verified.
        if is_verified && facts.root.is_none() {
            let root = request.equipped_root.as_deref().or(request.workspace.as_deref());
            observations.extend(root.and_then(git::observed_root));
        }
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
        // Folded before it is written, as every append: what is kept in memory needs no reading back.
        let mut session = Session::unread(session_id);
        let Some(plan) = session.plan(additions.events)? else {
            return Err(inconsistent("A new session has been recorded already."));
        };
        let attachments = Attachments {
            snapshots: additions
                .snapshots
                .iter()
                .map(|new| NewSnapshot { named: &new.named, parent: new.parent })
                .collect(),
            workflows: vec![NewObject { digest: found.workflow.hash(), bytes: found.workflow.bytes() }],
            artifacts: Vec::new(),
        };
        let keyring = self.keyring()?;
        session.cursor = self.files.create(std::slice::from_ref(&plan), &attachments)?.cursor;
        self.keep_workflow(found.workflow.hash(), found.workflow.workflow());
        let session = self.sessions.insert(session);
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        // The run is durable whatever becomes of the index, which reads the session when it is asked for.
        let _ = self.index.record(
            None,
            &session.cursor,
            session.projection(None, |_| Some(found.workflow.name.clone())),
        );

        let node =
            session.state.node(&additions.node_id).ok_or_else(|| inconsistent("The root is missing."))?;
        let run = session.state.run(&node.run_id).ok_or_else(|| inconsistent("The run is missing."))?;
        let snapshot =
            additions.snapshots.first().ok_or_else(|| inconsistent("The root has no snapshot."))?;
        let mut started = reply(&Ingredients {
            session: &session,
            run,
            node,
            workflow: &found.workflow,
            snapshot: snapshot.named.snapshot(),
            keyring: &keyring,
            moment: Moment::Start,
        });
        started.warnings.extend(found.warnings.iter().cloned());
        Ok(started)
    }
}
