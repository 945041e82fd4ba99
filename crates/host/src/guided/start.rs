//! Beginning a run.

use std::sync::PoisonError;

use guide::derive;
use guide::engine::{self, Start};
use guide::plan::{AppendPlan, Planned};
use guide::record::Preferences;
use guide::state::SessionState;
use storage::files::{Attachments, NewObject, NewSnapshot};

use super::Guided;
use super::api::{Reply, StartRequest};
use super::refusal::{self, Refusal, inconsistent};
use super::reply::{Ingredients, Moment, reply};
use crate::catalogue::git;

impl Guided {
    /// Begins a run of a workflow in a session of its own.
    ///
    /// # Errors
    /// An unknown or invalid workflow, a context that cannot be, and trouble with the store.
    pub fn start(&self, request: StartRequest) -> Result<Reply, Refusal> {
        let found = self.catalogue.find(request.workspace.as_deref(), &request.workflow_id)?;
        let mut entropy = [0; 16];
        self.entropy.fill(&mut entropy).map_err(|cause| refusal::no_entropy(&cause))?;
        let observations =
            request.workspace.as_deref().map(git::facts).map(|facts| git::observations(&facts));
        let additions = engine::start(Start {
            session_id: derive::session_id(&entropy),
            parent_session_id: request.parent_session_id,
            workflow: &found.workflow,
            source_kind: found.source_kind,
            source_ref: found.source_ref.clone(),
            goal: request.goal,
            context: request.context,
            preferences: request.preferences.map(|delta| delta.over(Preferences::default())),
            observations: observations.unwrap_or_default(),
            now_ms: self.clock.now_ms(),
        })?;
        let session_id = derive::session_id(&entropy);
        let mut state = SessionState::new(session_id.clone());
        let Planned::Append(plan) = AppendPlan::new(&mut state, additions.events)? else {
            return Err(inconsistent("A new session has been recorded already."));
        };
        let compiled = canon::canonical::to_vec(&*found.workflow)
            .map_err(|_| inconsistent("A compiled workflow has no canonical form."))?;
        let attachments = Attachments {
            snapshots: additions
                .snapshots
                .iter()
                .map(|new| NewSnapshot { snapshot: &new.snapshot, parent: new.parent })
                .collect(),
            workflows: vec![NewObject { digest: found.hash, bytes: &compiled }],
            artifacts: Vec::new(),
        };
        let keyring = self.keyring()?;
        self.files.create(std::slice::from_ref(&plan), &attachments)?;
        let session = self.sessions.insert(&session_id, &self.files.load(&session_id)?)?;
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
            snapshot: &snapshot.snapshot,
            keyring: &keyring,
            moment: Moment::Start,
        });
        started.warnings.extend(found.warnings.iter().cloned());
        Ok(started)
    }
}
