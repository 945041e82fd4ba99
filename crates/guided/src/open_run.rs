//! The open run of a workspace, for hooks of agent clients.

use std::path::Path;

use catalogue::git;
use guide::project::preferred_tip;
use guide::record::{Block, BlockerCode, EngineState, NodeKind, ObservationKey, SessionId};
use ports::blocking;
use ports::sessions::OpenRunRef;

use super::Guided;
use super::api::{NextCall, RunWords};
use super::refusal::Refusal;
use super::reply::{self, awaits_user, rehydrate_call, run_words};

/// A run with a pending step.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    pub run: RunWords,
    /// The title of the pending step.
    pub step_title: String,
    /// Whether the step forbids changes to files.
    pub read_only: bool,
    /// Whether only a person can unblock the run: the step needs the user, or no retry can succeed.
    pub waits_for_person: bool,
    /// Whether there is a checkpoint at the current position.
    pub is_bookmarked: bool,
    /// When the last event was recorded, in milliseconds since 1970.
    pub last_modified_ms: u64,
    /// The call that returns the current position of the run.
    pub resume_call: NextCall,
}

impl Guided {
    /// The most recently active incomplete run of a workspace's repository. `None` outside of a repository.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn open_run(&self, workspace: &Path) -> Result<Option<OpenRun>, Refusal> {
        let workspace = workspace.to_owned();
        let facts = blocking(move || git::observations(&git::facts(&workspace))).await;
        let root = facts.iter().find(|(key, _)| *key == ObservationKey::RepoRootHash);
        let Some(root) = root.map(|(_, value)| value.text()) else { return Ok(None) };
        match self.store.newest_open_run(root).await? {
            Some(newest) => self.open_run_of(&newest).await,
            None => Ok(None),
        }
    }

    /// Whether the run of a session needs a person to continue.
    ///
    /// # Errors
    /// The session does not exist or cannot be read.
    pub async fn waits_for_person(&self, session_id: &SessionId) -> Result<bool, Refusal> {
        let run_id = {
            let session = self.sessions.current(&*self.store, session_id).await?;
            let session = session.lock().await;
            session.state.runs().first().map(|run| run.id.clone())
        };
        let Some(run_id) = run_id else { return Ok(false) };
        let open = self.open_run_of(&OpenRunRef { session_id: session_id.clone(), run_id }).await?;
        Ok(open.is_some_and(|open| open.waits_for_person))
    }

    async fn open_run_of(&self, newest: &OpenRunRef) -> Result<Option<OpenRun>, Refusal> {
        let keyring = self.keyring().await?;
        let session = self.sessions.current(&*self.store, &newest.session_id).await?;
        let session = session.lock().await;
        let state = &session.state;
        let Some(run) = state.run(&newest.run_id) else { return Ok(None) };
        let Some(tip) = preferred_tip(state, run) else { return Ok(None) };
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(tip.snapshot_ref).await?;
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
        let waits =
            is_stuck || awaits_user(&workflow, engine, context, state.current_preferences(tip).autonomy);
        let Some(resume_call) = rehydrate_call(&session, &keyring, tip) else { return Ok(None) };
        Ok(Some(OpenRun {
            run: run_words(&session, run, tip, &workflow, engine),
            step_title: reply::step_title(&workflow, engine, step, context),
            read_only: step.read_only,
            waits_for_person: waits,
            is_bookmarked: tip.kind == NodeKind::Checkpoint,
            last_modified_ms: state.last_timestamp_ms().unwrap_or_default(),
            resume_call,
        }))
    }
}
