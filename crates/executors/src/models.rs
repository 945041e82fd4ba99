//! Nodes that call models.
//!
//! [`ai::completion`] is the state machine of a call; this module drives it. Every reply is recorded under its own id before anything follows
//! from it. After a crash, a run gets the recorded replies and does not pay for them again. A call that was sent but has no recorded reply is
//! not repeated, because it is unknown whether it was charged.

mod choice;
mod converse;
mod envelopes;
mod gateway;
mod live;
mod mock;
mod outputs;
mod prompts;
mod providers;
mod transcript;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ai::completion::{Budget, EnvelopeRules};
use ai::envelope::{Kinds, Universal};
use ai::event::RunEvent;
use ai::node::sampling::Sampling;
use ai::node::{Calling, McpCall, Node, NodeType, Overrides};
use ai::prompt::conformance;
use ai::prompt::library::Library;
use ai::provider::mock::Programs;
use ai::reasoning::Verbosity;
use ai::redact::{Redactor, Secret};
use ai::tools::Bounds;
use ai::trust::Trust;
use flow::engine::{Cause, NodeCall, Reported};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::{Map, Value};
use system::secrets::Secrets;

use self::gateway::Gateway;
pub use self::providers::{Provider, Wire};
use super::agents::toolset::Toolset;
use super::{NodeRequest, Performed, report};
use crate::failure::ExecutorErrorCode;

/// The name of the mock provider.
pub const MOCK: &str = "mock";

/// The version of the universal kinds of envelopes.
pub const UNIVERSAL_VERSION: u64 = 1;

/// The models of a host.
pub struct Options {
    /// The providers, by the names that workflows use.
    pub providers: std::collections::BTreeMap<String, Provider>,
    /// The provider of nodes that name none.
    pub default: Option<String>,
    /// The prompts that workflows may refer to.
    pub library: Library,
    /// The source of credentials.
    pub secrets: Arc<dyn Secrets>,
    /// The HTTP client for providers.
    pub outbound: outbound::Client,
    /// The kinds of envelopes that nodes may accept, in addition to the universal ones.
    pub kinds: Kinds,
    /// Whether every workflow may use the mock provider. For tests.
    pub mock: bool,
}

/// The models of a host. Cheap to clone.
#[derive(Clone)]
pub struct Models {
    options: Arc<Options>,
    programs: Arc<Mutex<Programs>>,
}

impl fmt::Debug for Models {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Models")
            .field("providers", &self.options.providers.keys())
            .finish_non_exhaustive()
    }
}

/// The tools of a model, and their agent.
pub(super) struct Tools<'t> {
    pub(super) toolset: &'t Toolset<'t>,
    pub(super) agent_id: &'t str,
    /// The limits of their use.
    pub(super) bounds: Bounds,
}

/// Why a node has no result, and what happened before.
struct Failure {
    reports: Vec<Reported>,
    error: RunError,
}

impl Failure {
    fn into_performed(self) -> Performed {
        Performed { reports: self.reports, outcome: Err(self.error) }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self { reports: Vec::new(), error }
    }
}

impl Models {
    /// The models of a host. With the mock provider, the prompts of conformance suites are added, and it is the default if there is no other
    /// provider.
    pub fn new(mut options: Options) -> Self {
        for kind in Universal::ALL {
            options.kinds.version(kind.as_str(), UNIVERSAL_VERSION);
        }
        if options.mock {
            if options.providers.is_empty() {
                options.default.get_or_insert_with(|| MOCK.to_owned());
            }
            conformance::templates().for_each(|template| options.library.add(template));
        }
        Self { options: Arc::new(options), programs: Arc::default() }
    }

    /// Whether any provider can be called.
    pub fn is_served(&self) -> bool {
        self.options.mock || !self.options.providers.is_empty()
    }

    /// The names of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.options.providers.keys().map(String::as_str)
    }

    /// The names of all providers, including the mock provider if it is enabled.
    pub fn choosable(&self) -> impl Iterator<Item = &str> {
        self.providers().chain(self.options.mock.then_some(MOCK))
    }

    /// The replies of the mock provider.
    pub fn programs(&self) -> std::sync::MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the mock provider is enabled.
    pub fn is_mocked(&self) -> bool {
        self.options.mock
    }

    /// Problems of the configuration of a node.
    pub fn problems(&self, type_id: &str, config: &Map<String, Value>) -> Vec<ai::node::Problem> {
        let Some(kind) = NodeType::parse(type_id) else { return Vec::new() };
        Node::read(kind, &Value::Object(config.clone())).err().unwrap_or_default()
    }

    /// Whether a node calls a tool instead of a model.
    pub(super) fn wants_tool(&self, type_id: &str, config: &Map<String, Value>) -> bool {
        NodeType::parse(type_id) == Some(NodeType::CallPrompt) && config.contains_key("mcp")
    }

    /// Executes a node.
    pub(super) async fn perform(&self, asked: NodeRequest<'_>) -> Performed {
        let performed = match read(asked.call) {
            Ok(node) => {
                self.ask(&node, asked, &asked.call.inputs, None, Some(self.envelope_rules(asked))).await
            }
            Err(error) => Err(error.into()),
        };
        performed.unwrap_or_else(Failure::into_performed)
    }

    /// Executes a node with tools, in several rounds.
    pub(super) async fn converse(&self, asked: NodeRequest<'_>, tools: Tools<'_>) -> Performed {
        let performed = match read(asked.call) {
            Ok(node) => {
                let rules = self.envelope_rules(asked);
                self.ask(&node, asked, &asked.call.inputs, Some(tools), Some(rules)).await
            }
            Err(error) => Err(error.into()),
        };
        performed.unwrap_or_else(Failure::into_performed)
    }

    /// Executes a sampling request of an MCP client, and returns the reply to the client.
    pub(super) async fn sample(&self, asked: NodeRequest<'_>) -> Performed {
        let request = asked.call.inputs.get("request").unwrap_or(&Value::Null);
        let hint = asked.call.config.get("modelHint").and_then(Value::as_str);
        let asking = async {
            let wrong = |message: String| RunError::of(FailureCode::ValidationError, message);
            let sampling = Sampling::read(request).map_err(|error| wrong(format!("`request`{error}")))?;
            let node = Node::read(NodeType::CallPrompt, &sampling.config(hint));
            let node = node.map_err(|problems| self::wrong("config", &problems))?;
            // The reply belongs to the client, so envelopes in it are not interpreted.
            self.ask(&node, asked, &sampling.inputs(), None, None).await
        };
        let mut performed = asking.await.unwrap_or_else(Failure::into_performed);
        performed.outcome = performed.outcome.map(|given| outputs::sampled(&given));
        performed
    }

    async fn ask(
        &self,
        node: &Node,
        asked: NodeRequest<'_>,
        inputs: &Map<String, Value>,
        tools: Option<Tools<'_>>,
        envelopes: Option<EnvelopeRules>,
    ) -> Result<Performed, Failure> {
        if let Some(mock) = asked.call.configurable.get("mockProvider").filter(|_| asked.call.is_test) {
            return Ok(mock::mock_reply(asked, mock).await?);
        }
        let overrides =
            Overrides::read(&asked.call.configurable).map_err(|problems| wrong("configurable", &problems))?;
        let chosen = self.choose(node, &overrides)?;
        let (gate_reports, (name, model)) = self.check_capabilities(node, asked.node_id, chosen)?;
        let provider = self.options.providers.get(&name);
        let secret = provider.and_then(|provider| provider.secret.as_deref());
        let named = overrides.credential.as_ref().or(node.call().credential.as_ref());
        let secret = named.map(ai::node::CredentialRef::id).or(secret);
        let credential = match secret.filter(|_| provider.is_some()) {
            Some(id) => Some((id, self.resolve(asked.tenant, id)?)),
            None => None,
        };
        let trust = trust_of(asked);
        let prompts = self.prompts(node, asked, &overrides, trust)?;
        // Everything that is sent to the provider or to a tool may come back in a reply, complete or in parts.
        let secrets = credential.iter().map(|(id, value)| Secret::new(*id, value.expose()));
        let of_tools = tools.as_ref().map(|tools| tools.toolset.secrets(asked.tenant));
        let redactor = Redactor::new(secrets.chain(prompts.secrets).chain(of_tools.into_iter().flatten()));
        let mut reports = gate_reports;
        reports.extend(prompts.reports);
        reports.extend(node.warnings(asked.node_id.as_str()).into_iter().map(event));
        let inputs = ai::node::messages(inputs, trust).map_err(|error| Failure {
            reports: reports.clone(),
            error: RunError::new(error.code.as_str(), error.to_string()),
        })?;
        let calling = Calling {
            node_id: asked.node_id.as_str(),
            provider: &name,
            model: &model,
            prompts: prompts.messages,
            inputs,
            overrides: &overrides,
            budget: Budget::default(),
            redactor: redactor.clone(),
            envelopes,
        };
        let verbosity = overrides.verbosity.unwrap_or(Verbosity::Summary);
        let gateway = Gateway {
            models: self,
            asked,
            provider,
            credential: credential.as_ref().map(|(_, value)| value.expose()),
            redactor,
            verbosity,
        };
        let Some(Tools { toolset, agent_id, bounds }) = tools else {
            let (completion, first) = node.start(calling);
            return gateway.drive(node, completion, first, reports).await;
        };
        let settings = ai::tools::Settings {
            agent_id: agent_id.to_owned(),
            call_prefix: asked.invocation.to_string(),
            bounds,
            verbosity,
        };
        let toolbox = toolset.toolbox().map_err(|error| Failure { reports: reports.clone(), error })?;
        let (conversation, first) = node.converse(calling, settings, toolbox);
        gateway.converse(node, conversation, first, toolset, reports).await
    }

    fn resolve(&self, tenant: &Tenant, id: &str) -> Result<system::secrets::SecretValue, RunError> {
        let resolved = self.options.secrets.resolve(tenant, id);
        resolved
            .map_err(|error| RunError::of(ExecutorErrorCode::CredentialRequired, format!("`{id}`: {error}")))
    }
}

/// The tool that a node calls instead of a model, if it does.
pub(super) fn tool_of(call: &NodeCall) -> Option<McpCall> {
    match read(call) {
        Ok(Node::CallPrompt(node)) => node.mcp,
        _ => None,
    }
}

fn read(call: &NodeCall) -> Result<Node, RunError> {
    let kind = NodeType::parse(&call.type_id);
    let kind = kind.ok_or_else(|| super::not_served(&call.type_id))?;
    Node::read(kind, &Value::Object(call.config.clone())).map_err(|problems| wrong("config", &problems))
}

fn wrong(what: &str, problems: &[ai::node::Problem]) -> RunError {
    let first = problems
        .first()
        .map_or_else(String::new, |problem| format!("{}: {}", problem.pointer, problem.message));
    RunError::of(FailureCode::ValidationError, format!("`{what}`{first}"))
}

/// Whether the inputs of the run are trusted.
pub(super) fn trust_of(asked: NodeRequest<'_>) -> Trust {
    match asked.call.metadata.get("trustBoundary").and_then(Value::as_str) {
        Some("untrusted") => Trust::Untrusted,
        _ => Trust::Trusted,
    }
}

fn event(event: RunEvent) -> Reported {
    let cause = event.causation_id.map(Cause::Id);
    Reported { cause, ..report(EventKind::parse(event.kind.as_str()), event.payload) }
}
