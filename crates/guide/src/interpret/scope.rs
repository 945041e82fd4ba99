//! The context as a loop body sees it: with the names of its iterations.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::record::LoopFrame;
use crate::workflow::compiled::{CompiledWorkflow, LoopControl};

/// The context, and the variables of the loops on the stack; inner ones hide outer ones.
pub fn visible_context<'c>(
    workflow: &CompiledWorkflow,
    context: &'c Map<String, Value>,
    stack: &[LoopFrame],
) -> Cow<'c, Map<String, Value>> {
    if stack.is_empty() {
        return Cow::Borrowed(context);
    }
    let mut visible = context.clone();
    for frame in stack {
        let Some(definition) = workflow.loop_of(&frame.loop_id) else { continue };
        visible.insert(definition.iteration_var.clone(), Value::from(u64::from(frame.iteration) + 1));
        if let LoopControl::ForEach { items, item_var, index_var, .. } = &definition.control {
            // In what is visible so far: an inner loop may go over a list of the outer one's item.
            let item = list(&visible, items).and_then(|items| items.get(frame.iteration as usize)).cloned();
            visible.insert(item_var.clone(), item.unwrap_or(Value::Null));
            visible.insert(index_var.clone(), Value::from(frame.iteration));
        }
    }
    Cow::Owned(visible)
}

/// The list under a key, which may be a dotted path.
pub(super) fn list<'c>(context: &'c Map<String, Value>, key: &str) -> Option<&'c Vec<Value>> {
    value_at(context, key)?.as_array()
}

/// The value under a key, or under a dotted path.
pub fn value_at<'c>(context: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = context.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let mut value = context.get(parts.next()?)?;
    for part in parts {
        value = match value {
            Value::Object(members) => members.get(part)?,
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}
