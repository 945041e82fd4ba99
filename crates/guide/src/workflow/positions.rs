//! Positions of steps in a workflow, so that lookups need no search.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use super::compiled::{CompiledWorkflow, SequenceItem};
use super::context_keys::ContextKeys;

/// Positions in a workflow, computed on first use.
///
/// They are derived from the workflow and not part of it: they are not serialized, hashed or compared. A
/// clone, which may be modified, computes its own.
#[derive(Default)]
pub(crate) struct PositionIndex(OnceLock<Table>);

pub(super) struct Table {
    /// The index of each step.
    pub(super) steps: BTreeMap<String, usize>,
    /// The index of each top-level item in the sequence.
    pub(super) sequence: BTreeMap<String, usize>,
    /// The indexes of the top-level items with a run condition, in order.
    pub(super) conditional: Vec<usize>,
    /// All declared context keys. The compiler rejects a key that is declared with two types.
    pub(super) declared: ContextKeys,
}

impl PositionIndex {
    pub(super) fn get(&self, workflow: &CompiledWorkflow) -> &Table {
        self.0.get_or_init(|| Table::new(workflow))
    }
}

impl Table {
    fn new(workflow: &CompiledWorkflow) -> Self {
        let mut steps = BTreeMap::new();
        for (index, step) in workflow.steps.iter().enumerate() {
            steps.entry(step.step_id.as_str().to_owned()).or_insert(index);
        }
        let mut sequence = BTreeMap::new();
        let mut conditional = Vec::new();
        for (index, item) in workflow.sequence.iter().enumerate() {
            let (id, has_condition) = match item {
                SequenceItem::Step { step_id } => {
                    let step = steps.get(step_id.as_str()).map(|index| &workflow.steps[*index]);
                    (step_id.as_str(), step.is_some_and(|step| step.run_condition.is_some()))
                }
                SequenceItem::Loop { loop_id } => {
                    let definition = workflow.loop_of(loop_id);
                    (loop_id.as_str(), definition.is_some_and(|found| found.run_condition.is_some()))
                }
            };
            sequence.entry(id.to_owned()).or_insert(index);
            if has_condition {
                conditional.push(index);
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

impl Clone for PositionIndex {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for PositionIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for PositionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PositionIndex")
    }
}
