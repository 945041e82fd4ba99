//! What nodes may use of the host: surfaces, models, tools of other servers, modules of packs.
//!
//! The engine asks for the work of a node as one effect under one identity. Here it is done, and what came of it goes back with all
//! that happened meanwhile. [`crate::runs`] claims the identity before and records the outcome after, in one commit with the events that
//! follow; so work whose outcome was recorded is never done again. Work that was claimed and not recorded, because the host
//! ended in between, is *again*: what is safe to repeat is repeated, and what is not fails with `effect_outcome_unknown`, because
//! nobody can know whether it happened.
//!
//! ```text
//!  Effect::Activity ─► claim ─► Executors::perform ─┬─ surface: once, its store remembers the identity
//!                                               ├─ module of a pack: no effect of its own, so again is the same
//!                                               ├─ model, or an agent with one: never again on its own, each call and each tool under its own identity
//!                                               └─ tool: never again, unless it only reads
//!                      record, events, outputs ◄┘  one commit
//! ```

pub mod agents;
pub mod failure;
mod idempotency;
pub mod installed;
pub mod ledger;
pub mod mcp;
pub mod models;
pub mod module_check;
pub mod modules;
pub(crate) mod progress;
pub(crate) mod recorded;
mod surfaces;

use std::fmt;
use std::sync::Arc;

use ::surfaces::{Surface, Surfaces};
use canon::time::Timestamp;
use flow::definition::{
    CalledType, Capabilities, Definition, ExposedType, Family, NodeType, PackTypes, Problem, RefusedTypes,
    ServedSurfaces,
};
use flow::engine::{NodeCall, Report, Reported};
use flow::event::EventKind;
use flow::event::data::value::LogAppended;
use flow::failure::FailureCode;
use flow::id::{EffectId, NodeId, RunId, Tenant};
use flow::state::RunError;
use serde_json::{Map, Value};

use self::agents::Agents;
use self::agents::tools::ToolContext;
use self::ledger::Ledger;
use self::models::Models;
use self::modules::Modules;
pub use self::progress::{Listener, Recording};

/// What a host lets nodes use. What is absent is not served, and workflows that need it are refused.
#[derive(Clone, Default)]
pub struct Options {
    /// Storage, databases, files and messages.
    pub surfaces: Option<Arc<Surfaces>>,
    /// The types of nodes that packs bring.
    pub modules: Option<Modules>,
    /// The agents that packs bring.
    pub agents: Option<Agents>,
    pub models: Option<Models>,
    /// Other MCP servers.
    pub mcp: Option<mcp::Servers>,
}

impl Options {
    /// What agents may use for tools.
    fn tool_context(&self) -> ToolContext<'_> {
        ToolContext { servers: self.mcp.as_ref(), surfaces: self.surfaces.as_deref() }
    }
}

/// What a host lets nodes use. Cheap to clone.
#[derive(Clone)]
pub struct Executors {
    options: Arc<Options>,
}

/// The work of one node.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// For whom.
    pub tenant: &'a Tenant,
    pub run_id: &'a RunId,
    pub node_id: &'a NodeId,
    /// The identity under which it is done at most once.
    pub invocation: &'a EffectId,
    /// Whether it may have been done before: it was claimed, and nothing was recorded.
    pub again: bool,
    pub now: Timestamp,
    /// What to do.
    pub call: &'a NodeCall,
    /// What was kept of the work that this goes on with, where it waited for somebody.
    pub kept: Option<&'a Value>,
    /// Where parts of it are written down.
    pub ledger: &'a dyn Ledger,
    /// Who is told what happens meanwhile.
    pub listener: &'a dyn Listener,
}

/// What came of the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Performed {
    /// What happened meanwhile, in order.
    pub told: Vec<Reported>,
    /// What the node gives, or why it fails.
    pub outcome: Result<Value, RunError>,
}

impl Performed {
    /// Nothing but an outcome.
    pub const fn plain(outcome: Result<Value, RunError>) -> Self {
        Self { told: Vec::new(), outcome }
    }

    /// Whether the work waits for somebody.
    fn waits(&self) -> bool {
        self.told.last().is_some_and(|told| matches!(told.report, Report::Ask(_)))
    }
}

/// What happened, from its members. Where they are not what their kind needs, a line of the log says so in its place: an event that
/// cannot be read back would make its whole run unreadable.
fn told(kind: EventKind, payload: Map<String, Value>) -> Reported {
    Reported::read(kind, payload).unwrap_or_else(|error| {
        Reported::event(LogAppended {
            content_trust: None,
            fields: None,
            level: "error".into(),
            message: format!("something that happened was not recorded: {error}"),
            node_id: None,
        })
    })
}

impl fmt::Debug for Executors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Executors").field("surfaces", &self.options.surfaces).finish_non_exhaustive()
    }
}

impl Executors {
    /// What these options allow.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }

    /// The same with other packs: which ones can be served depends on what else there is.
    #[must_use]
    pub fn with_packs(&self, modules: Modules, agents: Agents) -> Self {
        Self::new(Options { modules: Some(modules), agents: Some(agents), ..(*self.options).clone() })
    }

    /// What is served, beyond what the engine does itself.
    pub fn widen(&self, capabilities: &Capabilities) -> Capabilities {
        let models = self.options.models.as_ref().is_some_and(Models::is_served);
        Capabilities {
            surfaces: self.options.surfaces.as_ref().map_or(ServedSurfaces::NONE, |surfaces| {
                ServedSurfaces::of(surfaces.served().map(Surface::as_str))
            }),
            models,
            mcp_sampling: capabilities.mcp_mount && models,
            mcp_client: self.options.mcp.as_ref().is_some_and(|servers| !servers.is_empty()),
            agents: self.options.agents.is_some()
                && self.options.models.as_ref().is_some_and(Models::is_served),
            pack_types: self.options.modules.as_ref().map_or(PackTypes::None, Modules::types),
            refused_types: self.options.modules.as_ref().map_or(RefusedTypes::NONE, Modules::refused),
            ..capabilities.clone()
        }
    }

    pub fn surfaces(&self) -> Option<&Arc<Surfaces>> {
        self.options.surfaces.as_ref()
    }

    pub fn models(&self) -> Option<&Models> {
        self.options.models.as_ref()
    }

    /// What is wrong with the nodes of a workflow, beyond what the engine can see.
    pub fn problems(&self, definition: &Definition) -> Vec<Problem> {
        let models = self.options.models.as_ref();
        let mut found =
            models.map(|models| models.problems_of_defaults(&definition.document)).unwrap_or_default();
        found.extend(models.map(|models| models.contract_problems(definition)).unwrap_or_default());
        let has_servers = self.options.mcp.as_ref().is_some_and(|servers| !servers.is_empty());
        for (place, node) in definition.nodes.iter().enumerate() {
            if !has_servers
                && models.is_some_and(|models| models.wants_tool(node.type_id(), &node.raw_config))
            {
                let message = "a tool of another MCP server is called here, and the settings name no server";
                found.push(Problem {
                    offending_type_id: Some(node.type_id().to_owned()),
                    node_id: Some(node.id.clone()),
                    required_capability: Some("mcp.supported"),
                    ..Problem::at(format!("/nodes/{place}/config/mcp"), message)
                });
            }
        }
        for (place, node) in definition.nodes.iter().enumerate() {
            if let (Some(_), Some(pin)) = (&self.options.agents, &node.agent) {
                found.extend(pin_problems(pin, &format!("/nodes/{place}/agent")));
            }
            let mut tell = |pointer: &str, message: String| {
                found.push(Problem {
                    offending_type_id: Some(node.type_id().to_owned()),
                    node_id: Some(node.id.clone()),
                    ..Problem::at(format!("/nodes/{place}/config{pointer}"), message)
                });
            };
            if let Some(models) = &self.options.models {
                for problem in models.problems(node.type_id(), &node.raw_config) {
                    tell(&problem.pointer, problem.message);
                }
            }
            if let (Some(agents), NodeType::Called(CalledType::AgentsRun)) = (&self.options.agents, node.kind)
            {
                for (pointer, message) in agents::run::problems(agents, self.options.tool_context(), node) {
                    tell(pointer, message);
                }
            }
        }
        found
    }

    /// The types of nodes that packs bring.
    pub fn modules(&self) -> Option<&Modules> {
        self.options.modules.as_ref()
    }

    /// The agents that packs bring.
    pub fn agents(&self) -> Option<&Agents> {
        self.options.agents.as_ref()
    }

    /// Other MCP servers.
    pub fn mcp(&self) -> Option<&mcp::Servers> {
        self.options.mcp.as_ref()
    }

    /// Does the work of a node.
    pub async fn perform(&self, asked: Asked<'_>) -> Performed {
        let Options { surfaces, modules, models, mcp, agents } = &*self.options;
        let called = CalledType::parse(&asked.call.type_id);
        match called.map(CalledType::family) {
            Some(Family::Surface { .. }) => match (called, surfaces) {
                (Some(called), Some(surfaces)) => surfaces::perform(surfaces, called, asked).await,
                _ => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            Some(Family::Model) => match (models, models::tool_of(asked), mcp) {
                (_, Some(tool), Some(servers)) => mcp::call_instead(servers, &tool, asked).await,
                (Some(models), None, _) => models.perform(asked).await,
                _ => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            Some(Family::Agent) => match (agents, models) {
                (Some(agents), Some(models)) => {
                    agents::run::perform(agents, models, self.options.tool_context(), asked).await
                }
                _ => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            Some(Family::Host) => idempotency::perform(asked),
            Some(Family::Mcp { .. }) => match (called, mcp) {
                (Some(called), Some(servers)) => mcp::perform(servers, called, asked).await,
                _ => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            None if ExposedType::parse(&asked.call.type_id) == Some(ExposedType::Sampling) => match models {
                Some(models) => models.sample(asked).await,
                None => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            None => match modules {
                Some(modules) => modules.perform(asked).await,
                None => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
        }
    }
}

/// What is wrong with the agent that a node is pinned to.
fn pin_problems(pin: &Value, path: &str) -> Vec<Problem> {
    let problems = packs::agents::AgentRef::read(pin).err();
    let problems = problems.iter().flat_map(packs::manifest::Problems::list);
    problems
        .map(|problem| Problem::at(format!("{path}{}", problem.pointer), problem.message.as_str()))
        .collect()
}

/// The failure of a node whose type was served when its workflow was registered, and is not any more.
pub(crate) fn not_served(type_id: &str) -> RunError {
    let needs = CalledType::parse(type_id).map_or("its pack", |_| "a part of the host");
    let message =
        format!("`{type_id}` needs {needs} that is not there; serve it again, and fork the run from here");
    RunError::of(FailureCode::CapabilityNotProvided, message)
}
