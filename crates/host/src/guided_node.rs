//! One path through the house: a run equips an agent, guides it, and goes on with what came of it.
//!
//! The engine of runs only asks: "guide this node". Here it is carried out, in steps that can each be done again:
//!
//! ```text
//!  Effect::Guide ─► equip: compose, apply ─► start the session ─► GuideStarted   the run waits, durably
//!                       │ by place and lease     │ by derived id
//!                       └── again after a crash, nothing happens twice ──┘
//!
//!  somebody advances the session, in this process or another
//!       └─► watch ─► the session's result, from its log ─► deliverables ─► GuideEnded   one commit
//!
//!  Effect::EndGuide ─► the mark that nobody waits ─► the agent's next step is refused
//! ```
//!
//! The log of the session and the log of the run are two files, and no commit spans them. They agree all the same, because each
//! step reads what the one before it made durable: the session's id follows from the run, the run's completion from the session.
//!
//! Nothing here is asynchronous: [`crate::runs`] calls it on threads that may wait.

mod agents;
mod artifacts;
mod connect;
mod deliverables;
mod equip;
mod failure;
mod folders;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use flow::engine::{Guide, GuideFailure, GuideResult};
use flow::failure::FailureCode;
use flow::id::{NodeId, RunId, Tenant, WorkflowId};
use guide::record::{Autonomy, RiskPolicy, SessionId};
use ports::Cause;
use serde_json::{Value, json};
use storage::files::Ended;
use tokio::sync::Notify;

use crate::guided::api::{PreferenceDelta, StartRequest};
use crate::guided::linked::Link;
use crate::guided::{Guided, Refusal, Tenants};
use crate::runs::SessionKeys;
use crate::system::Clock;

pub use self::agents::{
    AgentCommand, AgentOptions, PLACEHOLDERS, composed_environment, describe_agent, unknown_placeholder,
};
use self::agents::{Agents, Stop};
pub(crate) use self::artifacts::InputArtifact;
pub use self::connect::KEY_LIFETIME_MS;
pub use self::deliverables::{MAX_DELIVERABLE_BYTES, MAX_DELIVERABLES, MAX_DELIVERED_BYTES};
pub(crate) use self::failure::Trouble;
pub(crate) use self::watch::Waiter;
use self::watch::Watched;

/// What the path leads through.
pub struct Options {
    /// The guided sessions of each tenant.
    pub tenants: Arc<Tenants>,
    /// The keys of agents.
    pub keys: SessionKeys,
    /// The folders that manifests and libraries are named in; the first that has one wins.
    pub places: Vec<PathBuf>,
    /// The folder of workspaces, which is made if it does not exist.
    pub workspaces: PathBuf,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where tests let the machine die. Without one, every step may be made.
    pub gate: Option<Gate>,
    /// The agents that the host starts itself. Without, a node that names one fails.
    pub agents: Option<AgentOptions>,
}

/// Says whether a step may be made. What may not is tried again, as after a failure of the disk.
pub type Gate = Arc<dyn Fn(Step) -> bool + Send + Sync>;

/// The steps of the path, each a point where a machine can die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Nothing was done yet.
    Equip,
    /// The workspace is in place.
    Start,
    /// The session is there, and the run does not know.
    Started,
    /// The session may be complete, and nobody looked.
    Look,
    /// What came of it was read, and the run does not know.
    Collected,
    /// The run knows, and the workspace is still held.
    Release,
    /// Nobody waits any more, and the agent does not know.
    Mark,
    /// The agent will be told, and the run still means to.
    Marked,
}

/// Carries out guided nodes. Cheap to clone.
#[derive(Clone)]
pub struct GuidedNodes {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    watched: Watched,
    news: Arc<Notify>,
    agents: Option<Agents>,
}

impl fmt::Debug for GuidedNodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GuidedNodes")
            .field("places", &self.inner.options.places)
            .finish_non_exhaustive()
    }
}

/// A node to be carried out: what the run asks for, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Whose the run is.
    pub(crate) tenant: Tenant,
    pub(crate) run_id: RunId,
    pub(crate) workflow_id: WorkflowId,
    /// What it asks for.
    pub(crate) guide: Guide,
    /// The artifacts of the nodes before this one.
    pub(crate) artifacts: Vec<InputArtifact>,
}

impl GuidedNodes {
    /// The path through these rooms.
    pub fn new(options: Options) -> Self {
        let agents = options.agents.clone().map(Agents::new);
        let inner = Inner { options, watched: Watched::default(), news: Arc::new(Notify::new()), agents };
        Self { inner: Arc::new(inner) }
    }

    fn pass(&self, step: Step) -> Result<(), Trouble> {
        match &self.inner.options.gate {
            Some(gate) if !gate(step) => Err(Trouble::Later(Cause::new("the step was held back"))),
            _ => Ok(()),
        }
    }

    /// The guided sessions of a tenant; whoever advances one of them is heard of from now on.
    fn guided(&self, tenant: &Tenant) -> Result<Arc<Guided>, Trouble> {
        let guided = self.inner.options.tenants.guided(tenant.as_str());
        let guided = guided.map_err(|refusal| failure::of_start(&refusal))?;
        guided.listen(&self.inner.news);
        Ok(guided)
    }

    /// Equips the agent and starts the session. Done again, it finds what is there.
    ///
    /// # Errors
    /// Why the node fails, or that it has to be tried again.
    pub(crate) fn begin(&self, job: &Job) -> Result<(), Trouble> {
        self.pass(Step::Equip)?;
        let session_id = session_id(&job.guide.session_id)?;
        if let Some(agent) = &job.guide.agent {
            self.check_agent(agent, &job.tenant)?;
        }
        let guided = self.guided(&job.tenant)?;
        // A session that is there was started in a workspace that was in place: what the agent does in it by now is its own.
        let known = guided.files().manifest_stat(&session_id);
        if known.map_err(|error| failure::of_start(&error.into()))?.is_some() {
            return Ok(());
        }
        if let Some(equipment) = &job.guide.equipment {
            let variables = self.equip(job, equipment)?;
            if let Some(agents) = self.agents().filter(|_| !variables.is_empty()) {
                let kept = agents.keep_environment(session_id.as_str(), &variables);
                kept.map_err(|error| Trouble::Later(Cause::new(error)))?;
            }
        }
        self.pass(Step::Start)?;
        let link = Link {
            run_id: job.run_id.clone(),
            node_id: job.guide.node_id.clone(),
            is_equipped: job.guide.equipment.is_some(),
        };
        let request = StartRequest {
            workflow_id: job.guide.workflow.clone(),
            goal: job.guide.goal.clone(),
            context: job.guide.inputs.clone(),
            preferences: preferences(&job.guide)?,
            equipped_root: self.root_of(Some(&link)),
            ..StartRequest::default()
        };
        guided.start_once(&session_id, &link, request).map_err(|refusal| failure::of_start(&refusal))?;
        self.pass(Step::Started)
    }

    /// What a session came to; nothing while an agent is at work.
    ///
    /// # Errors
    /// Why the node fails, or that it has to be tried again.
    pub(crate) fn result(&self, tenant: &Tenant, session: &str) -> Result<Option<GuideResult>, Trouble> {
        self.pass(Step::Look)?;
        let session_id = session_id(session)?;
        let guided = self.guided(tenant)?;
        let lost = |refusal: Refusal| failure::of_session(session, &refusal);
        let standing = guided.standing(&session_id).map_err(lost)?;
        if !standing.is_complete {
            return match self.agents().and_then(|agents| agents.failure(session)) {
                Some(failure) => Err(Trouble::Failed(failure)),
                None => {
                    self.agents().inspect(|agents| agents.session_changed(session));
                    Ok(None)
                }
            };
        }
        let Some(mut outputs) = guided.result(&session_id).map_err(lost)? else { return Ok(None) };
        let (delivered, omitted) = match self.root_of(standing.link.as_ref()) {
            Some(root) => deliverables::collect(&root)?,
            None => Default::default(),
        };
        if !omitted.is_empty() {
            outputs.insert("omittedDeliverables".to_owned(), omitted.into());
        }
        self.pass(Step::Collected)?;
        Ok(Some(GuideResult { outputs, deliverables: delivered }))
    }

    /// Gives the workspace of a session back, once the run has what is in it. A lease that stays ends by itself.
    pub(crate) fn release(&self, tenant: &Tenant, session: &str) {
        if self.pass(Step::Release).is_err() {
            return;
        }
        if let Some(agents) = self.agents() {
            agents.stop(session, Stop::SessionComplete);
        }
        let root = session_id(session).ok().and_then(|id| {
            let standing = self.guided(tenant).ok()?.standing(&id).ok()?;
            self.root_of(standing.link.as_ref())
        });
        if let Some(root) = root {
            equip::release(&root, self.now());
        }
    }

    /// Marks a session that its run waits for no more, and lets go of its workspace.
    ///
    /// # Errors
    /// That it has to be tried again.
    pub(crate) fn end(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
        self.pass(Step::Mark)?;
        self.forget(session, &ended.run_id, &ended.node_id);
        let Ok(session_id) = session_id(session) else { return Ok(()) };
        let guided = self.guided(tenant)?;
        let is_ours =
            guided.end(&session_id, ended).map_err(|refusal| failure::of_session(session, &refusal))?;
        self.pass(Step::Marked)?;
        if is_ours {
            if let Some(agents) = self.agents() {
                agents.stop(session, Stop::SessionEnded);
            }
            self.release(tenant, session);
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.inner.options.clock.now_ms()
    }

    fn agents(&self) -> Option<&Agents> {
        self.inner.agents.as_ref()
    }

    /// Whether a session was started for the run of a job.
    pub(crate) fn is_own(&self, job: &Job) -> Result<bool, Trouble> {
        let session = &job.guide.session_id;
        let standing = self.guided(&job.tenant)?.standing(&session_id(session)?);
        let standing = standing.map_err(|refusal| failure::of_session(session, &refusal))?;
        Ok(standing.link.is_some_and(|link| link.run_id == job.run_id))
    }

    /// Starts the agent that a node names, or takes over the one that an earlier host started.
    pub(crate) fn attend(&self, job: Job) {
        if let Some(agent) = job.guide.agent.clone() {
            Agents::attend(self, job, agent);
        }
    }

    /// Stops every agent that this host started, for the end of the process.
    pub async fn stop_agents(&self) {
        if let Some(agents) = self.agents() {
            agents.stop_all().await;
        }
    }

    fn check_agent(&self, agent: &str, tenant: &Tenant) -> Result<(), Trouble> {
        let refused = match self.agents() {
            Some(agents) => agents.refuse(agent, tenant),
            None => Some("This host starts no agents; run the workflow with `interlock serve`.".to_owned()),
        };
        match refused {
            None => Ok(()),
            Some(message) => Err(failure::failed(
                FailureCode::GuidedStartFailed,
                message,
                json!({"agent": agent, "code": "AGENT_NOT_CONFIGURED"}),
            )),
        }
    }

    /// How many events an open session has, and whether it waits for a person; nothing if it is complete, or nobody waits for it.
    fn open_session(&self, tenant: &Tenant, session: &str) -> Result<Option<(u64, bool)>, Trouble> {
        let session_id = session_id(session)?;
        let guided = self.guided(tenant)?;
        let lost = |refusal: Refusal| failure::of_session(session, &refusal);
        let standing = guided.standing(&session_id).map_err(lost)?;
        let ended = guided.files().ended(&session_id).map_err(|error| lost(error.into()))?;
        if standing.is_complete || ended.is_some() {
            return Ok(None);
        }
        Ok(Some((standing.events, guided.waits_for_person(&session_id).map_err(lost)?)))
    }

    /// Marks a session as one that nobody waits for.
    fn mark(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
        let marked = self.guided(tenant)?.end(&session_id(session)?, ended);
        marked.map(drop).map_err(|refusal| failure::of_session(session, &refusal))
    }

    /// The folder of a node's workspace.
    pub fn workspace(&self, run_id: &RunId, node_id: &NodeId) -> PathBuf {
        self.inner.options.workspaces.join(folders::of(run_id, node_id))
    }

    /// The workspace of a session that was started in one.
    fn root_of(&self, link: Option<&Link>) -> Option<PathBuf> {
        let link = link.filter(|link| link.is_equipped)?;
        Some(self.workspace(&link.run_id, &link.node_id))
    }
}

fn session_id(text: &str) -> Result<SessionId, Trouble> {
    SessionId::parse(text).map_err(|_| {
        let details = json!({"sessionId": text});
        failure::failed(FailureCode::GuidedSessionLost, "the run names a session that can be none", details)
    })
}

fn preferences(guide: &Guide) -> Result<Option<PreferenceDelta>, Trouble> {
    fn read<T: serde::de::DeserializeOwned>(text: Option<&String>) -> Result<Option<T>, Trouble> {
        let read = |text: &String| serde_json::from_value(Value::String(text.clone()));
        text.map(read).transpose().map_err(|error| {
            let details = json!({"code": "VALIDATION_ERROR"});
            failure::failed(FailureCode::GuidedStartFailed, format!("a preference is none: {error}"), details)
        })
    }
    let autonomy = read::<Autonomy>(guide.autonomy.as_ref())?;
    let risk_policy = read::<RiskPolicy>(guide.risk_policy.as_ref())?;
    let given = autonomy.is_some() || risk_policy.is_some();
    Ok(given.then_some(PreferenceDelta { autonomy, risk_policy }))
}

/// The failure of a node on a host that guides nobody.
pub(crate) fn not_provided() -> GuideFailure {
    let error = flow::state::RunError::of(
        FailureCode::CapabilityNotProvided,
        "this host guides no agents; run the workflow with `interlock serve`",
    );
    GuideFailure::lasting(error.with(json!({"capability": "interlock.guided"})))
}
