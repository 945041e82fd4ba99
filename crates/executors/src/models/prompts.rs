//! The prompts of a node: the templates, their sources, and their values.

use ai::node::{Node, Overrides};
use ai::prompt::assemble::{Assembly, assemble};
use ai::prompt::compose::{Observability, bind};
use ai::prompt::library::Library;
use ai::prompt::resolve::{ByKind, Layers, by_kind};
use ai::prompt::template::Template;
use ai::prompt::{PromptKind, PromptRef};
use ai::provider::Message;
use ai::redact::Secret;
use ai::trust::Trust;
use flow::definition::Problem;
use flow::engine::Reported;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::Value;

use super::super::NodeRequest;
use super::{Failure, Models, event};

/// The maximum number of reported problems of default prompts.
const MAX_PROBLEMS: usize = 8;

/// The composed prompts of a node.
pub(super) struct Prompts {
    /// The events about them.
    pub(super) reports: Vec<Reported>,
    pub(super) messages: Vec<Message>,
    /// The secrets in them, which the model may repeat.
    pub(super) secrets: Vec<Secret>,
}

impl Models {
    /// The templates that workflows may refer to.
    pub fn library(&self) -> &Library {
        &self.options.library
    }

    /// How much of a prompt is recorded: digests. Conformance suites need the texts, and their prompts contain no personal data.
    pub fn observability(&self) -> Observability {
        if self.options.mock { Observability::Full } else { Observability::Hashed }
    }

    /// A secret of a tenant, for a prompt.
    pub fn prompt_secret(&self, tenant: &Tenant, id: &str) -> Option<Secret> {
        let value = self.options.secrets.resolve(tenant, id).ok()?;
        Some(Secret::new(id, value.expose()))
    }

    /// Problems of the default prompts of a workflow. The named prompts need not exist yet.
    pub(in super::super) fn problems_of_defaults(&self, workflow: &Value) -> Vec<Problem> {
        const LOCATION: &str = "/defaults/promptRefs";
        let refs = match workflow.pointer(LOCATION) {
            None => return Vec::new(),
            Some(Value::Object(refs)) => refs,
            Some(_) => {
                return vec![Problem::at(LOCATION, "expected an object of kinds and references")];
            }
        };
        let problem = |(kind, reference): (&String, &Value)| {
            let member: String =
                kind.chars().take(64).collect::<String>().replace('~', "~0").replace('/', "~1");
            let message = if PromptKind::parse(kind).is_none() {
                "the kind of a prompt must be one of system, user, few-shot, schema-hint"
            } else if PromptRef::read(reference).is_none() {
                "must be a reference to a prompt, for example `prompt:writer@1.0.0`"
            } else {
                return None;
            };
            Some(Problem::at(format!("{LOCATION}/{member}"), message))
        };
        refs.iter().filter_map(problem).take(MAX_PROBLEMS).collect()
    }

    /// Composes the prompts of a node.
    pub(super) fn prompts(
        &self,
        node: &Node,
        asked: NodeRequest<'_>,
        overrides: &Overrides,
        trust: Trust,
    ) -> Result<Prompts, Failure> {
        let (none, workflow) = (ByKind::default(), asked.call.prompt_refs.as_ref().map(by_kind));
        let bindings = |template: &Template| {
            let mut values = asked.call.variables.clone();
            values.extend(asked.call.inputs.clone());
            bind(template, &values, |_| trust, |id| self.prompt_secret(asked.tenant, id))
        };
        let assembled = assemble(&Assembly {
            node_id: asked.node_id.as_str(),
            layers: Layers {
                run: &overrides.prompts,
                node: &node.call().prompts,
                agent: None,
                agent_bindings: false,
                workflow: workflow.as_ref().unwrap_or(&none),
                host: &none,
            },
            library: self.library(),
            bindings: &bindings,
            observability: self.observability(),
        });
        match assembled {
            Ok(assembled) => Ok(Prompts {
                messages: assembled.messages(),
                secrets: assembled.secrets().cloned().collect(),
                reports: assembled.events.into_iter().map(event).collect(),
            }),
            Err(error) => Err(Failure {
                reports: error.events.into_iter().map(event).collect(),
                error: RunError::new(error.code.as_str(), error.message),
            }),
        }
    }
}
