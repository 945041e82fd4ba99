//! The way that a run took to a node: which step became pending there, and what was skipped before it.
//!
//! Both come from the recorded decisions, so a replay says the same however the context changed since.

use std::fmt;

use serde_json::{Map, Value};

use crate::interpret::value_at;
use crate::record::{AdvanceOutcome, DelimiterSafe, EventIndex, NodeKind, StepName, TraceRef};
use crate::state::{Node, Selected, SessionState, Trace};
use crate::workflow::compiled::{CompiledWorkflow, Condition, Count, Loop, LoopControl};
use crate::workflow::condition;

/// A step or a loop that did not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// The step or the loop.
    pub item: SkippedItem,
    /// What to call it.
    pub title: String,
    /// The context keys that decided it, in the author's order.
    pub keys: Vec<DecidingKey>,
}

/// What did not run, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkippedItem {
    Step(String),
    Loop(String),
}

/// A context key that decided whether something runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidingKey {
    pub key: String,
    /// What its value may be, in words; nothing for a key that the workflow does not declare.
    pub allowed: Option<String>,
    /// The value that was recorded then.
    pub value: Option<Value>,
}

/// Where in its workflow a step is: the one numbering that replies, recaps, lists and pages use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPlace {
    /// Which step of the workflow, from 1.
    pub step: u32,
    /// How many steps the workflow has.
    pub steps: u32,
    /// The pass of the innermost loop around it.
    pub pass: Option<LoopPass>,
}

/// How often the innermost loop has gone round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopPass {
    /// Which pass, from 1.
    pub number: u32,
    /// How many there will be; nothing where that is decided as the loop goes.
    pub total: Option<u64>,
    /// How many there may be.
    pub most: u32,
}

impl StepPlace {
    /// The place of a step, within the innermost loop and its iteration from 0. Loops over the context count
    /// with `context`.
    pub fn of(
        workflow: &CompiledWorkflow,
        step_id: &StepName,
        innermost: Option<(&DelimiterSafe, u32)>,
        context: &Map<String, Value>,
    ) -> Option<Self> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let step = number(workflow.step_place(step_id)? + 1);
        let pass = innermost.and_then(|(loop_id, iteration)| {
            let definition = workflow.loop_of(loop_id)?;
            let total = match &definition.control {
                LoopControl::Count { count: Count::Number(count) } => Some(u64::from(*count)),
                LoopControl::Count { count: Count::Key(key) } => {
                    value_at(context, key).and_then(Value::as_u64)
                }
                LoopControl::ForEach { items, .. } => {
                    value_at(context, items).and_then(Value::as_array).map(|items| items.len() as u64)
                }
                LoopControl::Decision { .. } | LoopControl::Condition { .. } => None,
            };
            Some(LoopPass { number: iteration.saturating_add(1), total, most: definition.max_iterations })
        });
        Some(Self { step, steps: number(workflow.steps.len()), pass })
    }
}

impl fmt::Display for StepPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of {}", self.step, self.steps)?;
        match self.pass {
            None => Ok(()),
            Some(LoopPass { number, total: Some(total), .. }) => write!(f, ", pass {number} of {total}"),
            Some(LoopPass { number, total: None, most }) => write!(f, ", pass {number} of at most {most}"),
        }
    }
}

/// The step that became pending when a run arrived at a node. A checkpoint and a blocked attempt have that of
/// the node before them.
pub fn selected_at<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s Selected> {
    let mut at = node;
    while at.kind != NodeKind::Step {
        at = state.parent_of(at)?;
    }
    arrival(state, at).filter_map(|trace| trace.selected.as_ref()).last()
}

/// What was skipped on the way to a node.
pub fn skipped_before(state: &SessionState, workflow: &CompiledWorkflow, node: &Node) -> Vec<Skipped> {
    arrival(state, node)
        .flat_map(|trace| trace.skipped.iter().map(move |about| (trace, about)))
        .filter_map(|(trace, about)| {
            let (item, title, keys) = described(workflow, about)?;
            let value = |key: &str| trace.context.as_ref().and_then(|context| context.get(key)).cloned();
            let declared = workflow.declared_keys();
            let keys = keys
                .into_iter()
                .map(|key| DecidingKey {
                    allowed: declared.get(key).map(crate::workflow::context_keys::ContextType::words),
                    value: value(key),
                    key: key.to_owned(),
                })
                .collect();
            Some(Skipped { item, title, keys })
        })
        .collect()
}

/// The decision traces of the call that made a node: they stand on the node before it, among those of other
/// attempts; those of a start stand on the root.
fn arrival<'s>(state: &'s SessionState, node: &'s Node) -> impl Iterator<Item = &'s Trace> {
    let (on, from, to) = match state.parent_of(node) {
        None => (Some(node), EventIndex::FIRST, first_advance(node)),
        Some(parent) => {
            let made = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if *to_node_id == node.id);
            let advance = parent.advances().find(|(_, advance)| made(&advance.outcome));
            let from = advance.map(|(_, advance)| advance.index);
            (from.map(|_| parent), from.unwrap_or(EventIndex::FIRST), node.created_index)
        }
    };
    on.into_iter().flat_map(|on| &on.traces).filter(move |trace| from <= trace.index && trace.index < to)
}

/// The first attempt at a node: what stands on it before that belongs to its making.
fn first_advance(node: &Node) -> EventIndex {
    node.advances().map(|(_, advance)| advance.index).min().unwrap_or(EventIndex(u64::MAX))
}

fn described<'w>(
    workflow: &'w CompiledWorkflow,
    about: &TraceRef,
) -> Option<(SkippedItem, String, Vec<&'w str>)> {
    match about {
        TraceRef::StepId { step_id } => {
            let step = workflow.step(step_id)?;
            let keys = step.run_condition.as_ref().map(condition::keys).unwrap_or_default();
            Some((SkippedItem::Step(step_id.to_string()), step.title.clone(), keys))
        }
        TraceRef::LoopId { loop_id } => {
            let definition = workflow.loop_of(loop_id)?;
            let item = SkippedItem::Loop(loop_id.to_string());
            Some((item, definition.title.clone(), loop_keys(workflow, definition)))
        }
        TraceRef::ConditionId { .. } | TraceRef::Iteration { .. } => None,
    }
}

/// The keys that decide whether a loop begins.
fn loop_keys<'w>(workflow: &'w CompiledWorkflow, definition: &'w Loop) -> Vec<&'w str> {
    let of = |condition: Option<&'w Condition>| condition.map(condition::keys).unwrap_or_default();
    let mut keys = of(definition.run_condition.as_ref());
    keys.extend(match &definition.control {
        LoopControl::Condition { condition_id, .. } => of(workflow.condition(condition_id)),
        LoopControl::ForEach { items, .. } => vec![items.as_str()],
        LoopControl::Count { count: Count::Key(key) } => vec![key.as_str()],
        LoopControl::Count { count: Count::Number(_) } | LoopControl::Decision { .. } => Vec::new(),
    });
    keys
}
