//! Work that a step delegates to child sessions.
//!
//! The id of a child session is derived from the delegating session, the node at which the work was handed
//! out, and the index of the delegation. So a child that is started twice is found again, and the engine can count
//! the children of a step without storing a list. Another session cannot pass as a child, because callers do
//! not choose ids.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::derive;
use crate::interpret::value_at;
use crate::record::{NodeId, SessionId};
use crate::render::resolve;
use crate::workflow::compiled::{DelegatedItems, Delegation, Step};
use crate::workflow::condition;

/// Names one child session: `<session>.<node>.<index>`. Callers send it as `parentSessionId`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildHandle {
    pub parent: SessionId,
    /// The node at which the work was handed out: that at which the step became pending, or for a list that
    /// came later the blocked attempt that sent it.
    pub node: NodeId,
    /// The zero-based index of the delegation in its step, or of the item of a parallel `forEach`.
    pub index: usize,
}

impl ChildHandle {
    /// Parses a handle; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (parent, node, index) = (parts.next()?, parts.next()?, parts.next()?);
        let is_index = (1..=3).contains(&index.len()) && index.bytes().all(|byte| byte.is_ascii_digit());
        if parts.next().is_some() || !is_index {
            return None;
        }
        let (parent, node) = (SessionId::parse(parent).ok()?, NodeId::parse(node).ok()?);
        Some(Self { parent, node, index: index.parse().ok()? })
    }

    pub fn session_id(&self) -> SessionId {
        derive::child_session_id(&self.parent, &self.node, self.index)
    }
}

impl fmt::Display for ChildHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.parent, self.node, self.index)
    }
}

/// One delegation that applies: a piece of work for a child session.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveDelegation<'s> {
    /// The zero-based index of the delegation, or of the item.
    pub index: usize,
    pub delegation: &'s Delegation,
    /// The context of the step, with the item if there is one.
    context: Arc<Map<String, Value>>,
}

impl ActiveDelegation<'_> {
    /// The goal of the child: its own, or else that of the delegating session.
    pub fn goal(&self) -> String {
        match &self.delegation.goal {
            Some(goal) => resolve(goal, &self.context),
            None => self.context.get("goal").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }

    /// The context inputs of the child.
    pub fn inputs(&self) -> Map<String, Value> {
        let mut inputs: Map<String, Value> = self.delegation.args.clone().into_iter().collect();
        for (from, to) in &self.delegation.context_mapping {
            if let Some(value) = value_at(&self.context, from) {
                inputs.insert(to.clone(), value.clone());
            }
        }
        inputs
    }
}

/// The delegations of a step that apply in this context alone. A condition that cannot be evaluated does not
/// hold. [`Visit::delegations`](crate::visit::Visit::delegations) has those that apply at a node.
///
/// # Errors
/// The list of a parallel `forEach` that is missing or too long.
pub(crate) fn active_delegations<'s>(
    step: &'s Step,
    context: &Map<String, Value>,
) -> Result<Vec<ActiveDelegation<'s>>, ListFault<'s>> {
    let holds = |when, context: &Map<String, Value>| condition::evaluate(when, context).unwrap_or(false);
    let mut all = Vec::new();
    let shared = Arc::new(context.clone());
    for (index, delegation) in step.delegations.iter().enumerate() {
        let runs = |context: &Map<String, Value>| {
            delegation.run_condition.as_ref().is_none_or(|when| holds(when, context))
        };
        let Some(list) = &delegation.for_each else {
            if runs(context) {
                all.push(ActiveDelegation { index, delegation, context: Arc::clone(&shared) });
            }
            continue;
        };
        let items = value_at(context, &list.key).and_then(Value::as_array);
        let items = items.ok_or(ListFault::Missing { list })?;
        if items.len() > list.max_items as usize {
            return Err(ListFault::TooLong { list, items: items.len() });
        }
        for (index, item) in items.iter().enumerate() {
            let mut context = context.clone();
            context.insert(list.item_var.clone(), item.clone());
            context.insert(list.index_var.clone(), index.into());
            if runs(&context) {
                all.push(ActiveDelegation { index, delegation, context: Arc::new(context) });
            }
        }
    }
    Ok(all)
}

/// Why a parallel `forEach` cannot delegate its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFault<'s> {
    /// The context has no list under the key.
    Missing { list: &'s DelegatedItems },
    /// The list has more items than the author allows.
    TooLong { list: &'s DelegatedItems, items: usize },
}

impl fmt::Display for ListFault<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { list } => {
                write!(
                    formatter,
                    "The step delegates each item of the context key `{}`, which is not a list.",
                    list.key
                )
            }
            Self::TooLong { list, items } => write!(
                formatter,
                "The context key `{}` has {items} items; the limit of the step is {}.",
                list.key, list.max_items
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_parse_as_they_are_displayed() {
        let handle =
            ChildHandle { parent: SessionId::derived(&["a"]), node: NodeId::derived(&["b"]), index: 12 };
        let text = handle.to_string();
        assert_eq!(ChildHandle::parse(&text), Some(handle.clone()));
        let other = ChildHandle { index: 1, ..handle.clone() };
        assert_ne!(handle.session_id(), other.session_id());
        let (session, node) = (handle.parent.as_str(), handle.node.as_str());
        for wrong in [
            "",
            session,
            &format!("{session}.{node}"),
            &format!("{session}.{node}.-1"),
            &format!("{session}.{node}.1000"),
            &format!("{session}.{node}.1.2"),
            &format!("{node}.{session}.1"),
        ] {
            assert_eq!(ChildHandle::parse(wrong), None, "{wrong}");
        }
    }
}
