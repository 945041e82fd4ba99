//! Nodes that ask models.
//!
//! The machine of a call is [`ai::completion`]; here it is fed. Every reply is recorded under an identity of its own before
//! anything follows from it, so that a run that goes on after a crash is given the replies that were paid for, and pays for none of them
//! again. A call that was sent and of which nothing was recorded is not sent again: nobody knows whether it was paid for.

mod outputs;
mod providers;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ai::completion::{Attempt, Budget, Completion, Next, Step};
use ai::event::RunEvent;
use ai::node::{Calling, Node, NodeType, Overrides};
use ai::prompt::assemble::{Assembly, assemble};
use ai::prompt::compose::{Observability, bind};
use ai::prompt::library::Library;
use ai::prompt::resolve::{ByKind, Layers};
use ai::provider::Reply;
use ai::provider::mock::{Programs, StreamMock};
use ai::redact::{Redactor, Secret};
use ai::trust::Trust;
use flow::engine::Told;
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Map, Value, json};

pub use self::providers::{Provider, Wire};
use super::ledger::{Claim, Ledger};
use super::{Asked, Performed};
use crate::runs::outbound::Outbound;
use crate::runs::secrets::Secrets;

/// The provider that pretends.
pub const MOCK: &str = "mock";

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
    pub outbound: Outbound,
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

/// Why a node has no answer, and what happened before.
struct Trouble {
    told: Vec<Told>,
    error: RunError,
}

impl From<RunError> for Trouble {
    fn from(error: RunError) -> Self {
        Self { told: Vec::new(), error }
    }
}

impl Models {
    /// These models.
    pub fn new(options: Options) -> Self {
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

    /// Does the work of a node.
    pub(super) async fn perform(&self, asked: Asked<'_>) -> Performed {
        match self.try_perform(asked).await {
            Ok(performed) => performed,
            Err(Trouble { told, error }) => Performed { told, outcome: Err(error) },
        }
    }

    async fn try_perform(&self, asked: Asked<'_>) -> Result<Performed, Trouble> {
        let node = read(asked)?;
        if let Some(mock) = asked.call.configurable.get("mockProvider").filter(|_| asked.call.is_test) {
            return Ok(pretended(asked, mock).await?);
        }
        let overrides =
            Overrides::read(&asked.call.configurable).map_err(|problems| wrong("configurable", &problems))?;
        let (name, model) = self.choose(&node, &overrides)?;
        let provider = self.options.providers.get(&name);
        let secret = provider.and_then(|provider| provider.secret.as_deref());
        let named = overrides.credential.as_ref().or(node.call().credential.as_ref());
        let secret = named.map(ai::node::CredentialRef::id).or(secret);
        let credential = match secret.filter(|_| provider.is_some()) {
            Some(id) => Some((id, self.resolve(asked.tenant, id)?)),
            None => None,
        };
        let redactor = Redactor::new(credential.iter().map(|(id, value)| Secret::new(*id, value.expose())));
        let trust = trust_of(asked);
        let (mut told, prompts) = self.prompts(&node, asked, &overrides, trust)?;
        told.extend(node.warnings(asked.node_id).into_iter().map(event));
        let inputs = ai::node::messages(&asked.call.inputs, trust).map_err(|error| Trouble {
            told: told.clone(),
            error: RunError::new(error.code.as_str(), error.to_string()),
        })?;
        let calling = Calling {
            node_id: asked.node_id,
            provider: &name,
            model: &model,
            prompts,
            inputs,
            overrides: &overrides,
            budget: Budget::default(),
            redactor,
        };
        let (completion, first) = node.start(calling);
        let door = Door {
            models: self,
            asked,
            provider,
            credential: credential.as_ref().map(|(_, value)| value.expose()),
        };
        door.drive(&node, completion, first, told).await
    }

    /// The prompts of a node, and what is recorded of them.
    fn prompts(
        &self,
        node: &Node,
        asked: Asked<'_>,
        overrides: &Overrides,
        trust: Trust,
    ) -> Result<(Vec<Told>, Vec<ai::provider::Message>), Trouble> {
        let none = ByKind::default();
        let bindings = |template: &ai::prompt::template::Template| {
            let mut values = asked.call.variables.clone();
            values.extend(asked.call.inputs.clone());
            let secret = |id: &str| {
                let value = self.options.secrets.resolve(asked.tenant, id).ok()?;
                Some(Secret::new(id, value.expose()))
            };
            bind(template, &values, |_| trust, secret)
        };
        let assembled = assemble(&Assembly {
            node_id: asked.node_id,
            layers: Layers {
                run: &overrides.prompts,
                node: &node.call().prompts,
                agent: None,
                agent_bindings: false,
                workflow: &none,
                host: &none,
            },
            library: &self.options.library,
            bindings: &bindings,
            observability: Observability::Hashed,
        });
        match assembled {
            Ok(assembled) => {
                let messages = assembled.messages();
                Ok((assembled.events.into_iter().map(event).collect(), messages))
            }
            Err(error) => Err(Trouble {
                told: error.events.into_iter().map(event).collect(),
                error: RunError::new(error.code.as_str(), error.message),
            }),
        }
    }

    /// Who is asked, and which model of theirs.
    fn choose(&self, node: &Node, overrides: &Overrides) -> Result<(String, String), RunError> {
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
                "" => "no provider is named, and the settings have no default; set `provider` of the node"
                    .to_owned(),
                name => format!("there is no provider `{name}` here; the settings have {}", known.join(", ")),
            };
            return Err(RunError::of(FailureCode::CapabilityNotProvided, message));
        };
        match model.or(provider.model.as_ref()) {
            Some(model) => Ok((name, model.clone())),
            None => {
                let message = format!("set `model` of the node: provider `{name}` has no default");
                Err(RunError::of(FailureCode::ValidationError, message))
            }
        }
    }

    fn resolve(&self, tenant: &str, id: &str) -> Result<crate::runs::secrets::SecretValue, RunError> {
        let resolved = self.options.secrets.resolve(tenant, id);
        resolved.map_err(|error| RunError::new("credential_required", format!("`{id}`: {error}")))
    }
}

/// One call on its way.
struct Door<'a> {
    models: &'a Models,
    asked: Asked<'a>,
    /// Nobody where one pretends.
    provider: Option<&'a Provider>,
    credential: Option<&'a str>,
}

impl Door<'_> {
    /// Feeds the machine until it is at its end.
    async fn drive(
        &self,
        node: &Node,
        mut completion: Completion,
        first: ai::completion::Call,
        mut told: Vec<Told>,
    ) -> Result<Performed, Trouble> {
        let mut call = first;
        loop {
            let attempt = self.attempt(&call).await.map_err(|error| Trouble { told: told.clone(), error })?;
            let Step { events, next } = completion.on(attempt);
            told.extend(events.into_iter().map(event));
            match next {
                Next::Call(next) => call = next,
                Next::Done(done) => {
                    told.extend(outputs::chunks(node, self.asked, &done.reply));
                    return Ok(Performed { told, outcome: Ok(outputs::of(node, &done)) });
                }
                Next::Failed(failed) => {
                    let error = RunError::new(failed.code.as_str(), failed.message);
                    return Ok(Performed { told, outcome: Err(error) });
                }
            }
        }
    }

    /// What comes of a call: what was recorded, or else what the provider says now.
    async fn attempt(&self, call: &ai::completion::Call) -> Result<Attempt, RunError> {
        let Some(provider) = self.provider else {
            let reply = self.models.programs().answer(self.asked.node_id, &call.request);
            return Ok(Attempt::Reply(reply));
        };
        let id = format!("{}.{}", self.asked.invocation, call.ordinal);
        let ledger = self.asked.ledger;
        match ledger.claim(&id).await.map_err(|error| unrecorded(&error))? {
            Claim::New => {}
            Claim::Done(recorded) => {
                let record: Value = serde_json::from_slice(&recorded).unwrap_or_default();
                if let Some(reply) = Reply::from_record(&record) {
                    return Ok(Attempt::Recorded(reply));
                }
                return Err(unknown());
            }
            // A call that failed on the way is the same call again, in this life; in another one nobody knows.
            Claim::Unknown if call.wait_ms > 0 => {}
            Claim::Unknown => return Err(unknown()),
        }
        if call.wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(call.wait_ms)).await;
        }
        let sent = provider.send(&self.models.options.outbound, &call.request, self.credential, &id).await;
        match sent {
            Ok(reply) => {
                self.record(ledger, &id, &reply).await?;
                Ok(Attempt::Reply(reply))
            }
            Err(error) => Ok(Attempt::Failed(error)),
        }
    }

    async fn record(&self, ledger: &dyn Ledger, id: &str, reply: &Reply) -> Result<(), RunError> {
        let redactor = Redactor::new(self.credential.map(|value| Secret::new("credential", value)));
        let mut record = reply.to_record();
        redactor.value(&mut record);
        ledger.finish(id, record.to_string().into_bytes()).await.map_err(|error| unrecorded(&error))
    }
}

/// What a provider that pretends says to the caller of a run who asks for it.
async fn pretended(asked: Asked<'_>, mock: &Value) -> Result<Performed, RunError> {
    let (id, config) = match mock {
        Value::String(id) => (id.as_str(), &Value::Null),
        other => (
            other.get("id").and_then(Value::as_str).unwrap_or_default(),
            other.get("config").unwrap_or(&Value::Null),
        ),
    };
    let mock = StreamMock::read(id, config)
        .map_err(|error| RunError::of(FailureCode::ValidationError, error.to_string()))?;
    if let Some(failure) = &mock.failure {
        tokio::time::sleep(Duration::from_millis(failure.after_ms)).await;
        return Ok(Performed::plain(Err(RunError::new(failure.code.as_str(), failure.message.as_str()))));
    }
    let told = outputs::pieces(asked, &mock.tokens, &mock.meta());
    for _ in &told {
        tokio::time::sleep(Duration::from_millis(mock.delay_ms_per_token)).await;
    }
    let outcome = json!({"content": mock.tokens.concat(), "meta": mock.meta()});
    Ok(Performed { told, outcome: Ok(outcome) })
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
fn trust_of(asked: Asked<'_>) -> Trust {
    match asked.call.metadata.get("trustBoundary").and_then(Value::as_str) {
        Some("untrusted") => Trust::Untrusted,
        _ => Trust::Trusted,
    }
}

fn event(event: RunEvent) -> Told {
    Told { kind: EventKind::parse(event.kind.as_str()), payload: event.payload, cause: None }
}

fn unknown() -> RunError {
    let message =
        "the host ended while a model was asked, and its answer was not recorded; it is not asked again";
    RunError::of(FailureCode::EffectOutcomeUnknown, message)
}

fn unrecorded(error: &super::ledger::Unwritable) -> RunError {
    RunError::of(FailureCode::NodeFailed, format!("no model was asked: {error}"))
}
