//! Resolves and composes all prompts of a node, in the order in which the model reads them.

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

/// The inputs of prompt assembly.
#[derive(Clone, Copy)]
pub struct Assembly<'a> {
    pub node_id: &'a str,
    /// The layers that may provide templates.
    pub layers: Layers<'a>,
    /// The available templates.
    pub library: &'a Library,
    pub bindings: &'a dyn Fn(&Template) -> Bindings,
    /// How much is recorded.
    pub observability: Observability,
}

#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// All resolution events, then all composition events.
    pub events: Vec<RunEvent>,
    /// The prompts in the order in which the model reads them.
    pub prompts: Vec<Composed>,
}

/// An assembly error and the events to record anyway.
#[derive(Clone, Debug)]
pub struct AssembleError {
    pub code: FailureCode,
    /// A description that contains no variable values.
    pub message: String,
    /// The events before the error.
    pub events: Vec<RunEvent>,
}

impl Assembled {
    /// The prompts as messages: system prompts and schema hints as system messages, all others as user messages.
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

    /// The secrets in the prompts, which the model may repeat.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.prompts.iter().flat_map(Composed::secrets)
    }

    /// Whether all inserted values are trusted.
    pub fn trust(&self) -> Trust {
        Trust::of_all(self.prompts.iter().map(|prompt| prompt.trust))
    }
}

/// Resolves and composes all prompts of a node. A slot without a template stays empty.
///
/// # Errors
/// A template is not found, or a variable has no value.
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
