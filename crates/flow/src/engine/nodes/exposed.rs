//! Nodes that say what their workflow is to clients of MCP.

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

/// Whoever serves the workflow has read the node before there was a run; here it only says what it is.
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
        // What a client wants of a model is the host's work, as any other call of one.
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

/// Asks a person what a client sent a form for. The form came from outside: what it asks is shown, and decides nothing.
fn elicit(turn: &mut Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>) -> Step {
    let request = inputs.get("request").or_else(|| turn.state.genesis.inputs.get("request"));
    let form = match request {
        Some(request) => Form::read(request),
        None => Err("there is no `request`; it is an input of the run".to_owned()),
    };
    match form {
        Ok(form) => {
            let data = json!({"questions": form.questions, "contextType": CONTEXT});
            let resume_schema = Some(form.answer_schema());
            turn.raise(node, Question { resume_schema, ..Question::new(InterruptKind::Clarification, data) });
            Step::Waits
        }
        Err(message) => Step::failed_once(RunError::of(FailureCode::NodeFailed, message)),
    }
}

/// What the person did, as the protocol of elicitations has it.
pub(super) fn elicited(resolution: &Resolution) -> Step {
    let member = |name: &str| resolution.value.get(name).cloned().unwrap_or_default();
    Step::done(json!({"action": member("action"), "content": member("content")}))
}
