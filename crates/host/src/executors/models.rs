//! Nodes that ask models.
//!
//! The machine of a call is [`ai::completion`]; here it is fed. Every reply is recorded under an identity of its own before
//! anything follows from it, so that a run that goes on after a crash is given the replies that were paid for, and pays for none of them
//! again. A call that was sent and of which nothing was recorded is not sent again: nobody knows whether it was paid for.

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
use flow::engine::{Cause, Reported};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::{Map, Value};

use self::gateway::Gateway;
pub use self::providers::{Provider, Wire};
use super::agents::toolset::Toolset;
use super::{Asked, Performed, told};
use crate::executors::failure::ExecutorErrorCode;
use crate::runs::secrets::Secrets;

/// The provider that pretends.
pub const MOCK: &str = "mock";

/// The version of the kinds of envelopes that everybody knows.
pub const UNIVERSAL_VERSION: u64 = 1;

/// What models a host may ask.
pub struct Options {
    /// The providers, by the names that workflows use.
    pub providers: std::collections::BTreeMap<String, Provider>,
    /// The one that is asked where nobody names one.
    pub default: Option<String>,
    /// The prompts that workflows may refer to.
    pub library: Library,
    /// Where credentials come from.
    pub secrets: Arc<dyn Secrets>,
    /// How providers are called.
    pub outbound: outbound::Client,
    /// The kinds of envelopes that nodes may take beside those that everybody knows.
    pub kinds: Kinds,
    /// Whether the provider that pretends may be asked, by any workflow. For tests.
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

/// What a model may use, and for whom it does.
pub(super) struct Tools<'t> {
    pub(super) toolset: &'t Toolset<'t>,
    pub(super) agent_id: &'t str,
    /// How much of them.
    pub(super) bounds: Bounds,
}

/// Why a node has no answer, and what happened before.
struct Trouble {
    told: Vec<Reported>,
    error: RunError,
}

impl Trouble {
    fn told(self) -> Performed {
        Performed { told: self.told, outcome: Err(self.error) }
    }
}

impl From<RunError> for Trouble {
    fn from(error: RunError) -> Self {
        Self { told: Vec::new(), error }
    }
}

impl Models {
    /// These models. Where one may pretend, the prompts are there too that suites refer to, and it is asked where there is no other.
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

    /// Whether a provider can be asked that is not there to pretend, or any where tests are served.
    pub fn is_served(&self) -> bool {
        self.options.mock || !self.options.providers.is_empty()
    }

    /// The names of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.options.providers.keys().map(String::as_str)
    }

    /// The names of all that can be asked: also of the one that pretends, where it is served.
    pub fn choosable(&self) -> impl Iterator<Item = &str> {
        self.providers().chain(self.options.mock.then_some(MOCK))
    }

    /// What the provider that pretends is to answer.
    pub fn programs(&self) -> std::sync::MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether tests may ask the provider that pretends.
    pub fn is_mocked(&self) -> bool {
        self.options.mock
    }

    /// What is wrong with the configuration of a node.
    pub fn problems(&self, type_id: &str, config: &Map<String, Value>) -> Vec<ai::node::Problem> {
        let Some(kind) = NodeType::parse(type_id) else { return Vec::new() };
        Node::read(kind, &Value::Object(config.clone())).err().unwrap_or_default()
    }

    /// Whether a node calls a tool in the place of a model.
    pub(super) fn wants_tool(&self, type_id: &str, config: &Map<String, Value>) -> bool {
        NodeType::parse(type_id) == Some(NodeType::CallPrompt) && config.contains_key("mcp")
    }

    /// Does the work of a node.
    pub(super) async fn perform(&self, asked: Asked<'_>) -> Performed {
        let performed = match read(asked) {
            Ok(node) => self.ask(&node, asked, &asked.call.inputs, None, Some(self.judging(asked))).await,
            Err(error) => Err(error.into()),
        };
        performed.unwrap_or_else(Trouble::told)
    }

    /// Does the work of a node with tools, over several rounds.
    pub(super) async fn converse(&self, asked: Asked<'_>, tools: Tools<'_>) -> Performed {
        let performed = match read(asked) {
            Ok(node) => {
                let judging = self.judging(asked);
                self.ask(&node, asked, &asked.call.inputs, Some(tools), Some(judging)).await
            }
            Err(error) => Err(error.into()),
        };
        performed.unwrap_or_else(Trouble::told)
    }

    /// Asks what a client of MCP wants of a model, and gives what the client is told.
    pub(super) async fn sample(&self, asked: Asked<'_>) -> Performed {
        let request = asked.call.inputs.get("request").unwrap_or(&Value::Null);
        let hint = asked.call.config.get("modelHint").and_then(Value::as_str);
        let asking = async {
            let wrong = |message: String| RunError::of(FailureCode::ValidationError, message);
            let sampling = Sampling::read(request).map_err(|error| wrong(format!("`request`{error}")))?;
            let node = Node::read(NodeType::CallPrompt, &sampling.config(hint));
            let node = node.map_err(|problems| self::wrong("config", &problems))?;
            // Whatever the model says is the client's.
            self.ask(&node, asked, &sampling.inputs(), None, None).await
        };
        let mut performed = asking.await.unwrap_or_else(Trouble::told);
        performed.outcome = performed.outcome.map(|given| outputs::sampled(&given));
        performed
    }

    async fn ask(
        &self,
        node: &Node,
        asked: Asked<'_>,
        inputs: &Map<String, Value>,
        tools: Option<Tools<'_>>,
        envelopes: Option<EnvelopeRules>,
    ) -> Result<Performed, Trouble> {
        if let Some(mock) = asked.call.configurable.get("mockProvider").filter(|_| asked.call.is_test) {
            return Ok(mock::pretended(asked, mock).await?);
        }
        let overrides =
            Overrides::read(&asked.call.configurable).map_err(|problems| wrong("configurable", &problems))?;
        let meant = self.choose(node, &overrides)?;
        let (judged, (name, model)) = self.able(node, asked.node_id, meant)?;
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
        // Whatever goes to the provider or to a tool may come back in a reply, in one piece or in several.
        let secrets = credential.iter().map(|(id, value)| Secret::new(*id, value.expose()));
        let of_tools = tools.as_ref().map(|tools| tools.toolset.secrets(asked.tenant));
        let redactor = Redactor::new(secrets.chain(prompts.secrets).chain(of_tools.into_iter().flatten()));
        let mut told = judged;
        told.extend(prompts.told);
        told.extend(node.warnings(asked.node_id.as_str()).into_iter().map(event));
        let inputs = ai::node::messages(inputs, trust).map_err(|error| Trouble {
            told: told.clone(),
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
        let door = Gateway {
            models: self,
            asked,
            provider,
            credential: credential.as_ref().map(|(_, value)| value.expose()),
            redactor,
            verbosity,
        };
        let Some(Tools { toolset, agent_id, bounds }) = tools else {
            let (completion, first) = node.start(calling);
            return door.drive(node, completion, first, told).await;
        };
        let settings = ai::tools::Settings {
            agent_id: agent_id.to_owned(),
            call_prefix: asked.invocation.to_string(),
            bounds,
            verbosity,
        };
        let toolbox = toolset.toolbox().map_err(|error| Trouble { told: told.clone(), error })?;
        let (conversation, first) = node.converse(calling, settings, toolbox);
        door.converse(node, conversation, first, toolset, told).await
    }

    fn resolve(&self, tenant: &Tenant, id: &str) -> Result<crate::runs::secrets::SecretValue, RunError> {
        let resolved = self.options.secrets.resolve(tenant, id);
        resolved
            .map_err(|error| RunError::of(ExecutorErrorCode::CredentialRequired, format!("`{id}`: {error}")))
    }
}

/// The tool that a node calls in the place of a model, where it does.
pub(super) fn tool_of(asked: Asked<'_>) -> Option<McpCall> {
    match read(asked) {
        Ok(Node::CallPrompt(node)) => node.mcp,
        _ => None,
    }
}

fn read(asked: Asked<'_>) -> Result<Node, RunError> {
    let kind = NodeType::parse(&asked.call.type_id);
    let kind = kind.ok_or_else(|| super::not_served(&asked.call.type_id))?;
    Node::read(kind, &Value::Object(asked.call.config.clone())).map_err(|problems| wrong("config", &problems))
}

fn wrong(what: &str, problems: &[ai::node::Problem]) -> RunError {
    let first = problems
        .first()
        .map_or_else(String::new, |problem| format!("{}: {}", problem.pointer, problem.message));
    RunError::of(FailureCode::ValidationError, format!("`{what}`{first}"))
}

/// Whether what the run was given may be believed.
pub(super) fn trust_of(asked: Asked<'_>) -> Trust {
    match asked.call.metadata.get("trustBoundary").and_then(Value::as_str) {
        Some("untrusted") => Trust::Untrusted,
        _ => Trust::Trusted,
    }
}

fn event(event: RunEvent) -> Reported {
    let cause = event.causation_id.map(Cause::Id);
    Reported { cause, ..told(EventKind::parse(event.kind.as_str()), event.payload) }
}
