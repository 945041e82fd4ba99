//! Where the steps of a workflow are, so that a run of thousands does not search for each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use super::compiled::{CompiledWorkflow, SequenceItem};
use super::context_keys::ContextKeys;

/// Places in a workflow, found at the first question.
///
/// They follow from the workflow and are no part of it: they are not written, hashed or compared,
/// and a copy, which may be about to become another workflow, finds its own.
#[derive(Default)]
pub(crate) struct Places(OnceLock<Table>);

pub(super) struct Table {
    /// Of each step, where it is among the steps.
    pub(super) steps: BTreeMap<String, usize>,
    /// Of each item of the top level, where it is in the sequence.
    pub(super) sequence: BTreeMap<String, usize>,
    /// The items of the top level that have a run condition, in order.
    pub(super) conditional: Vec<usize>,
    /// The declared keys of the context. The compiler lets nobody declare one twice with two types.
    pub(super) declared: ContextKeys,
}

impl Places {
    pub(super) fn of(&self, workflow: &CompiledWorkflow) -> &Table {
        self.0.get_or_init(|| Table::new(workflow))
    }
}

impl Table {
    fn new(workflow: &CompiledWorkflow) -> Self {
        let mut steps = BTreeMap::new();
        for (place, step) in workflow.steps.iter().enumerate() {
            steps.entry(step.step_id.as_str().to_owned()).or_insert(place);
        }
        let mut sequence = BTreeMap::new();
        let mut conditional = Vec::new();
        for (place, item) in workflow.sequence.iter().enumerate() {
            let (id, has_condition) = match item {
                SequenceItem::Step { step_id } => {
                    let step = steps.get(step_id.as_str()).map(|place| &workflow.steps[*place]);
                    (step_id.as_str(), step.is_some_and(|step| step.run_condition.is_some()))
                }
                SequenceItem::Loop { loop_id } => {
                    let definition = workflow.loop_of(loop_id);
                    (loop_id.as_str(), definition.is_some_and(|found| found.run_condition.is_some()))
                }
            };
            sequence.entry(id.to_owned()).or_insert(place);
            if has_condition {
                conditional.push(place);
            }
        }
        let of_steps =
            workflow.steps.iter().flat_map(|step| [&step.produces_context, &step.requires_context]);
        let of_loops = workflow.loops.iter().map(|looped| &looped.requires_context);
        let mut declared = ContextKeys::new();
        for (key, declaration) in std::iter::once(&workflow.inputs).chain(of_steps).chain(of_loops).flatten()
        {
            declared.entry(key.clone()).or_insert_with(|| declaration.clone());
        }
        Self { steps, sequence, conditional, declared }
    }
}

impl Clone for Places {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Places")
    }
}
