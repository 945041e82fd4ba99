//! Guided nodes: a run composes a workspace for an agent, guides the agent through a session, and continues with the
//! result.
//!
//! The engine of runs only emits the effect "guide this node". This module executes it, in steps that are idempotent:
//!
//! ```text
//!  Effect::Guide ─► equip: compose, apply ─► start the session ─► GuideStarted   the run waits, durably
//!                       │ by path and lease      │ by derived id
//!                       └────── idempotent ──────┘
//!
//!  an agent advances the session, in this process or another
//!       └─► watch ─► the session's result, from its log ─► deliverables ─► GuideEnded   one commit
//!
//!  Effect::EndGuide ─► mark the session as ended ─► the agent's next step is refused
//! ```
//!
//! The session and the run have separate logs, and no commit spans both. They stay consistent because each step depends
//! only on what the previous step made durable: the session's id is derived from the run, and the run's completion from
//! the session.
#![forbid(unsafe_code)]

mod agents;
mod artifacts;
mod connect;
mod deliverables;
mod equip;
mod failure;
mod folders;
pub mod session_keys;
mod watch;
pub mod workspaces;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use flow::engine::{Guide, GuideFailure, GuideResult};
use flow::failure::FailureCode;
use flow::id::{NodeId, RunId, Tenant, WorkflowId};
use guide::record::{Autonomy, RiskPolicy, SessionId};
use guided::api::{PreferenceDelta, StartRequest};
use guided::linked::Link;
use guided::{Guided, Refusal, Tenants};
use ports::sessions::Ended;
use ports::{Cause, blocking};
use serde_json::{Value, json};
use system::Clock;

pub use self::agents::{
    AgentCommand, AgentOptions, PLACEHOLDERS, composed_environment, describe_agent, unknown_placeholder,
};
use self::agents::{Agents, Stop};
pub use self::artifacts::InputArtifact;
pub use self::connect::KEY_LIFETIME_MS;
pub use self::deliverables::{MAX_DELIVERABLE_BYTES, MAX_DELIVERABLES, MAX_DELIVERED_BYTES};
pub use self::failure::Trouble;
pub use self::session_keys::{SessionGrant, SessionKeys};
pub use self::watch::Waiter;
use self::watch::Watched;

/// The dependencies of guided nodes.
pub struct Options {
    /// The guided sessions of each tenant.
    pub tenants: Arc<Tenants>,
    /// Issues the session keys of agents.
    pub keys: SessionKeys,
    /// The folders in which manifests and libraries are looked up. The first match wins.
    pub places: Vec<PathBuf>,
    /// The folder of workspaces. It is created if it does not exist.
    pub workspaces: PathBuf,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Lets tests simulate crashes. Without a gate, every step is executed.
    pub gate: Option<Gate>,
    /// The agents that the host starts itself. Without them, a node that names an agent fails.
    pub agents: Option<AgentOptions>,
}

/// Decides whether a step is executed. A step that is not executed is retried, as after a disk failure.
pub type Gate = Arc<dyn Fn(Step) -> bool + Send + Sync>;

/// The steps of a guided node. Each is a point where the process can crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Before the workspace is composed.
    Equip,
    /// The workspace is in place; the session does not exist yet.
    Start,
    /// The session exists; the run has not recorded it yet.
    Started,
    /// The session may be complete; it was not checked yet.
    Look,
    /// The result was read; the run has not recorded it yet.
    Collected,
    /// The run has recorded the result; the workspace is not released yet.
    Release,
    /// The run no longer waits; the session is not marked yet.
    Mark,
    /// The session is marked; the run has not recorded it yet.
    Marked,
}

/// Executes guided nodes. Cheap to clone.
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

/// A guided node to execute.
#[derive(Clone, Debug)]
pub struct Job {
    /// The tenant of the run.
    pub tenant: Tenant,
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    /// The request of the run.
    pub guide: Guide,
    /// The artifacts of the preceding nodes.
    pub artifacts: Vec<InputArtifact>,
}

impl GuidedNodes {
    pub fn new(options: Options) -> Self {
        let agents = options.agents.clone().map(Agents::new);
        Self { inner: Arc::new(Inner { options, watched: Watched::default(), agents }) }
    }

    fn pass(&self, step: Step) -> Result<(), Trouble> {
        match &self.inner.options.gate {
            Some(gate) if !gate(step) => Err(Trouble::Later(Cause::new("the step was delayed"))),
            _ => Ok(()),
        }
    }

    /// The guided sessions of a tenant.
    async fn guided(&self, tenant: &Tenant) -> Result<Arc<Guided>, Trouble> {
        let guided = self.inner.options.tenants.guided(tenant.as_str()).await;
        guided.map_err(|refusal| failure::of_start(&refusal))
    }

    /// Composes the workspace and starts the session. Idempotent.
    ///
    /// # Errors
    /// The node fails, or the step has to be retried.
    pub async fn begin(&self, job: &Job) -> Result<(), Trouble> {
        self.pass(Step::Equip)?;
        let session_id = session_id(&job.guide.session_id)?;
        if let Some(agent) = &job.guide.agent {
            self.check_agent(agent, &job.tenant)?;
        }
        let guided = self.guided(&job.tenant).await?;
        // The workspace of an existing session was complete when the session started. The agent may have changed it
        // since, so it is not composed again.
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

    /// The result of a session, or `None` before it is complete.
    ///
    /// # Errors
    /// The node fails, or the step has to be retried.
    pub async fn result(&self, tenant: &Tenant, session: &str) -> Result<Option<GuideResult>, Trouble> {
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

    /// Releases the workspace of a session after its result was recorded. A lease that is not released expires.
    pub async fn release(&self, tenant: &Tenant, session: &str) {
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

    /// Marks a session that its run no longer waits for as ended, and releases its workspace.
    ///
    /// # Errors
    /// The step has to be retried.
    pub async fn end(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
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
    pub async fn is_own(&self, job: &Job) -> Result<bool, Trouble> {
        let session = &job.guide.session_id;
        let standing = self.guided(&job.tenant).await?.standing(&session_id(session)?).await;
        let standing = standing.map_err(|refusal| failure::of_session(session, &refusal))?;
        Ok(standing.link.is_some_and(|link| link.run_id == job.run_id))
    }

    /// Starts the agent that a node names, or adopts the process that an earlier host started.
    pub fn attend(&self, job: Job) {
        if let Some(agent) = job.guide.agent.clone() {
            Agents::attend(self, job, agent);
        }
    }

    /// Stops every agent that this host started. Called at shutdown.
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

    /// The number of events of an open session, and whether it waits for a person. `None` if it is complete, or no run
    /// waits for it.
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

    async fn mark(&self, tenant: &Tenant, session: &str, ended: &Ended) -> Result<(), Trouble> {
        let marked = self.guided(tenant).await?.end(&session_id(session)?, ended).await;
        marked.map(drop).map_err(|refusal| failure::of_session(session, &refusal))
    }

    /// The folder of a node's workspace.
    pub fn workspace(&self, run_id: &RunId, node_id: &NodeId) -> PathBuf {
        self.inner.options.workspaces.join(folders::of(run_id, node_id))
    }

    /// The workspace of a session, if it has one.
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

/// The failure of a guided node on a host without guided sessions.
pub fn not_provided() -> GuideFailure {
    let error = flow::state::RunError::of(
        FailureCode::CapabilityNotProvided,
        "this host guides no agents; run the workflow with `interlock serve`",
    );
    GuideFailure::lasting(error.with(json!({"capability": "interlock.guided"})))
}
