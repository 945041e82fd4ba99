//! What a child is given, and what is taken from it.

use serde_json::{Map, Value};

use crate::definition::Node;

/// The inputs of a child, and the names that the parent has no value for.
pub(crate) fn inputs(
    node: &Node,
    workflow_id: &str,
    variables: &Map<String, Value>,
) -> (Map<String, Value>, Vec<String>) {
    let (mut inputs, mut unset) = (Map::new(), Vec::new());
    for (child, parent) in pairs(node, workflow_id, "inputMapping", "perWorkerInputMappings") {
        match variables.get(parent) {
            Some(value) => {
                inputs.insert(child.to_owned(), value.clone());
            }
            None => unset.push(child.to_owned()),
        }
    }
    (inputs, unset)
}

/// The variables of the parent that a completed child gives, with the child's own names for them.
pub(crate) fn outputs<'a>(node: &'a Node, workflow_id: &str) -> Vec<(&'a str, &'a str)> {
    pairs(node, workflow_id, "outputMapping", "perWorkerOutputMappings")
}

/// The mapping of one worker, which takes the place of the common one.
fn pairs<'a>(node: &'a Node, workflow_id: &str, common: &str, own: &str) -> Vec<(&'a str, &'a str)> {
    let own = node.config.get(own).and_then(|all| all.get(workflow_id));
    let mapping = own.or_else(|| node.config.get(common)).and_then(Value::as_object);
    let pairs = mapping.into_iter().flatten();
    pairs.filter_map(|(name, from)| Some((name.as_str(), from.as_str()?))).collect()
}
