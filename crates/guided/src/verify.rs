//! Evidence that the host gathers itself: runs commands that the operator configured, and checks the citations in an
//! agent's notes.
//!
//! Evidence is gathered before the attempt is evaluated, without a lock on the session, because a command may take
//! minutes. The result is recorded with the attempt, so a repeated call runs nothing. After a crash before the result is
//! recorded, a repeated call runs the commands again.

mod citation;
mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guide::delegation::ChildHandle;
use guide::engine::{self, Advance, Output, PeopleAnswers};
use guide::project::{attempt_that_made, current_outputs};
use guide::record::{
    ArtifactRef, AttemptId, NodeId, ObservationKey, OutputChannel, OutputPayload, SessionId,
};
use guide::state::{Node, SessionState};
use guide::token::TokenError;
use guide::verification::{
    CitationFinding, CitationResult, CommandOutcome, CommandResult, DelegationResult, Verification,
    VerificationRequest,
};
use guide::visit::Visit;
use guide::{derive, record};
use ports::blocking;
use ports::sessions::SessionStore;

pub use command::INHERITED;

use super::Guided;
use super::api::ContinueRequest;
use super::position::ResolvedPosition;
use super::proceed::recorded;
use super::refusal::Refusal;
use super::workspace_roots::WorkspaceRoots;

/// The maximum number of concurrent verifications. Commands can be as expensive as builds. Further callers have to retry.
const CONCURRENT: usize = 4;

/// A command that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCommand {
    /// The program, absolute or found in `PATH`, and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// The command is killed after this time.
    pub timeout: Duration,
    /// The command is killed if it writes more than this many bytes.
    pub max_output: u64,
    /// Additional variables for the command. Values come from the composed workspace if it sets them, otherwise from the
    /// environment of this process.
    pub env: Vec<String>,
}

/// The directories in which evidence may be verified.
#[derive(Clone, Debug)]
pub enum Workspaces {
    /// Every directory that a caller names. Callers are local users.
    Any,
    /// Directories below the roots that remote callers may name, and below the host's own directory.
    Below { roots: WorkspaceRoots, own: PathBuf },
}

/// Returns the manifest variables of a session's workspace.
type Environments = Box<dyn Fn(&SessionId) -> BTreeMap<String, String> + Send + Sync>;

/// Runs commands and checks citations.
pub struct Verifier {
    commands: BTreeMap<String, AllowedCommand>,
    workspaces: Workspaces,
    environments: Option<Environments>,
    running: Mutex<Running>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Verifier")
            .field("commands", &self.commands)
            .field("workspaces", &self.workspaces)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Running {
    sessions: BTreeSet<SessionId>,
    groups: Vec<rustix::process::Pid>,
    is_stopped: bool,
}

impl Verifier {
    pub const fn new(commands: BTreeMap<String, AllowedCommand>, workspaces: Workspaces) -> Self {
        let running =
            Mutex::new(Running { sessions: BTreeSet::new(), groups: Vec::new(), is_stopped: false });
        Self { commands, workspaces, environments: None, running }
    }

    /// Creates a verifier that also knows the variables of composed workspaces. A command gets those that its `env`
    /// names.
    #[must_use]
    pub fn with_environments(
        mut self,
        environments: impl Fn(&SessionId) -> BTreeMap<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.environments = Some(Box::new(environments));
        self
    }

    /// Kills all running commands and starts no more. Called at shutdown.
    pub fn stop(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.is_stopped = true;
        for group in running.groups.drain(..) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// Allows no command and opens no workspace.
    pub fn none() -> Arc<Self> {
        let workspaces = Workspaces::Below { roots: WorkspaceRoots::default(), own: PathBuf::new() };
        Arc::new(Self::new(BTreeMap::new(), workspaces))
    }

    /// Reserves a slot for an attempt of a session. Returns `None` if the session is already being verified, or all slots
    /// are taken.
    fn enter(self: &Arc<Self>, session: &SessionId) -> Option<Slot> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = running.sessions.len() < CONCURRENT && running.sessions.insert(session.clone());
        is_free.then(|| Slot { verifier: Arc::clone(self), session: session.clone() })
    }

    /// Registers the process group of a command while it runs. Returns whether the command may run.
    fn note(&self, group: rustix::process::Pid) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !running.is_stopped {
            running.groups.push(group);
        }
        !running.is_stopped
    }

    fn forget(&self, group: rustix::process::Pid) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.groups.retain(|other| *other != group);
    }

    /// The directory of a run, if evidence may be verified there.
    fn open(&self, recorded: &Path) -> Option<PathBuf> {
        let canonical = std::fs::canonicalize(recorded).ok().filter(|root| root.is_dir())?;
        match &self.workspaces {
            Workspaces::Any => Some(canonical),
            Workspaces::Below { roots, own } => {
                let is_own = std::fs::canonicalize(own)
                    .is_ok_and(|own| canonical.starts_with(own) && canonical == recorded);
                if is_own { Some(canonical) } else { roots.open(recorded) }
            }
        }
    }

    fn verify(
        &self,
        request: &VerificationRequest,
        workspace: Option<&Path>,
        session: &SessionId,
    ) -> Verification {
        let root = workspace.and_then(|workspace| self.open(workspace));
        let composed = match &self.environments {
            Some(environments) if !request.commands.is_empty() => environments(session),
            Some(_) | None => BTreeMap::new(),
        };
        let commands = request.commands.iter().map(|name| {
            let outcome = match (self.commands.get(name), &root) {
                (None, _) => CommandOutcome::NotAllowed,
                (Some(_), None) => CommandOutcome::NoWorkspace,
                (Some(command), Some(root)) => command::run(self, command, root, &composed),
            };
            CommandResult { name: name.clone(), outcome }
        });
        let commands = commands.collect();
        // Citations are checked after the commands, because a command may create what is cited.
        let citations = request.citations.iter().map(|citation| CitationResult {
            citation: citation.clone(),
            finding: match &root {
                None => CitationFinding::NoWorkspace,
                Some(root) => citation::look_up(citation, root),
            },
        });
        Verification {
            commands,
            citations: citations.collect(),
            excess_citations: request.excess_citations,
            delegations: Vec::new(),
        }
    }
}

/// A running verification. It owns its data, so that it lasts until the command exits, even if the caller is gone.
struct Slot {
    verifier: Arc<Verifier>,
    session: SessionId,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut running = self.verifier.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.sessions.remove(&self.session);
    }
}

impl Guided {
    /// Gathers the evidence for an attempt. Returns `None` if the step requires none, or if the attempt cannot succeed
    /// anyway. An invalid attempt is refused later, when it is evaluated.
    pub(super) async fn verification(
        &self,
        place: &ResolvedPosition,
        attempt_id: &AttemptId,
        request: &ContinueRequest,
        people: &PeopleAnswers,
    ) -> Result<Option<Verification>, Refusal> {
        let wanted = self.wanted(place, attempt_id, request, people).await?;
        let Some((wanted, workspace, delegating)) = wanted else { return Ok(None) };
        let busy = || TokenError::SessionLocked { session: place.session_id.clone() };
        let slot = self.verifier.enter(&place.session_id).ok_or_else(busy)?;
        {
            let session = place.session.lock().await;
            // If a concurrent call verified the same attempt, it has recorded it by now.
            if recorded(&session, &place.node_id, attempt_id)?.is_some() {
                return Ok(None);
            }
        }
        let session = place.session_id.clone();
        let (mut verification, wanted, _slot) = blocking(move || {
            let found = slot.verifier.verify(&wanted, workspace.as_deref(), &session);
            (found, wanted, slot)
        })
        .await;
        for (index, workflow_id) in wanted.delegations {
            let handle = ChildHandle { parent: place.session_id.clone(), node: delegating.clone(), index };
            let session_id = handle.session_id();
            let status = self.child_status(&session_id).await;
            verification.delegations.push(DelegationResult { index, workflow_id, session_id, status });
        }
        Ok(Some(verification))
    }

    async fn wanted(
        &self,
        place: &ResolvedPosition,
        attempt_id: &AttemptId,
        request: &ContinueRequest,
        people: &PeopleAnswers,
    ) -> Result<Option<(VerificationRequest, Option<PathBuf>, NodeId)>, Refusal> {
        let session = place.session.lock().await;
        let Some(node) = session.state.node(&place.node_id) else { return Ok(None) };
        let Some(run) = session.state.run(&node.run_id) else { return Ok(None) };
        let workflow = self.pinned(run.workflow_hash).await?;
        let snapshot = self.store.snapshot(node.snapshot_ref).await?;
        let step = snapshot.state().pending().and_then(|pending| workflow.step(&pending.step_id));
        if step.is_none_or(|step| step.evidence.is_none() && step.delegations.is_empty())
            || !Self::attempt_exists(&session, node, attempt_id)
            || self.store.ended(place.session_id.clone()).await?.is_some()
        {
            return Ok(None);
        }
        let wanted = engine::required_verification(&Advance {
            state: &session.state,
            node_id: &node.id,
            attempt_id,
            workflow: &workflow,
            snapshot: snapshot.state(),
            output: Output {
                notes_markdown: request.notes_markdown.clone(),
                artifacts: request.artifacts.clone(),
            },
            context: request.context.clone(),
            preferences: request.preferences.map(|delta| delta.over(session.state.current_preferences(node))),
            people: people.clone(),
            verification: None,
            now_ms: 0,
        });
        // Work that this attempt hands out itself is named by the node that the attempt leads to.
        let context = session.state.context(&run.id);
        let visit = Visit::at(&session.state, &workflow, node, snapshot.state(), context);
        let delegating = visit.delegating_node().cloned().unwrap_or_else(|| {
            derive::advance_node_id(session.state.session_id(), &run.id, &node.id, attempt_id)
        });
        Ok(wanted.ok().flatten().map(|wanted| (wanted, workspace_of(&session.state), delegating)))
    }
}

/// The workspace directory of a run, as recorded at its start.
fn workspace_of(state: &SessionState) -> Option<PathBuf> {
    match &state.observation(ObservationKey::RepoRoot)?.value {
        record::ObservationValue::Path(path) => Some(path.into()),
        record::ObservationValue::ShortString(_)
        | record::ObservationValue::GitSha1(_)
        | record::ObservationValue::Sha256(_) => None,
    }
}

/// The host's verification of the attempt that created a node, from the log.
pub(super) async fn recorded_verification(
    store: &dyn SessionStore,
    state: &SessionState,
    node: &Node,
) -> Option<Verification> {
    let artifact = verification_artifact(state, node)?;
    let stored = match artifact.content {
        Some(_) => None,
        None => Some(store.artifact(artifact.sha256).await.ok()?),
    };
    read_verification(artifact, stored.as_deref())
}

/// The artifact with the host's verification of the attempt that created a node.
pub(super) fn verification_artifact<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s ArtifactRef> {
    let id = derive::verification_output_id(attempt_that_made(state, &node.id)?);
    let output = current_outputs(state, node, OutputChannel::Artifact).find(|output| output.id == id)?;
    match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(artifact),
        OutputPayload::Notes { .. } => None,
    }
}

/// Parses a verification. `stored` is the content of the artifact if it is not part of the event.
pub(super) fn read_verification(artifact: &ArtifactRef, stored: Option<&[u8]>) -> Option<Verification> {
    match &artifact.content {
        Some(content) => Verification::from_artifact(content),
        None => Verification::from_artifact(&serde_json::from_slice(stored?).ok()?),
    }
}
