//! The inputs of nodes.

use serde_json::{Map, Value};

use super::bounds;
use crate::definition::expression::Scope;
use crate::definition::{Definition, NodeIndex, PortValue};
use crate::failure::FailureCode;
use crate::meter::{Meter, OverBudget};
use crate::state::{NodeStatus, RunError, RunState};

/// The inputs of a node, by port: those that its definition names, and those that edges pass.
pub(super) fn inputs(
    definition: &Definition,
    state: &RunState,
    node: NodeIndex,
    meter: &mut Meter,
) -> Result<Map<String, Value>, RunError> {
    let mut inputs = Map::new();
    for edge in &definition.graph.incoming[node] {
        let edge = &definition.edges[*edge];
        let source = &state.nodes[edge.source];
        if source.status == NodeStatus::Completed
            && let Some(port) = &edge.target_input
            && let Some(value) = source.outputs.get(&edge.source_output)
        {
            inputs.insert(port.clone(), value.clone());
        }
    }
    for (port, value) in &definition.nodes[node].inputs {
        if let Some(value) = port_value(definition, state, port, value, meter)? {
            inputs.insert(port.clone(), value);
        }
    }
    bounds::check("the inputs of the node", &inputs)?;
    Ok(inputs)
}

/// The error of a node whose expression exceeds the step budget. The run then fails with more details.
pub(super) fn over_budget(over: &OverBudget) -> RunError {
    RunError::of(FailureCode::DecisionBudgetExceeded, over.to_string())
}

fn port_value(
    definition: &Definition,
    state: &RunState,
    port: &str,
    value: &PortValue,
    meter: &mut Meter,
) -> Result<Option<Value>, RunError> {
    let missing = |what: String| RunError::of(FailureCode::InputMissing, format!("input `{port}`: {what}"));
    match value {
        PortValue::Static(value) => Ok(Some(value.clone())),
        PortValue::Expression(expression) => {
            let scope = Scope { source: None, variables: &state.variables, inputs: &state.genesis.inputs };
            let value = expression.evaluate(&scope, meter);
            value.map(Some).map_err(|over| over_budget(&over))
        }
        PortValue::Connection { node, output_key, optional } => {
            match state.nodes[*node].outputs.get(output_key) {
                None if !optional => {
                    let source = &definition.nodes[*node].id;
                    Err(missing(format!("node `{source}` has no output `{output_key}`")))
                }
                value => Ok(value.cloned()),
            }
        }
        PortValue::Variable { name, optional } => match state.variables.get(name) {
            None if !optional => Err(missing(format!("variable `{name}` has no value"))),
            value => Ok(value.cloned()),
        },
    }
}
