//! The choice of the provider and the model, and the check of its capabilities.

use ai::gate::{self, CapabilityQuery, Model, Route};
use ai::node::{Node, Overrides};
use ai::provider::{anthropic, openai};
use flow::engine::Reported;
use flow::failure::FailureCode;
use flow::id::NodeId;
use flow::state::RunError;

use super::{Failure, MOCK, Models, Wire, event};

impl Models {
    /// The provider and the model of a node.
    pub(super) fn choose(&self, node: &Node, overrides: &Overrides) -> Result<(String, String), RunError> {
        let is_mock = matches!(node, Node::MockAi(_));
        let named =
            overrides.provider.as_ref().or(node.call().provider.as_ref()).or(self.options.default.as_ref());
        let name = if is_mock { MOCK.to_owned() } else { named.cloned().unwrap_or_default() };
        let model = overrides.model.as_ref().or(node.call().model.as_ref());
        if name == MOCK && (self.options.mock || is_mock) {
            return Ok((name, model.cloned().unwrap_or_else(|| "mock-mini".to_owned())));
        }
        let Some(provider) = self.options.providers.get(&name) else {
            let known: Vec<&str> = self.providers().collect();
            let message = match name.as_str() {
                "" => "no provider is named, and the settings have no default; set `provider` in the node"
                    .to_owned(),
                name => format!("unknown provider `{name}`; the settings have {}", known.join(", ")),
            };
            return Err(RunError::of(FailureCode::CapabilityNotProvided, message));
        };
        match model.or(provider.model.as_ref()) {
            Some(model) => Ok((name, model.clone())),
            None => {
                let message = format!("set `model` in the node: provider `{name}` has no default model");
                Err(RunError::of(FailureCode::ValidationError, message))
            }
        }
    }

    /// The model that is called: the chosen one, or the author's fallback if the chosen one lacks a capability that the node requires. It is
    /// checked before anything is sent.
    pub(super) fn check_capabilities(
        &self,
        node: &Node,
        node_id: &NodeId,
        (provider, model): (String, String),
    ) -> Result<(Vec<Reported>, (String, String)), Failure> {
        let call = node.call();
        if call.required_capabilities.is_empty() {
            return Ok((Vec::new(), (provider, model)));
        }
        let question = CapabilityQuery {
            required: call.required_capabilities.clone(),
            fallback: call.fallback.clone(),
            active: Model { provider: provider.clone(), model: model.clone() },
            substitution_supported: true,
            supported_providers: self.choosable().map(str::to_owned).collect(),
            node_id: node_id.to_string(),
        };
        let answer = gate::evaluate(&question, |model| gate::known_capabilities(&self.family(model)));
        let reports: Vec<Reported> = answer.event(&question).map(event).into_iter().collect();
        match answer.route {
            Route::Dispatch => Ok((reports, (provider, model))),
            Route::Substitute(other) => Ok((reports, (other.provider, other.model))),
            Route::Refuse { .. } => {
                let message = format!(
                    "the model `{model}` of `{provider}` is not known to have the required capabilities: {}",
                    answer.missing.join(", ")
                );
                Err(Failure { reports, error: RunError::of(FailureCode::CapabilityNotProvided, message) })
            }
        }
    }

    /// The model under the name of a provider whose capabilities are known. Those of compatible servers are unknown.
    fn family(&self, model: &Model) -> Model {
        let known = self.options.providers.get(&model.provider).map(|provider| {
            let own =
                |base: &str| ai::provider::http::BaseUrl::parse(base).is_ok_and(|base| base == provider.base);
            match provider.wire {
                Wire::OpenAi if own(openai::DEFAULT_BASE) => "openai",
                Wire::Anthropic if own(anthropic::DEFAULT_BASE) => "anthropic",
                Wire::OpenAi | Wire::Anthropic => "",
            }
        });
        Model { provider: known.unwrap_or(&model.provider).to_owned(), model: model.model.clone() }
    }
}
