//! The context inside a loop body: it includes the variables of the loops.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::record::LoopFrame;
use crate::workflow::compiled::{CompiledWorkflow, LoopControl};

/// The context with the variables of the loops on the stack. Inner loops shadow outer ones.
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
            // Uses the variables added so far: an inner loop may iterate over a list in the outer loop's
            // item.
            let item = list(&visible, items).and_then(|items| items.get(frame.iteration as usize)).cloned();
            visible.insert(item_var.clone(), item.unwrap_or(Value::Null));
            visible.insert(index_var.clone(), Value::from(frame.iteration));
        }
    }
    Cow::Owned(visible)
}

/// The list at a key or dotted path.
pub(super) fn list<'c>(context: &'c Map<String, Value>, key: &str) -> Option<&'c Vec<Value>> {
    value_at(context, key)?.as_array()
}

/// The value at a key or dotted path. A key that contains dots takes precedence.
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
