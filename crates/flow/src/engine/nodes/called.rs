//! Nodes whose work the host does.

use serde_json::{Map, Value, json};

use super::super::children::no_source;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{Activity, ActivityRequest, Call, Cause, Effect, Told, ids};
use crate::definition::NodeIndex;
use crate::event::{EventKind, event_id};
use crate::state::RunError;

/// Asks the host to do the work of a node.
pub(super) fn call(turn: &mut Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    if turn.has_no_source() {
        return Step::failed(no_source());
    }
    let subject = turn.node(node);
    let (ordinal, attempt) = (turn.state.nodes[node].iteration, turn.state.nodes[node].attempt);
    let logical_invocation_id =
        ids::logical_invocation_id(&turn.state.genesis, &subject.id, ordinal, subject.type_id());
    let call = Call {
        type_id: subject.type_id().to_owned(),
        config: subject.config.clone(),
        inputs,
        variables: turn.state.variables.clone(),
        configurable: turn.state.genesis.configurable.clone(),
        metadata: turn.state.genesis.metadata.clone(),
        agent: subject.agent.clone(),
        prompt_refs: turn.definition.document.pointer("/defaults/promptRefs").cloned(),
        attempt,
        is_test: turn.state.genesis.test,
    };
    turn.ask_host(Effect::Activity(Activity {
        node_id: subject.id.clone(),
        ordinal,
        logical_invocation_id,
        request: ActivityRequest::Call(Box::new(call)),
    }));
    Step::Waits
}

/// Records what happened while the host worked, and then what came of it.
pub(super) fn done(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    told: Vec<Told>,
    outcome: Result<Value, RunError>,
) -> Step {
    let mut sequences = Vec::with_capacity(told.len());
    for Told { kind, payload, cause } in told {
        let sequence = match (kind, payload.get("name").and_then(Value::as_str)) {
            // What was there before is the run's to say.
            (EventKind::VariableChanged, Some(name)) => {
                let next = payload.get("next").cloned().unwrap_or_default();
                turn.set_variable(node, name, &next, None);
                turn.state.next_sequence - 1
            }
            (kind, _) => {
                let run_id = &turn.state.genesis.run_id;
                let cause = match cause {
                    None => None,
                    Some(Cause::Told(place)) => {
                        sequences.get(place).map(|sequence| event_id(run_id, *sequence))
                    }
                    Some(Cause::Id(id)) => Some(id),
                };
                turn.tell_because(kind, node, Value::Object(payload), cause)
            }
        };
        sequences.push(sequence);
    }
    match outcome {
        Ok(Value::Object(outputs)) => Step::Done(outputs),
        Ok(value) => Step::done(json!({"output": value})),
        Err(error) => Step::failed_once(error),
    }
}
