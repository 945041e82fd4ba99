//! All prompts of a node: resolved, composed, and in the order in which the model reads them.

use super::compose::{Bindings, Composed, Observability, compose};
use super::library::Library;
use super::resolve::{Layer, Layers, resolve};
use super::template::Template;
use super::{PromptKind, PromptRef};
use crate::event::RunEvent;
use crate::failure::FailureCode;
use crate::provider::{Message, Role};
use crate::redact::Secret;
use crate::trust::Trust;

/// What is put together.
#[derive(Clone, Copy)]
pub struct Assembly<'a> {
    /// The node.
    pub node_id: &'a str,
    /// Who is asked for templates.
    pub layers: Layers<'a>,
    /// The templates that there are.
    pub library: &'a Library,
    /// Values for a template.
    pub bindings: &'a dyn Fn(&Template) -> Bindings,
    /// How much is recorded.
    pub observability: Observability,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// Every resolution, then every composition.
    pub events: Vec<RunEvent>,
    /// The prompts, in the order in which the model reads them.
    pub prompts: Vec<Composed>,
}

/// Why it did not work, and what is recorded all the same.
#[derive(Clone, Debug)]
pub struct AssembleError {
    /// Why.
    pub code: FailureCode,
    /// Why, for people. No value is repeated.
    pub message: String,
    /// What was resolved and composed before.
    pub events: Vec<RunEvent>,
}

impl Assembled {
    /// The prompts as messages: how to behave and what the reply looks like are the author's, the rest is the question.
    pub fn messages(&self) -> Vec<Message> {
        let message = |prompt: &Composed| {
            let role = match prompt.kind {
                PromptKind::System | PromptKind::SchemaHint => Role::System,
                PromptKind::User | PromptKind::FewShot => Role::User,
            };
            Message::new(role, prompt.expose())
        };
        self.prompts.iter().map(message).collect()
    }

    /// The secrets that the model is told, and may repeat.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.prompts.iter().flat_map(Composed::secrets)
    }

    /// Whether all that went in may be believed.
    pub fn trust(&self) -> Trust {
        Trust::of_all(self.prompts.iter().map(|prompt| prompt.trust))
    }
}

/// Resolves and composes all prompts of a node. A place for which nobody has a template stays empty.
///
/// # Errors
/// A template is not there, or a value for it.
pub fn assemble(assembly: &Assembly<'_>) -> Result<Assembled, AssembleError> {
    let mut assembled = Assembled::default();
    let mut found: Vec<(Template, PromptRef)> = Vec::new();
    for slot in assembly.layers.node.slots() {
        let resolution = resolve(slot, &assembly.layers, assembly.library);
        let Some(applied) = resolution.applied() else { continue };
        let Some(reference) = applied.source.clone() else { continue };
        assembled.events.push(resolution.event(assembly.node_id));
        let inline = assembly.layers.agent.filter(|_| applied.layer == Layer::AgentIntrinsic);
        let template = match inline.and_then(|agent| agent.system_prompt.as_deref()) {
            Some(text) => Template::inline(&reference, slot.kind, text),
            None => match assembly.library.find(&reference) {
                Ok(template) => template.clone(),
                Err(error) => {
                    let message = format!("{reference}: {error}");
                    return Err(AssembleError { code: error.code(), message, events: assembled.events });
                }
            },
        };
        found.push((template, reference));
    }
    for (template, reference) in found {
        match compose(&template, &reference, &(assembly.bindings)(&template)) {
            Ok(prompt) => {
                assembled.events.extend(prompt.event(assembly.node_id, assembly.observability));
                assembled.prompts.push(prompt);
            }
            Err(error) => {
                let message = format!("{reference}: {error}");
                return Err(AssembleError { code: error.code(), message, events: assembled.events });
            }
        }
    }
    Ok(assembled)
}
