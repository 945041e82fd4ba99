//! The mapping of variables between a run and its children.

use serde_json::{Map, Value};

use crate::definition::Node;

/// The inputs of a child, and the names of inputs for which the parent has no value.
pub(crate) fn inputs(
    node: &Node,
    workflow_id: &str,
    variables: &Map<String, Value>,
) -> (Map<String, Value>, Vec<String>) {
    let (mut inputs, mut unset) = (Map::new(), Vec::new());
    let mapping = node.config.child_starter().map(|starter| starter.input_mapping(workflow_id));
    for (child, parent) in mapping.into_iter().flatten() {
        match variables.get(parent) {
            Some(value) => {
                inputs.insert(child.clone(), value.clone());
            }
            None => unset.push(child.clone()),
        }
    }
    (inputs, unset)
}

/// The variables of the parent that a completed child sets, each with the child's variable.
pub(crate) fn outputs<'a>(node: &'a Node, workflow_id: &str) -> Vec<(&'a str, &'a str)> {
    let mapping = node.config.child_starter().map(|starter| starter.output_mapping(workflow_id));
    mapping.into_iter().flatten().map(|(name, from)| (name.as_str(), from.as_str())).collect()
}
