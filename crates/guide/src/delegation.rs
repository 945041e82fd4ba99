//! Work that a step delegates to child sessions.
//!
//! The id of a child session is derived from the delegating session, the node at which the step is pending,
//! and the index of the delegation. So a child that is started twice is found again, and the engine can count
//! the children of a step without storing a list. Another session cannot pass as a child, because callers do
//! not choose ids.

use std::fmt;

use serde_json::{Map, Value};

use crate::derive;
use crate::interpret::value_at;
use crate::record::{NodeId, NodeKind, SessionId};
use crate::render::resolve;
use crate::state::{Node, SessionState};
use crate::workflow::compiled::{Delegation, Step};
use crate::workflow::condition;

/// Names one child session: `<session>.<node>.<index>`. Callers send it as `parentSessionId`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildHandle {
    pub parent: SessionId,
    /// The node at which the delegating step is pending.
    pub node: NodeId,
    /// The zero-based index of the delegation in its step.
    pub index: usize,
}

impl ChildHandle {
    /// Parses a handle; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (parent, node, index) = (parts.next()?, parts.next()?, parts.next()?);
        let is_index = (1..=2).contains(&index.len()) && index.bytes().all(|byte| byte.is_ascii_digit());
        if parts.next().is_some() || !is_index {
            return None;
        }
        let (parent, node) = (SessionId::parse(parent).ok()?, NodeId::parse(node).ok()?);
        Some(Self { parent, node, index: index.parse().ok()? })
    }

    /// The session id of the child.
    pub fn session_id(&self) -> SessionId {
        derive::child_session_id(&self.parent, &self.node, self.index)
    }
}

impl fmt::Display for ChildHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.parent, self.node, self.index)
    }
}

/// The delegations of a step that apply in this context, with their indexes. A condition that cannot be
/// evaluated does not hold.
pub fn active_delegations<'s>(step: &'s Step, context: &Map<String, Value>) -> Vec<(usize, &'s Delegation)> {
    let holds = |when| condition::evaluate(when, context).unwrap_or(false);
    let delegations = step.delegations.iter().enumerate();
    delegations.filter(|(_, delegation)| delegation.run_condition.as_ref().is_none_or(holds)).collect()
}

/// The goal of a child: its own, or else that of the delegating session.
pub fn goal(delegation: &Delegation, context: &Map<String, Value>) -> String {
    match &delegation.goal {
        Some(goal) => resolve(goal, context),
        None => context.get("goal").and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
}

/// The context inputs of a child.
pub fn inputs(delegation: &Delegation, context: &Map<String, Value>) -> Map<String, Value> {
    let mut inputs: Map<String, Value> = delegation.args.clone().into_iter().collect();
    for (from, to) in &delegation.context_mapping {
        if let Some(value) = value_at(context, from) {
            inputs.insert(to.clone(), value.clone());
        }
    }
    inputs
}

/// The node whose children count for `node`: the one at which its step became pending. Blocked attempts and
/// checkpoints of it do not delegate again.
pub fn delegating_node<'s>(state: &'s SessionState, node: &'s Node) -> &'s Node {
    state.lineage(node).find(|node| node.kind == NodeKind::Step).unwrap_or(node)
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
            &format!("{session}.{node}.100"),
            &format!("{session}.{node}.1.2"),
            &format!("{node}.{session}.1"),
        ] {
            assert_eq!(ChildHandle::parse(wrong), None, "{wrong}");
        }
    }
}
