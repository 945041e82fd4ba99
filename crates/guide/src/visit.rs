//! One visit of a step: from the node at which it became pending, through its blocked attempts, to the
//! attempt that is accepted.
//!
//! Every pass of a loop and every branch is a visit of its own. The context belongs to the run, so it still
//! contains what earlier visits sent. A visit knows which keys were sent for itself, and which work was
//! handed out in it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::delegation::{self, ActiveDelegation, ListFault};
use crate::interpret::{value_at, visible_context};
use crate::record::{EngineState, EventIndex, LoopFrame, NodeId, NodeKind};
use crate::state::{Node, SessionState};
use crate::workflow::compiled::{CompiledWorkflow, DelegatedItems, Step};

/// What is recorded about the current visit of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visit {
    recorded: BTreeSet<String>,
    handed_out: Option<HandOut>,
}

/// The delegated work of a step, as it was first shown to the caller.
#[derive(Clone, Debug, PartialEq)]
struct HandOut {
    node: NodeId,
    /// The context that it was rendered from, with the variables of the loops around the step.
    context: Map<String, Value>,
}

impl Visit {
    /// The visit of the step that is pending at a node, where `context` is current.
    pub fn at(
        state: &SessionState,
        workflow: &CompiledWorkflow,
        node: &Node,
        engine: &EngineState,
        context: &Map<String, Value>,
    ) -> Self {
        let stack = engine.progress().map(|(_, stack)| stack.as_slice()).unwrap_or_default();
        let step = engine.pending().and_then(|pending| workflow.step(&pending.step_id));
        Self {
            recorded: recorded(state, node, stack, context),
            handed_out: step
                .filter(|step| !step.delegations.is_empty())
                .and_then(|step| handed_out(state, workflow, node, step, stack)),
        }
    }

    /// Whether a context key has a value that counts for this visit: a blocked attempt of the visit sent it, or
    /// the run was started with it and this is the first pass.
    pub fn has(&self, key: &str) -> bool {
        self.recorded.contains(key)
    }

    /// The node that names the child sessions of the step, if its work was handed out.
    pub fn delegating_node(&self) -> Option<&NodeId> {
        self.handed_out.as_ref().map(|handed_out| &handed_out.node)
    }

    /// The delegations of the step that apply: those that were handed out, and those whose condition holds in
    /// `context` only. A list that was handed out stays as it was.
    ///
    /// # Errors
    /// The list of a parallel `forEach` that is missing or too long.
    pub fn delegations<'s>(
        &self,
        step: &'s Step,
        context: &Map<String, Value>,
    ) -> Result<Vec<ActiveDelegation<'s>>, ListFault<'s>> {
        let Some(HandOut { context: then, .. }) = &self.handed_out else {
            return delegation::active_delegations(step, context);
        };
        let mut all = delegation::active_delegations(step, then)?;
        let mut now = context.clone();
        for list in lists(step) {
            if let Some(items) = value_at(then, &list.key) {
                // A key takes precedence over a path.
                now.insert(list.key.clone(), items.clone());
            }
        }
        let more = delegation::active_delegations(step, &now)?;
        all.extend(
            more.into_iter()
                .filter(|one| !all.iter().any(|known| known.index == one.index))
                .collect::<Vec<_>>(),
        );
        all.sort_by_key(|one| one.index);
        Ok(all)
    }

    /// The key of a handed out list that a call would replace: `before` is the context before the call, `after`
    /// the one after it.
    pub(crate) fn replaced_list<'s>(
        &self,
        step: &'s Step,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) -> Option<&'s str> {
        let then = &self.handed_out.as_ref()?.context;
        let replaced = lists(step).find(|list| {
            let items = value_at(after, &list.key);
            items != value_at(before, &list.key) && items != value_at(then, &list.key)
        });
        replaced.map(|list| list.key.as_str())
    }
}

fn lists(step: &Step) -> impl Iterator<Item = &DelegatedItems> {
    step.delegations.iter().filter_map(|delegation| delegation.for_each.as_ref())
}

/// The nodes of the visit, the newest first. The last is the one at which the step became pending.
fn nodes<'s>(state: &'s SessionState, node: &'s Node) -> impl Iterator<Item = &'s Node> {
    let mut is_over = false;
    state.lineage(node).take_while(move |node| !std::mem::replace(&mut is_over, node.kind == NodeKind::Step))
}

fn recorded(
    state: &SessionState,
    node: &Node,
    stack: &[LoopFrame],
    context: &Map<String, Value>,
) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    // What the user chose at the start holds for the first pass. A later pass is about something else.
    if stack.iter().all(|frame| frame.iteration == 0)
        && let Some(first) = state.first_context(&node.run_id)
    {
        keys.extend(unchanged(first, context));
    }
    for blocked in nodes(state, node).filter(|node| node.kind == NodeKind::BlockedAttempt) {
        let Some((before, after)) = state.context_version(blocked) else { continue };
        // The event is recorded between the outcome of an attempt and its node.
        if attempt_index(state, blocked).is_none_or(|attempt| after.index < attempt) {
            continue;
        }
        let is_sent = |key: &String| {
            let earlier = before.and_then(|before| before.values.get(key));
            earlier != after.values.get(key) || after.resent_keys.contains(key)
        };
        // Another branch may have replaced the value since.
        keys.extend(unchanged(&after.values, context).filter(is_sent));
    }
    keys
}

/// The keys that have the same value in both contexts.
fn unchanged<'c>(
    then: &'c Map<String, Value>,
    now: &'c Map<String, Value>,
) -> impl Iterator<Item = String> + 'c {
    then.iter().filter(|(key, value)| now.get(*key) == Some(value)).map(|(key, _)| key.clone())
}

/// The index of the attempt that created a node.
fn attempt_index(state: &SessionState, node: &Node) -> Option<EventIndex> {
    use crate::record::AdvanceOutcome::Advanced;
    let mut advances = state.parent_of(node)?.advances();
    let made = advances
        .find(|(_, advance)| matches!(&advance.outcome, Advanced { to_node_id } if *to_node_id == node.id));
    made.map(|(_, advance)| advance.index)
}

/// The first node of the visit whose context has every list that the step delegates. The caller gets the
/// work with the reply for that node.
fn handed_out(
    state: &SessionState,
    workflow: &CompiledWorkflow,
    node: &Node,
    step: &Step,
    stack: &[LoopFrame],
) -> Option<HandOut> {
    let of_visit: Vec<&Node> = nodes(state, node).collect();
    of_visit.into_iter().rev().find_map(|node| {
        let context = visible_context(workflow, &state.context_of(node), stack).into_owned();
        let has_lists = delegation::active_delegations(step, &context).is_ok();
        has_lists.then(|| HandOut { node: node.id.clone(), context })
    })
}
