//! Evidence that the host gathers itself: runs commands from the operator's settings, and checks what an agent's text cites.
//!
//! It is gathered before the attempt is judged, without a lock on the session: a command may take minutes. The result is
//! recorded with the attempt, so a repeated call runs nothing. After a crash between the two, the repeated call runs the
//! commands again.

mod citation;
mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guide::delegation::{ChildHandle, delegating_node};
use guide::engine::{self, Advance, FromPeople, Output};
use guide::project::current_outputs;
use guide::record::{
    ArtifactRef, AttemptId, NodeId, ObservationKey, OutputChannel, OutputPayload, SessionId,
};
use guide::state::{Node, SessionState};
use guide::token::TokenError;
use guide::verification::{
    CitationFinding, CitationResult, CommandOutcome, CommandResult, DelegationResult, Verification,
    VerificationRequest,
};
use guide::{derive, record};
use ports::blocking;
use ports::sessions::SessionStore;

pub(crate) use command::INHERITED;

use super::api::ContinueRequest;
use super::position::ResolvedPosition;
use super::proceed::recorded;
use super::refusal::Refusal;
use super::workspace_roots::WorkspaceRoots;
use super::{Guided, cut_notes};

/// How many attempts are verified at once. Commands are as heavy as builds; the next caller has to retry.
const CONCURRENT: usize = 4;

/// A command that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCommand {
    /// The program, found through `PATH` or absolute, and its arguments. There is no shell.
    pub argv: Vec<String>,
    /// When it is killed.
    pub timeout: Duration,
    /// How much it may write before it is killed.
    pub max_output: u64,
    /// Further variables that it gets: of the composed workspace if it has them, otherwise of the environment of this process.
    pub env: Vec<String>,
}

/// Which directories may be looked into.
#[derive(Clone, Debug)]
pub enum Workspaces {
    /// Whatever a caller named: they are the user of this machine.
    Any,
    /// Those that a caller from elsewhere may name, and those below a directory of our own.
    Below { roots: WorkspaceRoots, own: PathBuf },
}

/// The variables of the manifest that a session was equipped with.
type Environments = Box<dyn Fn(&SessionId) -> BTreeMap<String, String> + Send + Sync>;

/// Runs commands and looks citations up.
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

    /// With the variables of the workspaces that the host composes. A command gets those that its `env` names.
    #[must_use]
    pub fn with_environments(
        mut self,
        environments: impl Fn(&SessionId) -> BTreeMap<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.environments = Some(Box::new(environments));
        self
    }

    /// Kills every command that runs, and starts no further one: for the end of the process.
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

    /// Takes a slot for an attempt of a session; `None` while the session is being verified, or all slots are taken.
    fn enter(self: &Arc<Self>, session: &SessionId) -> Option<Slot> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = running.sessions.len() < CONCURRENT && running.sessions.insert(session.clone());
        is_free.then(|| Slot { verifier: Arc::clone(self), session: session.clone() })
    }

    /// Remembers a process group as long as its command runs. Says whether it may run.
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

    /// The directory of a run, where it may be looked into.
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
        // Looked up afterwards: a command may have made what is cited.
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

/// A verification that is running. Owned, so that it ends with the command and not with the caller.
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
    /// What the host finds for an attempt; `None` if the step demands nothing, or if the attempt cannot succeed anyway. An
    /// invalid attempt is refused later, when it is judged.
    pub(super) async fn verification(
        &self,
        place: &ResolvedPosition,
        attempt_id: &AttemptId,
        request: &ContinueRequest,
        people: &FromPeople,
    ) -> Result<Option<Verification>, Refusal> {
        let wanted = self.wanted(place, attempt_id, request, people).await?;
        let Some((wanted, workspace, delegating)) = wanted else { return Ok(None) };
        let busy = || TokenError::SessionLocked { session: place.session_id.clone() };
        let slot = self.verifier.enter(&place.session_id).ok_or_else(busy)?;
        {
            let session = place.session.lock().await;
            // If the same attempt was verified until now, it is recorded by now.
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
        people: &FromPeople,
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
        let wanted = engine::verification_wanted(&Advance {
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
            preferences: request.preferences.map(|delta| delta.over(node.preferences)),
            people: people.clone(),
            verification: None,
            now_ms: 0,
        });
        let delegating = delegating_node(&session.state, node).id.clone();
        Ok(wanted.ok().flatten().map(|wanted| (wanted, workspace_of(&session.state), delegating)))
    }
}

/// The directory that a run is about, as it was recorded when it began.
fn workspace_of(state: &SessionState) -> Option<PathBuf> {
    match &state.observation(ObservationKey::RepoRoot)?.value {
        record::ObservationValue::Path(path) => Some(path.into()),
        record::ObservationValue::ShortString(_)
        | record::ObservationValue::GitSha1(_)
        | record::ObservationValue::Sha256(_) => None,
    }
}

/// What the host verified for the attempt that created a node, from the log.
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

/// The artifact with what the host verified for the attempt that created a node.
pub(super) fn verification_artifact<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s ArtifactRef> {
    let id = derive::verification_output_id(cut_notes::attempt_that_made(state, &node.id)?);
    let output = current_outputs(state, node, OutputChannel::Artifact).find(|output| output.id == id)?;
    match &output.payload {
        OutputPayload::ArtifactRef(artifact) => Some(artifact),
        OutputPayload::Notes { .. } => None,
    }
}

/// Parses a verification; `stored` is the content of an artifact that is not part of its event.
pub(super) fn read_verification(artifact: &ArtifactRef, stored: Option<&[u8]>) -> Option<Verification> {
    match &artifact.content {
        Some(content) => Verification::from_artifact(content),
        None => Verification::from_artifact(&serde_json::from_slice(stored?).ok()?),
    }
}
