//! Nodes that expose their workflow to MCP clients.

use serde_json::{Map, Value, json};

use super::super::ask::Question;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::called;
use crate::definition::NodeIndex;
use crate::definition::exposed::ExposedConfig;
use crate::definition::exposed::form::{CONTEXT, Form};
use crate::failure::FailureCode;
use crate::interrupt::InterruptKind;
use crate::state::{Resolution, RunError};

/// The MCP server has read the node from the definition, before there was a run. Here the node only outputs what it exposes.
pub(super) fn execute(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &ExposedConfig,
    mut inputs: Map<String, Value>,
) -> Step {
    match config {
        ExposedConfig::Roots(config) => {
            Step::done(json!({"roots": config.roots, "count": config.roots.len()}))
        }
        ExposedConfig::Elicitation(_) => elicit(turn, node, &inputs),
        // A sampling request of a client is a model call of the host.
        ExposedConfig::Sampling(_) => {
            if let Some(request) = turn.state.genesis.inputs.get("request") {
                inputs.entry("request").or_insert_with(|| request.clone());
            }
            called::call(turn, node, inputs)
        }
        ExposedConfig::ServerTrigger(_)
        | ExposedConfig::Tool(_)
        | ExposedConfig::Resource(_)
        | ExposedConfig::ResourceTemplate(_)
        | ExposedConfig::Prompt(_) => {
            let kind = config.kind().kind();
            let handle = config.name().map_or_else(|| kind.to_owned(), |name| format!("{kind}:{name}"));
            Step::done(json!({"handle": handle, "kind": kind}))
        }
    }
}

/// Asks a person to fill in the form of a client. The form is untrusted: it is shown to the person and has no other effect.
fn elicit(turn: &mut Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>) -> Step {
    let request = inputs.get("request").or_else(|| turn.state.genesis.inputs.get("request"));
    let form = match request {
        Some(request) => Form::read(request),
        None => Err("the run has no input `request`".to_owned()),
    };
    match form {
        Ok(form) => {
            let data = json!({"questions": form.questions, "contextType": CONTEXT});
            let resume_schema = Some(form.answer_schema());
            turn.raise(node, Question { resume_schema, ..Question::new(InterruptKind::Clarification, data) });
            Step::Waits
        }
        Err(message) => Step::failed_retryable(RunError::of(FailureCode::NodeFailed, message)),
    }
}

/// The answer in the form of the elicitation protocol.
pub(super) fn elicited(resolution: &Resolution) -> Step {
    let member = |name: &str| resolution.value.get(name).cloned().unwrap_or_default();
    Step::done(json!({"action": member("action"), "content": member("content")}))
}
