//! The context that a retry of a blocked attempt has to provide.

use guide::interpret::pointer_key;
use guide::record::{Block, EngineState, Pointer};
use guide::visit::Visit;
use guide::workflow::compiled::{CompiledWorkflow, Count, LoopControl};
use guide::workflow::context_keys::ContextFault;
use serde_json::{Map, Value};

/// The context keys that the blockers of a state name, each with a placeholder value. A placeholder that is sent
/// unchanged is refused.
pub(super) fn wanted(
    workflow: &CompiledWorkflow,
    state: &EngineState,
    visit: &Visit,
    context: &Map<String, Value>,
) -> Map<String, Value> {
    let produced = state.pending().and_then(|pending| workflow.step(&pending.step_id));
    let produced = |key: &String| produced.is_some_and(|step| step.produces_context.contains_key(key));
    let EngineState::Blocked(state) = state else { return Map::new() };
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) = &state.blocked;
    let pointed: Vec<&str> = blockers
        .blockers()
        .iter()
        .filter_map(|blocker| match &blocker.pointer {
            Pointer::ContextKey { key } => Some(key.as_str()),
            Pointer::AssessmentDimension { .. }
            | Pointer::Capability { .. }
            | Pointer::ContextBudget
            | Pointer::Loop { .. }
            | Pointer::OutputContract { .. }
            | Pointer::Session
            | Pointer::WorkflowStep { .. } => None,
        })
        .collect();
    let is_pointed_at = |key: &str| pointed.contains(&pointer_key(key).as_str());
    let declared = workflow.declared_keys().iter().filter(|(key, _)| is_pointed_at(key));
    let declared = declared.filter(|(key, declared)| {
        let is_earlier = produced(key) && !visit.has(key);
        is_earlier || ContextFault::of(key, declared, context).is_some()
    });
    let mut wanted: Map<String, Value> =
        declared.map(|(key, declared)| (key.clone(), declared.placeholder(key).into())).collect();
    for definition in &workflow.loops {
        let (key, placeholder) = match &definition.control {
            LoopControl::ForEach { items, .. } => (items, "<a list>"),
            LoopControl::Count { count: Count::Key(key) } => (key, "<a whole number>"),
            LoopControl::Count { count: Count::Number(_) }
            | LoopControl::Decision { .. }
            | LoopControl::Condition { .. } => continue,
        };
        if is_pointed_at(key) && !wanted.contains_key(key) {
            wanted.insert(key.clone(), placeholder.into());
        }
    }
    // A parallel `forEach` is compiled to the delegation of a step.
    let delegations = workflow.steps.iter().flat_map(|step| &step.delegations);
    for list in delegations.filter_map(|delegation| delegation.for_each.as_ref()) {
        if is_pointed_at(&list.key) && !wanted.contains_key(&list.key) {
            wanted.insert(list.key.clone(), "<a list>".into());
        }
    }
    wanted
}
