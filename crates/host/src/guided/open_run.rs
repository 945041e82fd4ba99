//! The run that is open in a workspace, for hooks of agent clients.

use std::path::Path;
use std::sync::PoisonError;

use guide::project::preferred_tip;
use guide::record::{Block, BlockerCode, EngineState, NodeKind, ObservationKey, RunId, SessionId};
use storage::files::Loaded;

use super::Guided;
use super::api::{NextCall, RunWords};
use super::refusal::Refusal;
use super::reply::{awaits_user, rehydrate_call, run_words};
use crate::catalogue::git;

/// A run with a pending step.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    pub run: RunWords,
    /// What the pending step is called.
    pub step_title: String,
    /// Whether the step says that no file may be changed.
    pub read_only: bool,
    /// Whether only a person can help now: the step needs the user, or is blocked for good.
    pub waits_for_person: bool,
    /// Whether this very place was bookmarked, so that it can be left.
    pub is_bookmarked: bool,
    /// When the last event was recorded, by the clock.
    pub last_modified_ms: u64,
    /// The call that shows where the run is.
    pub resume_call: NextCall,
}

impl Guided {
    /// The run of a workspace's repository that is not complete and was active last; nothing outside of a repository.
    ///
    /// # Errors
    /// Trouble with the store.
    pub fn open_run(&self, workspace: &Path) -> Result<Option<OpenRun>, Refusal> {
        let facts = git::observations(&git::facts(workspace));
        let root = facts.iter().find(|(key, _)| *key == ObservationKey::RepoRootHash);
        let Some(root) = root.map(|(_, value)| value.text()) else { return Ok(None) };
        let newest: Option<(SessionId, RunId)> =
            self.index.with_inputs(&|loaded: &Loaded| self.project(loaded), |inputs| {
                inputs
                    .filter(|run| !run.is_complete && run.repo_root_hash.as_deref() == Some(&root))
                    .max_by_key(|run| (run.last_modified_ms, run.last_activity_index))
                    .map(|run| (run.session_id.clone(), run.run_id.clone()))
            })?;
        match newest {
            Some((session, run)) => self.open_run_of(&session, &run),
            None => Ok(None),
        }
    }

    /// Whether only a person can help the run of a session now.
    ///
    /// # Errors
    /// A session that is not there or cannot be read.
    pub fn waits_for_person(&self, session_id: &SessionId) -> Result<bool, Refusal> {
        let run = {
            let session = self.sessions.current(&self.files, session_id)?;
            let session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.state.runs().first().map(|run| run.id.clone())
        };
        let Some(run) = run else { return Ok(false) };
        Ok(self.open_run_of(session_id, &run)?.is_some_and(|open| open.waits_for_person))
    }

    fn open_run_of(&self, session: &SessionId, run: &RunId) -> Result<Option<OpenRun>, Refusal> {
        let keyring = self.keyring()?;
        let session = self.sessions.current(&self.files, session)?;
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &session.state;
        let Some(run) = state.run(run) else { return Ok(None) };
        let Some(tip) = preferred_tip(state, run) else { return Ok(None) };
        let workflow = self.pinned(run.workflow_hash)?;
        let snapshot = self.files.snapshot(tip.snapshot_ref)?;
        let engine = snapshot.state();
        let Some(step) = engine.pending().and_then(|pending| workflow.step(&pending.step_id)) else {
            return Ok(None);
        };
        let is_stuck = match engine {
            EngineState::Blocked(blocked) => {
                let needs_user = |code| code == BlockerCode::UserOnlyDependency;
                matches!(blocked.blocked, Block::TerminalBlock { .. })
                    || blocked.blocked.blockers().blockers().iter().any(|one| needs_user(one.code))
            }
            EngineState::Init | EngineState::Running(_) | EngineState::Complete => false,
        };
        let context = state.context(&run.id);
        let waits = is_stuck || awaits_user(&workflow, engine, context, tip.preferences.autonomy);
        let Some(resume_call) = rehydrate_call(&session, &keyring, tip) else { return Ok(None) };
        Ok(Some(OpenRun {
            run: run_words(&session, run, tip, &workflow, engine),
            step_title: guide::render::one_line(&guide::render::resolve(&step.title, context)),
            read_only: step.read_only,
            waits_for_person: waits,
            is_bookmarked: tip.kind == NodeKind::Checkpoint,
            last_modified_ms: state.last_timestamp_ms().unwrap_or_default(),
            resume_call,
        }))
    }
}
