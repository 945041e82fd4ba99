//! Nodes that work on values: variables, channels, conditions.

use serde_json::{Map, Value, json};

use super::super::drain::Step;
use super::super::ports::over_budget;
use super::super::turn::Turn;
use crate::channel::{self, ChannelState};
use crate::definition::NodeIndex;
use crate::definition::channel::Reducer;
use crate::definition::config::{
    ChannelWriteConfig, ConditionalConfig, GetVariableConfig, IdentityConfig, LoopConfig, SetVariableConfig,
};
use crate::definition::expression::{Expression, Scope, is_true};
use crate::event::data::value::ChannelWritten;
use crate::failure::FailureCode;
use crate::state::{NodeStatus, RunError};

/// Returns its inputs as outputs and as variables.
pub(super) fn identity(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &IdentityConfig,
    inputs: Map<String, Value>,
) -> Step {
    if config.emit_duplicate_message_id == Some(Value::Bool(true)) {
        for (id, text) in [("message-1", "first"), ("message-2", "second"), ("message-1", "first again")] {
            let message = json!({"messageId": id, "content": text});
            if let Err(error) = write(turn, node, "messages", &message, &Reducer::Message) {
                return Step::failed(error);
            }
        }
    }
    for (name, value) in &inputs {
        if turn.definition.channels.contains_key(name) {
            return Step::failed(is_channel(name));
        }
        if turn.state.variables.get(name) != Some(value) {
            turn.set_variable(Some(node), name, value, None);
        }
    }
    Step::Done(inputs)
}

/// Evaluates a condition: the configured expression, or else the input `condition`, `value` or `input`.
pub(super) fn conditional(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &ConditionalConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let result = match &config.expression {
        Some(text) => match Expression::parse(text) {
            Ok(expression) => {
                // A name refers to an input of the node, or else to a variable.
                let scope = Scope {
                    source: Some((NodeStatus::Running.as_str(), inputs)),
                    variables: &turn.state.variables,
                    inputs: &turn.state.genesis.inputs,
                };
                match expression.holds(&scope, &mut turn.meter) {
                    Ok(result) => result,
                    Err(over) => {
                        turn.note_steps(node);
                        return Step::failed(over_budget(&over));
                    }
                }
            }
            Err(error) => return Step::failed(RunError::of(FailureCode::ValidationError, error.to_string())),
        },
        None => {
            ["condition", "value", "input"].iter().find_map(|name| inputs.get(*name)).is_some_and(is_true)
        }
    };
    Step::done(json!({"result": result, "branch": if result { "true" } else { "false" }, "output": result}))
}

/// Counts iterations: the index, the item of this iteration, and whether it was the last.
pub(super) fn count(
    turn: &Turn<'_>,
    node: NodeIndex,
    config: &LoopConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let index = u64::from(turn.state.nodes[node].iteration);
    let items = inputs.get("items").or(config.items.as_ref()).and_then(Value::as_array);
    let length = items.map(|items| u64::try_from(items.len()).unwrap_or(u64::MAX));
    let count = config.count.as_ref().and_then(Value::as_u64);
    let most = [length, config.max_iterations, count].into_iter().flatten().min();
    let done = most.is_some_and(|most| index >= most);
    let mut outputs = json!({"index": index, "done": done});
    let item = items.and_then(|items| items.get(usize::try_from(index).ok()?));
    if let (Some(item), false) = (item, done) {
        outputs["item"] = item.clone();
        outputs["output"] = item.clone();
    }
    Step::done(outputs)
}

/// Joins branches: its inputs, and the outputs of each branch by node id.
pub(super) fn merge(turn: &Turn<'_>, node: NodeIndex, inputs: Map<String, Value>) -> Step {
    let incoming = turn.definition.graph.incoming[node].iter();
    let sources = incoming.map(|edge| turn.definition.edges[*edge].source);
    let completed = sources.filter(|source| turn.state.nodes[*source].status == NodeStatus::Completed);
    let branches: Map<String, Value> = completed
        .map(|source| {
            (turn.node(source).id.to_string(), Value::Object(turn.state.nodes[source].outputs.clone()))
        })
        .collect();
    let mut outputs = inputs;
    outputs.insert("branches".into(), Value::Object(branches));
    Step::Done(outputs)
}

pub(super) fn set_variable(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &SetVariableConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let name = config.variable();
    if turn.definition.channels.contains_key(name) {
        return Step::failed(is_channel(name));
    }
    let given = inputs.get("value").or(config.value.as_ref());
    let Some(value) = given.or_else(|| inputs.get("input")).cloned() else {
        let message =
            format!("variable `{name}`: the input `value` or the configuration member `value` is required");
        return Step::failed(RunError::of(FailureCode::InputMissing, message));
    };
    turn.set_variable(Some(node), name, &value, None);
    Step::done(json!({"name": name, "value": value, "output": value}))
}

/// Reads a variable or a channel. If it has no value, neither does the output.
pub(super) fn get_variable(turn: &Turn<'_>, node: NodeIndex, config: &GetVariableConfig) -> Step {
    let name = config.variable();
    let value = match turn.definition.channels.get(name) {
        Some(channel) => {
            if let Err(error) = channel::check_read(name, channel, turn.node(node)) {
                return Step::failed(error);
            }
            turn.state.channels.get(name).map(|state| {
                let mut state = state.clone();
                state.expire(channel.ttl_ms, turn.now);
                state.value
            })
        }
        None => turn.state.variables.get(name).cloned(),
    };
    let mut outputs = json!({"name": name});
    if let Some(value) = value {
        outputs["value"] = value.clone();
        outputs["output"] = value;
    }
    Step::done(outputs)
}

pub(super) fn channel_write(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &ChannelWriteConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let name = config.channel_name.as_str();
    let reducer = config.reducer.as_ref().unwrap_or(&Reducer::Append);
    let value = inputs.get("value").or(config.value.as_ref()).cloned().unwrap_or_default();
    if let Err(error) = write(turn, node, name, &value, reducer) {
        return Step::failed(error);
    }
    let size = turn.state.channels.get(name).map_or(0, ChannelState::size);
    Step::done(json!({"channelName": name, "size": size}))
}

/// Writes to a channel if the workflow declares it.
pub(super) fn write_if_declared(turn: &mut Turn<'_>, node: NodeIndex, name: &str, value: &Value) {
    if let Some(reducer) = turn.definition.channels.get(name).map(|channel| channel.reducer.clone()) {
        // If the author restricted the writers of the channel, the write fails and the conversation continues without it.
        let _ = write(turn, node, name, value, &reducer);
    }
}

/// Writes to a channel. For a declared channel, the declared reducer applies.
fn write(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    name: &str,
    value: &Value,
    reducer: &Reducer,
) -> Result<(), RunError> {
    if let Some(channel) = turn.definition.channels.get(name) {
        if channel.schema.is_some() {
            turn.charge_validation(node, name, value);
        }
        let current = turn.state.channels.get(name);
        channel::check_write(name, channel, turn.node(node), value, current, turn.now)?;
    }
    record(turn, node, name, value, reducer);
    Ok(())
}

/// Records a validated write and returns its sequence number.
pub(super) fn record(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    name: &str,
    value: &Value,
    reducer: &Reducer,
) -> u64 {
    let declared = turn.definition.channels.get(name);
    let written = ChannelWritten {
        channel: name.to_owned(),
        node_id: turn.node_id(node),
        reducer: declared.map_or(reducer, |channel| &channel.reducer).clone(),
        schema_version: declared.map(|channel| channel.schema_version),
        value: value.clone(),
        written_at: turn.now,
    };
    turn.emit(written, Some(node), None)
}

fn is_channel(name: &str) -> RunError {
    let message = format!("`{name}` is a channel; use `core.channelWrite` to write to it");
    RunError::of(FailureCode::ValidationError, message)
}
