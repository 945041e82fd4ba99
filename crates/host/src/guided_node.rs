//! Guided nodes: a run equips an agent, guides it, and continues with the result.
//!
//! The engine of runs only requests "guide this node". Here it is executed, in steps that can each be repeated:
//!
//! ```text
//!  Effect::Guide ─► equip: compose, apply ─► start the session ─► GuideStarted   the run waits, durably
//!                       │ by path and lease      │ by derived id
//!                       └── repeated after a crash, nothing happens twice ──┘
//!
//!  an agent advances the session, in this process or another
//!       └─► watch ─► the session's result, from its log ─► deliverables ─► GuideEnded   one commit
//!
//!  Effect::EndGuide ─► the mark that nobody waits ─► the agent's next step is refused
//! ```
//!
//! The log of the session and the log of the run are separate, and no commit spans both. They agree because each step reads what
//! the previous one made durable: the session's id is derived from the run, the run's completion from the session.

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
use ports::sessions::Ended;
use ports::{Cause, blocking};
use serde_json::{Value, json};

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

/// What guided nodes need.
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
    /// Where tests simulate crashes. Without one, every step may be made.
    pub gate: Option<Gate>,
    /// The agents that the host starts itself. Without, a node that names one fails.
    pub agents: Option<AgentOptions>,
}

/// Decides whether a step may be made. One that may not is retried, as after a failure of the disk.
pub type Gate = Arc<dyn Fn(Step) -> bool + Send + Sync>;

/// The steps of a guided node, each a point where the process can crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Nothing was done yet.
    Equip,
    /// The workspace is in place.
    Start,
    /// The session exists, and the run does not know.
    Started,
    /// The session may be complete, and was not checked.
    Look,
    /// The result was read, and the run does not know.
    Collected,
    /// The run knows, and the workspace is still held.
    Release,
    /// Nobody waits any more, and the session is not marked.
    Mark,
    /// The session is marked, and the run does not know.
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
    pub fn new(options: Options) -> Self {
        let agents = options.agents.clone().map(Agents::new);
        Self { inner: Arc::new(Inner { options, watched: Watched::default(), agents }) }
    }

    fn pass(&self, step: Step) -> Result<(), Trouble> {
        match &self.inner.options.gate {
            Some(gate) if !gate(step) => Err(Trouble::Later(Cause::new("the step was held back"))),
            _ => Ok(()),
        }
    }

    /// The guided sessions of a tenant.
    async fn guided(&self, tenant: &Tenant) -> Result<Arc<Guided>, Trouble> {
        let guided = self.inner.options.tenants.guided(tenant.as_str()).await;
        guided.map_err(|refusal| failure::of_start(&refusal))
    }

    /// Equips the agent and starts the session. If repeated, it finds what exists.
    ///
    /// # Errors
    /// Why the node fails, or that it has to be retried.
    pub(crate) async fn begin(&self, job: &Job) -> Result<(), Trouble> {
        self.pass(Step::Equip)?;
        let session_id = session_id(&job.guide.session_id)?;
        if let Some(agent) = &job.guide.agent {
            self.check_agent(agent, &job.tenant)?;
        }
        let guided = self.guided(&job.tenant).await?;
        // An existing session was started when its workspace was complete. By now the agent may have changed it.
        let known = guided.store().revision(session_id.clone()).await;
        if known.map_err(|error| failure::of_start(&error.into()))?.is_some() {
            return Ok(());
        }
        if let Some(equipment) = job.guide.equipment.clone() {
            let (nodes, job, session) = (self.clone(), job.clone(), session_id.clone());
            blocking(move || {
                let variables = nodes.equip(&job, &equipment)?;
                match nodes.agents().filter(|_| !variables.is_empty()) {
                    Some(agents) => agents
                        .keep_environment(session.as_str(), &variables)
                        .map_err(|error| Trouble::Later(Cause::new(error))),
                    None => Ok(()),
                }
            })
            .await?;
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
        let started = guided.start_once(&session_id, &link, request).await;
        started.map_err(|refusal| failure::of_start(&refusal))?;
        self.pass(Step::Started)
    }

    /// The result of a session; `None` before it is complete.
    ///
    /// # Errors
    /// Why the node fails, or that it has to be retried.
    pub(crate) async fn result(
        &self,
        tenant: &Tenant,
        session: &str,
    ) -> Result<Option<GuideResult>, Trouble> {
        self.pass(Step::Look)?;
        let session_id = session_id(session)?;
        let guided = self.guided(tenant).await?;
        let lost = |refusal: Refusal| failure::of_session(session, &refusal);
        let standing = guided.standing(&session_id).await.map_err(lost)?;
        if !standing.is_complete {
            return match self.agents().and_then(|agents| agents.failure(session)) {
                Some(failure) => Err(Trouble::Failed(failure)),
                None => {
                    self.agents().inspect(|agents| agents.session_changed(session));
                    Ok(None)
                }
            };
        }
        let Some(mut outputs) = guided.result(&session_id).await.map_err(lost)? else { return Ok(None) };
        let (delivered, omitted) = match self.root_of(standing.link.as_ref()) {
            Some(root) => blocking(move || deliverables::collect(&root)).await?,
            None => Default::default(),
        };
        if !omitted.is_empty() {
            outputs.insert("omittedDeliverables".to_owned(), omitted.into());
        }
        self.pass(Step::Collected)?;
        Ok(Some(GuideResult { outputs, deliverables: delivered }))
    }

    /// Releases the workspace of a session once the run has its content. A lease that is not released expires.
    pub(crate) async fn release(&self, tenant: &Tenant, session: &str) {
        if self.pass(Step::Release).is_err() {
            return;
        }
        self.stop_agent(session, Stop::SessionComplete).await;
        let (Ok(id), Ok(guided)) = (session_id(session), self.guided(tenant).await) else { return };
        let Ok(standing) = guided.standing(&id).await else { return };
        if let Some(root) = self.root_of(standing.link.as_ref()) {
            let now = self.now();
            blocking(move || equip::release(&root, now)).await;
        }
    }

    /// Marks a session that its run no longer waits for, and releases its workspace.
    ///
    /// # Errors
    /// That it has to be retried.
    pub(crate) async fn end(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
        self.pass(Step::Mark)?;
        self.forget(session, &ended.run_id, &ended.node_id);
        let Ok(session_id) = session_id(session) else { return Ok(()) };
        let guided = self.guided(tenant).await?;
        let is_ours = guided.end(&session_id, ended).await;
        let is_ours = is_ours.map_err(|refusal| failure::of_session(session, &refusal))?;
        self.pass(Step::Marked)?;
        if is_ours {
            self.stop_agent(session, Stop::SessionEnded).await;
            self.release(tenant, session).await;
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.inner.options.clock.now_ms()
    }

    fn agents(&self) -> Option<&Agents> {
        self.inner.agents.as_ref()
    }

    /// Stops the agent of a session, if the host started one.
    async fn stop_agent(&self, session: &str, why: Stop) {
        if self.agents().is_none() {
            return;
        }
        let (nodes, session) = (self.clone(), session.to_owned());
        blocking(move || {
            if let Some(agents) = nodes.agents() {
                agents.stop(&session, why);
            }
        })
        .await;
    }

    /// Whether a session was started for the run of a job.
    pub(crate) async fn is_own(&self, job: &Job) -> Result<bool, Trouble> {
        let session = &job.guide.session_id;
        let standing = self.guided(&job.tenant).await?.standing(&session_id(session)?).await;
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

    /// The number of events of an open session, and whether it waits for a person. `None` if it is complete, or no run waits for it.
    async fn open_session(&self, tenant: &Tenant, session: &str) -> Result<Option<(u64, bool)>, Trouble> {
        let session_id = session_id(session)?;
        let guided = self.guided(tenant).await?;
        let lost = |refusal: Refusal| failure::of_session(session, &refusal);
        let standing = guided.standing(&session_id).await.map_err(lost)?;
        let ended = guided.store().ended(session_id.clone()).await.map_err(|error| lost(error.into()))?;
        if standing.is_complete || ended.is_some() {
            return Ok(None);
        }
        let waits_for_person = guided.waits_for_person(&session_id).await.map_err(lost)?;
        Ok(Some((standing.events, waits_for_person)))
    }

    /// Marks a session as one that no run waits for.
    async fn mark(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
        let marked = self.guided(tenant).await?.end(&session_id(session)?, ended).await;
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
        failure::failed(FailureCode::GuidedSessionLost, "the run names an invalid session id", details)
    })
}

fn preferences(guide: &Guide) -> Result<Option<PreferenceDelta>, Trouble> {
    fn read<T: serde::de::DeserializeOwned>(text: Option<&String>) -> Result<Option<T>, Trouble> {
        let read = |text: &String| serde_json::from_value(Value::String(text.clone()));
        text.map(read).transpose().map_err(|error| {
            let details = json!({"code": "VALIDATION_ERROR"});
            failure::failed(FailureCode::GuidedStartFailed, format!("invalid preference: {error}"), details)
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
