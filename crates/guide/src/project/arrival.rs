//! How a run arrived at a node: which step became pending there, and which steps were skipped before it.
//!
//! Both come from the recorded decisions, so the result does not depend on later changes of the context.

use std::fmt;

use serde_json::{Map, Value};

use crate::interpret::{value_at, visible_context};
use crate::record::{AdvanceOutcome, DelimiterSafe, EventIndex, LoopFrame, NodeKind, StepName, TraceRef};
use crate::render::{one_line, resolve};
use crate::state::{Node, Selected, SessionState, SkippedRef, Trace};
use crate::workflow::compiled::{CompiledWorkflow, Condition, Count, Loop, LoopControl};
use crate::workflow::condition;

/// A step or a loop that did not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    pub item: SkippedItem,
    pub title: String,
    /// The context keys that decided it, in the author's order.
    pub keys: Vec<DecidingKey>,
}

/// The id of a step or a loop that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkippedItem {
    Step(String),
    Loop(String),
}

impl SkippedItem {
    pub fn id(&self) -> &str {
        match self {
            Self::Step(id) | Self::Loop(id) => id,
        }
    }
}

/// A context key that decided whether a step or a loop runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidingKey {
    pub key: String,
    /// A description of the allowed values; `None` if the workflow does not declare the key.
    pub allowed: Option<String>,
    /// The value that was recorded at that time.
    pub value: Option<Value>,
}

/// The position of a step in its workflow. Replies, recaps, lists and pages all use this numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPlace {
    /// The one-based number of the step.
    pub step: u32,
    /// The number of steps in the workflow.
    pub steps: u32,
    /// The iteration of the innermost loop around it.
    pub pass: Option<LoopPass>,
}

/// The iteration of the innermost loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopPass {
    /// The one-based number of the iteration.
    pub number: u32,
    /// The total number of iterations; `None` if it is decided during the loop.
    pub total: Option<u64>,
    /// The limit of iterations.
    pub most: u32,
}

impl StepPlace {
    /// The position of a step in the innermost loop and its zero-based iteration. The number of iterations
    /// may depend on `context`.
    pub fn of(
        workflow: &CompiledWorkflow,
        step_id: &StepName,
        innermost: Option<(&DelimiterSafe, u32)>,
        context: &Map<String, Value>,
    ) -> Option<Self> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let step = number(workflow.step_index(step_id)? + 1);
        let pass = innermost.and_then(|(loop_id, iteration)| {
            Some(LoopPass::of(workflow.loop_of(loop_id)?, iteration, context))
        });
        Some(Self { step, steps: number(workflow.steps.len()), pass })
    }
}

impl LoopPass {
    /// The zero-based iteration of a loop. The number of iterations may depend on `context`.
    pub(crate) fn of(definition: &Loop, iteration: u32, context: &Map<String, Value>) -> Self {
        let total = match &definition.control {
            LoopControl::Count { count: Count::Number(count) } => Some(u64::from(*count)),
            LoopControl::Count { count: Count::Key(key) } => value_at(context, key).and_then(Value::as_u64),
            LoopControl::ForEach { items, .. } => {
                value_at(context, items).and_then(Value::as_array).map(|items| items.len() as u64)
            }
            LoopControl::Decision { .. } | LoopControl::Condition { .. } => None,
        };
        Self { number: iteration.saturating_add(1), total, most: definition.max_iterations }
    }
}

impl fmt::Display for LoopPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { number, total: Some(total), .. } => write!(f, "pass {number} of {total}"),
            Self { number, total: None, most } => write!(f, "pass {number} of at most {most}"),
        }
    }
}

impl fmt::Display for StepPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of {}", self.step, self.steps)?;
        self.pass.map_or(Ok(()), |pass| write!(f, ", {pass}"))
    }
}

/// The step that became pending when a run arrived at a node. For a checkpoint or a blocked attempt, that of
/// its ancestor.
pub fn selected_at<'s>(state: &'s SessionState, node: &'s Node) -> Option<&'s Selected> {
    let mut at = node;
    while at.kind != NodeKind::Step {
        at = state.parent_of(at)?;
    }
    arrival(state, at).filter_map(|trace| trace.selected.as_ref()).last()
}

/// The steps and loops that were skipped on the way to a node. Their titles have the values of that time.
pub fn skipped_before(state: &SessionState, workflow: &CompiledWorkflow, node: &Node) -> Vec<Skipped> {
    arrival(state, node)
        .flat_map(|trace| trace.skipped.iter().map(move |skipped| (trace, skipped)))
        .filter_map(|(trace, SkippedRef { about, loops })| {
            let (item, title, keys) = described(workflow, about)?;
            let context = trace.context.as_deref();
            let value = |key: &str| context.and_then(|context| context.get(key)).cloned();
            let declared = workflow.declared_keys();
            let keys = keys
                .into_iter()
                .map(|key| DecidingKey {
                    allowed: declared.get(key).map(crate::workflow::context_keys::ContextType::words),
                    value: value(key),
                    key: key.to_owned(),
                })
                .collect();
            // Without the loops around it, the title of a step in a loop cannot be resolved.
            let is_resolvable = !loops.is_empty() || workflow.sequence_index(item.id()).is_some();
            let title = context.filter(|_| is_resolvable).map_or(title.clone(), |context| {
                resolve(&title, &visible_context(workflow, context, &frames(loops)))
            });
            Some(Skipped { item, title: one_line(&title), keys })
        })
        .collect()
}

fn frames(loops: &[(DelimiterSafe, u32)]) -> Vec<LoopFrame> {
    let frame = |(loop_id, iteration): &(DelimiterSafe, u32)| LoopFrame {
        loop_id: loop_id.clone(),
        iteration: *iteration,
        body_index: 0,
    };
    loops.iter().map(frame).collect()
}

/// The decision traces of the call that created a node. They are recorded on its parent, among those of other
/// attempts; those of a start are recorded on the root.
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

/// The index of the first attempt at a node. Traces on the root before it belong to the start.
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

/// The context keys that decide whether a loop starts.
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
