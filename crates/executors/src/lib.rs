//! Executes nodes that use the host: surfaces, models, tools of other servers, modules of packs.
//!
//! The engine requests the execution of a node as one effect with one id. An executor performs it and returns the result, with reports of
//! everything that happened. The crate `runs` claims the id before, and records the result after, in one commit with the resulting
//! events. An effect with a recorded result is therefore never executed again. An effect that was claimed but has no recorded result,
//! because the host stopped in between, is executed *again* if it is idempotent. Otherwise it fails with `effect_outcome_unknown`, because
//! it is unknown whether it happened.
//!
//! ```text
//!  Effect::Activity ─► claim ─► Executors::perform ─┬─ surface: idempotent, its store remembers the id
//!                                               ├─ module of a pack: has no effects of its own, so it is idempotent
//!                                               ├─ model, or an agent with one: each call and each tool has its own id and is never repeated
//!                                               ├─ HTTP request: repeated if it is idempotent or the server honours its key
//!                                               └─ tool: never repeated, unless it only reads
//!                      record, events, outputs ◄┘  one commit
//! ```
#![forbid(unsafe_code)]

pub mod agents;
pub mod failure;
pub mod http_request;
mod idempotency;
pub mod installed;
pub mod ledger;
pub mod mcp;
pub mod models;
pub mod module_check;
pub mod modules;
pub mod progress;
pub mod reach;
pub mod recorded;
mod surfaces;

use std::fmt;
use std::sync::Arc;

use ::surfaces::{Surface, Surfaces};
use canon::time::Timestamp;
use flow::definition::config::UrlTemplate;
use flow::definition::{
    CalledType, Capabilities, Definition, ExposedType, Family, NodeConfig, NodeType, PackTypes, Problem,
    RefusedTypes, ServedSurfaces,
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
use self::http_request::HttpAccess;
use self::ledger::Ledger;
use self::models::Models;
use self::modules::Modules;
pub use self::progress::{Listener, Recording};

/// What a host offers to nodes. Workflows that need something absent are refused.
#[derive(Clone, Default)]
pub struct Options {
    /// Storage, databases, files and messages.
    pub surfaces: Option<Arc<Surfaces>>,
    /// The node types of packs.
    pub modules: Option<Modules>,
    /// The agents of packs.
    pub agents: Option<Agents>,
    pub models: Option<Models>,
    pub mcp: Option<mcp::Servers>,
    /// Hosts that nodes may send requests to.
    pub http: Option<HttpAccess>,
}

impl Options {
    /// What agents may use as tools.
    fn tool_context(&self) -> ToolContext<'_> {
        ToolContext { servers: self.mcp.as_ref(), surfaces: self.surfaces.as_deref() }
    }
}

/// What a host offers to nodes. Cheap to clone.
#[derive(Clone)]
pub struct Executors {
    options: Arc<Options>,
}

/// A request to execute one node.
#[derive(Clone, Copy)]
pub struct NodeRequest<'a> {
    /// The tenant of the run.
    pub tenant: &'a Tenant,
    pub run_id: &'a RunId,
    pub node_id: &'a NodeId,
    /// The id of the effect.
    pub invocation: &'a EffectId,
    /// Whether the effect may have been executed before: it was claimed, and no result was recorded.
    pub again: bool,
    pub now: Timestamp,
    /// The node, with its configuration and inputs.
    pub call: &'a NodeCall,
    /// The data that the effect stored before it waited for an interrupt, if this continues one.
    pub saved_state: Option<&'a Value>,
    /// Records parts of the effect.
    pub ledger: &'a dyn Ledger,
    /// Receives progress reports.
    pub listener: &'a dyn Listener,
}

/// The result of executing a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Performed {
    /// What happened during the execution, in order.
    pub reports: Vec<Reported>,
    /// The outputs of the node, or its error.
    pub outcome: Result<Value, RunError>,
}

impl Performed {
    /// A result without reports.
    pub const fn plain(outcome: Result<Value, RunError>) -> Self {
        Self { reports: Vec::new(), outcome }
    }

    /// Whether the node waits for an interrupt.
    fn waits(&self) -> bool {
        self.reports.last().is_some_and(|last| matches!(last.report, Report::Ask(_)))
    }
}

/// A report, from its kind and payload. An invalid payload becomes a log line instead: an event that cannot be decoded would make its
/// whole run unreadable.
fn report(kind: EventKind, payload: Map<String, Value>) -> Reported {
    Reported::read(kind, payload).unwrap_or_else(|error| {
        Reported::event(LogAppended {
            content_trust: None,
            fields: None,
            level: "error".into(),
            message: format!("an event was not recorded: {error}"),
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
    /// The executors with these options.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }

    /// The executors with other packs. Which packs are usable depends on the other options.
    #[must_use]
    pub fn with_packs(&self, modules: Modules, agents: Agents) -> Self {
        Self::new(Options { modules: Some(modules), agents: Some(agents), ..(*self.options).clone() })
    }

    /// The capabilities of the engine, extended by those of the executors.
    pub fn widen(&self, capabilities: &Capabilities) -> Capabilities {
        let models = self.options.models.as_ref().is_some_and(Models::is_served);
        Capabilities {
            surfaces: self.options.surfaces.as_ref().map_or(ServedSurfaces::NONE, |surfaces| {
                ServedSurfaces::of(surfaces.served().map(Surface::as_str))
            }),
            models,
            mcp_sampling: capabilities.mcp_mount && models,
            mcp_client: self.options.mcp.as_ref().is_some_and(|servers| !servers.is_empty()),
            http_client: self.options.http.as_ref().is_some_and(HttpAccess::is_served),
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

    /// Problems of a workflow's nodes that only the host can detect.
    pub fn problems(&self, definition: &Definition) -> Vec<Problem> {
        let models = self.options.models.as_ref();
        let mut found =
            models.map(|models| models.problems_of_defaults(&definition.document)).unwrap_or_default();
        found.extend(models.map(|models| models.contract_problems(definition)).unwrap_or_default());
        let is_installed = |agent_id: &str| {
            self.options.agents.as_ref().is_some_and(|agents| agents.get(agent_id).is_some())
        };
        if let Some(agent_id) = definition.required_agent.as_deref().filter(|id| !is_installed(id)) {
            let message = format!("the agent `{agent_id}` is not installed; install a pack that has it");
            found.push(Problem {
                required_capability: Some("agents.manifestRuntime"),
                ..Problem::at("/metadata/requiresAgentId", message)
            });
        }
        let has_servers = self.options.mcp.as_ref().is_some_and(|servers| !servers.is_empty());
        for (index, node) in definition.nodes.iter().enumerate() {
            if !has_servers
                && models.is_some_and(|models| models.wants_tool(node.type_id(), &node.raw_config))
            {
                let message = "this node calls a tool of another MCP server, but the settings name no server under `mcp.servers`";
                found.push(Problem {
                    offending_type_id: Some(node.type_id().to_owned()),
                    node_id: Some(node.id.clone()),
                    required_capability: Some("mcp.supported"),
                    ..Problem::at(format!("/nodes/{index}/config/mcp"), message)
                });
            }
        }
        for (index, node) in definition.nodes.iter().enumerate() {
            let is_unknown =
                |name: &&str| self.options.http.as_ref().is_none_or(|access| !access.knows(name));
            if let Some(name) = node.credential.as_deref().filter(is_unknown) {
                let message = format!("no credential `{name}` is configured under `http.credentials`");
                found.push(Problem::at(format!("/nodes/{index}/credentialsRef"), message));
            }
            if let (Some(_), Some(pin)) = (&self.options.agents, &node.agent) {
                found.extend(pin_problems(pin, &format!("/nodes/{index}/agent")));
            }
            let mut add = |pointer: &str, message: String| {
                found.push(Problem {
                    offending_type_id: Some(node.type_id().to_owned()),
                    node_id: Some(node.id.clone()),
                    ..Problem::at(format!("/nodes/{index}/config{pointer}"), message)
                });
            };
            if let Some(models) = &self.options.models {
                for problem in models.problems(node.type_id(), &node.raw_config) {
                    add(&problem.pointer, problem.message);
                }
            }
            if let (Some(access), NodeConfig::HttpRequest(config)) = (&self.options.http, &node.config)
                && UrlTemplate::parse(&config.url).is_ok_and(|url| !access.allows(&url))
            {
                add("/url", "the host is not allowed; have the operator add it to `egress.http`".into());
            }
            if let (Some(agents), NodeType::Called(CalledType::AgentsRun)) = (&self.options.agents, node.kind)
            {
                for (pointer, message) in agents::run::problems(agents, self.options.tool_context(), node) {
                    add(pointer, message);
                }
            }
        }
        found
    }

    /// The node types of packs.
    pub fn modules(&self) -> Option<&Modules> {
        self.options.modules.as_ref()
    }

    /// The agents of packs.
    pub fn agents(&self) -> Option<&Agents> {
        self.options.agents.as_ref()
    }

    pub fn mcp(&self) -> Option<&mcp::Servers> {
        self.options.mcp.as_ref()
    }

    /// Executes a node.
    pub async fn perform(&self, asked: NodeRequest<'_>) -> Performed {
        let Options { surfaces, modules, models, mcp, agents, http } = &*self.options;
        let called = CalledType::parse(&asked.call.type_id);
        match called.map(CalledType::family) {
            Some(Family::Surface { .. }) => match (called, surfaces) {
                (Some(called), Some(surfaces)) => surfaces::perform(surfaces, called, asked).await,
                _ => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
            Some(Family::Model) => match (models, models::tool_of(asked.call), mcp) {
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
            Some(Family::Http) => match http {
                Some(access) => http_request::perform(access, asked).await,
                None => Performed::plain(Err(not_served(&asked.call.type_id))),
            },
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

/// Problems of the agent that a node is pinned to.
fn pin_problems(pin: &Value, path: &str) -> Vec<Problem> {
    let problems = packs::agents::AgentRef::read(pin).err();
    let problems = problems.iter().flat_map(packs::manifest::Problems::list);
    problems
        .map(|problem| Problem::at(format!("{path}{}", problem.pointer), problem.message.as_str()))
        .collect()
}

/// The error of a node whose type was supported when its workflow was registered, and is not any more.
pub fn not_served(type_id: &str) -> RunError {
    let missing = CalledType::parse(type_id).map_or("its pack", |_| "a part of the host");
    let message = format!(
        "`{type_id}` requires {missing} that is not available; make it available again, and fork the run from here"
    );
    RunError::of(FailureCode::CapabilityNotProvided, message)
}
