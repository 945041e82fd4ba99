//! Agents that the host starts itself: commands that the operator configured, one process for each session of a guided
//! node that names an agent.
//!
//! ```text
//!  attend ─► a free slot ─► start behind a gate ─► record the process ─► open the gate ─► wait for the exit
//!    ▲                                                                                                    │
//!    └── the session is open and restarts are left ◄── record the exit ◄── exit, limit or stop ───────────┘
//! ```
//!
//! The gate makes this crash-safe: no agent runs unless its process is in the durable record. After a crash the next host
//! reads the record, waits for a process that is still alive, and starts another one only if there is none.
//!
//! The session key is in the environment of the process, and in a file that only this user can read. It is never an
//! argument, and it is removed from the output before the output is stored.

mod launch;
mod output;
mod process;
mod record;
mod supervise;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::engine::GuideFailure;
use flow::failure::FailureCode;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::json;
use storage::disk::Disk;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

pub use self::launch::{PLACEHOLDERS, unknown_placeholder};
use self::record::Records;
use super::{GuidedNodes, Job};

/// How long an agent may take to exit by itself after its session is complete.
const FAREWELL: Duration = Duration::from_secs(10);
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long the host waits for its agents at shutdown.
const STOPPING: Duration = Duration::from_secs(20);

/// A command that the operator configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program and its arguments, with placeholders. No shell is involved.
    pub argv: Vec<String>,
    /// The maximum run time of one process.
    pub timeout: Duration,
    /// The maximum output of one process, in bytes.
    pub max_output: u64,
    /// The maximum number of concurrent processes of this command. Further sessions wait.
    pub processes: usize,
    /// How many times the command is restarted for a session after it ended too early.
    pub restarts: u32,
    /// Additional variables. Values come from the manifest if it sets them, otherwise from the environment of this
    /// process.
    pub env: Vec<String>,
    /// The tenants whose runs may use the command. Empty means all tenants.
    pub tenants: Vec<String>,
}

/// The dependencies of agents.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The commands, by the name that nodes refer to.
    pub commands: BTreeMap<String, AgentCommand>,
    /// The data directory. Its folder `agents/` has the records and the output.
    pub disk: Arc<dyn Disk>,
    /// The absolute path of the data directory.
    pub root: PathBuf,
    /// The MCP endpoint of this host for guided sessions.
    pub endpoint: String,
}

/// The agents of a host.
pub(super) struct Agents {
    options: AgentOptions,
    records: Records,
    /// Free process slots, by command.
    places: BTreeMap<String, Arc<Semaphore>>,
    attended: Mutex<BTreeMap<String, Arc<Attended>>>,
}

/// Why an agent is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The session is complete. The agent may finish its own work first.
    SessionComplete,
    /// No run waits for the session any more.
    SessionEnded,
    /// The host is shutting down. The next host restarts the agent.
    Host,
}

/// A session with a supervised agent.
struct Attended {
    stop: watch::Sender<Option<Stop>>,
    /// Notified when the session changes.
    changed: Notify,
    /// Why the agent failed permanently.
    failure: Mutex<Option<GuideFailure>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Agents {
    pub(super) fn new(options: AgentOptions) -> Self {
        let places = options
            .commands
            .iter()
            .map(|(name, command)| (name.clone(), Arc::new(Semaphore::new(command.processes))))
            .collect();
        let records = Records::new(Arc::clone(&options.disk), options.root.clone());
        if let Err(error) = records.prune() {
            let cause = system::causes(&error);
            tracing::warn!(cause, "the files of agents of deleted sessions cannot be removed");
        }
        Self { options, records, places, attended: Mutex::default() }
    }

    fn attended(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Attended>>> {
        self.attended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the variables of a session's workspace.
    pub(super) fn keep_environment(
        &self,
        session: &str,
        variables: &BTreeMap<String, String>,
    ) -> io::Result<()> {
        self.records.save_environment(session, variables)
    }

    /// Why a tenant cannot use a command of this name, or `None` if it can.
    pub(super) fn refuse(&self, name: &str, tenant: &Tenant) -> Option<String> {
        match self.options.commands.get(name) {
            Some(command) if command.serves(tenant) => None,
            // The same message for both cases, so that a tenant cannot discover the agents of other tenants.
            Some(_) | None => Some(format!(
                "This host has no agent `{}` for this tenant. The operator configures agents in \
                 `guide.agents`.",
                canon::budget::truncate(name, 64)
            )),
        }
    }

    /// Starts the agent of a session, or adopts the process that an earlier host started. Must be called in a runtime.
    /// Does nothing if the session already has an agent.
    pub(super) fn attend(nodes: &GuidedNodes, job: Job, agent: String) {
        let Some(agents) = nodes.agents() else { return };
        let session = job.guide.session_id.clone();
        let mut all = agents.attended();
        if all.contains_key(&session) {
            return;
        }
        let attended = Arc::new(Attended {
            stop: watch::channel(None).0,
            changed: Notify::new(),
            failure: Mutex::default(),
            task: Mutex::default(),
        });
        all.insert(session, Arc::clone(&attended));
        let supervisor = supervise::Supervisor::new(nodes.clone(), job, agent, Arc::clone(&attended));
        let task = tokio::spawn(supervisor.run());
        *attended.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Notifies the supervisor that a session changed. An agent that waits for a person is then checked again.
    pub(super) fn session_changed(&self, session: &str) {
        if let Some(attended) = self.attended().get(session) {
            attended.changed.notify_one();
        }
    }

    /// Why the agent of a session failed permanently.
    pub(super) fn failure(&self, session: &str) -> Option<GuideFailure> {
        let attended = self.attended().get(session).cloned()?;
        attended.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the agent of a session that is over. May block until a process that an earlier host started has exited.
    pub(super) fn stop(&self, session: &str, why: Stop) {
        let attended = self.attended().remove(session);
        match attended {
            Some(attended) => {
                attended.stop.send_replace(Some(why));
            }
            None => supervise::stop_recorded(&self.records, session),
        }
    }

    /// Stops every agent. Called at shutdown.
    pub(super) async fn stop_all(&self) {
        let all: Vec<Arc<Attended>> = std::mem::take(&mut *self.attended()).into_values().collect();
        for attended in &all {
            attended.stop.send_replace(Some(Stop::Host));
        }
        let stopped = async {
            for attended in all {
                let task = attended.task.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(task) = task {
                    let _ = task.await;
                }
            }
        };
        let _ = tokio::time::timeout(STOPPING, stopped).await;
    }
}

impl AgentCommand {
    fn serves(&self, tenant: &Tenant) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|name| name == tenant.as_str())
    }
}

/// The variables of a session's workspace, without secrets. If they cannot be read, this is logged and the result is
/// empty.
pub fn composed_environment(disk: Arc<dyn Disk>, session: &str) -> BTreeMap<String, String> {
    Records::new(disk, PathBuf::new()).environment(session).unwrap_or_else(|error| {
        let cause = system::causes(&error);
        tracing::warn!(session.id = session, cause, "the variables of a workspace cannot be read");
        BTreeMap::new()
    })
}

/// Describes the agent that the host started for a session. `None` if there is none.
pub fn describe_agent(disk: Arc<dyn Disk>, root: PathBuf, session: &str) -> Option<String> {
    let record = Records::new(disk, root).load(session).ok().flatten()?;
    let state = match (&record.process, &record.given_up, &record.last_end) {
        (Some(process), ..) if process::is_alive(process) => format!("process {} runs", process.pid),
        (_, Some(message), _) => message.clone(),
        (_, None, Some(end)) => format!("the last time, {end}"),
        (_, None, None) => "not started yet".to_owned(),
    };
    let output = format!("{}/{session}/{}", record::FOLDER, output::FILE);
    Some(format!("{}, {} starts: {state}; output in {output}", record.agent, record.starts))
}

/// The failure of a node whose agent failed permanently.
fn given_up(session: &str, agent: &str, message: &str) -> GuideFailure {
    let details = json!({
        "sessionId": session, "agent": agent, "output": format!("{}/{session}/{}", record::FOLDER, output::FILE),
    });
    let error = RunError::of(FailureCode::GuidedAgentFailed, message).with(details);
    GuideFailure { error, is_retryable: true }
}
