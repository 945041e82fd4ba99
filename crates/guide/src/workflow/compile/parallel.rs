//! A parallel `forEach`, as delegation: one child run for each item, and one step that waits for all of them.

use super::draft::{Context, DraftLoop, Node, join_condition, join_confirmation};
use crate::workflow::{
    compiled::DelegatedItems,
    problem::{ProblemCode as Code, member},
    source::LoopType,
};

/// Turns a parallel `forEach` into the step of its body. Any other loop stays what it is.
pub(super) fn join(context: &mut Context<'_>, mut looped: DraftLoop) -> Node {
    let spec = &looped.step.control;
    if spec.parallel != Some(true) {
        return Node::Loop(Box::new(looped));
    }
    let path = member(&looped.path, "loop");
    let is_single = match looped.body.as_slice() {
        [Node::Step(draft)] => draft.delegations.len() == 1,
        _ => false,
    };
    if spec.loop_type != LoopType::ForEach || !is_single {
        let message = "only a `forEach` whose body is one step of type `parallel` with one delegation can be `parallel`";
        let fix = "Give the body one step with `parallelDelegations` of one entry, or remove `parallel`.";
        context.problem(&member(&path, "parallel"), Code::InvalidBody, message, fix);
        return Node::Loop(Box::new(looped));
    }
    let items = DelegatedItems {
        key: spec.items.clone().unwrap_or_default(),
        item_var: spec.item_var.clone().unwrap_or_else(|| "currentItem".to_owned()),
        index_var: spec.index_var.clone().unwrap_or_else(|| "currentIndex".to_owned()),
        max_items: spec.max_iterations,
    };
    let Some(Node::Step(mut draft)) = looped.body.pop() else { return Node::Loop(Box::new(looped)) };
    if let Some(delegation) = draft.delegations.first_mut() {
        delegation.for_each = Some(items);
    }
    // What the loop says holds for its only step.
    if let Some(condition) = &looped.step.run_condition {
        join_condition(&mut draft.step.run_condition, condition);
    }
    if let Some(confirmation) = &looped.step.require_confirmation {
        join_confirmation(&mut draft.step.require_confirmation, confirmation);
    }
    draft.step.requires_context.extend(looped.step.requires_context);
    draft.step.notes_optional = draft.step.notes_optional.or(looped.step.notes_optional);
    Node::Step(draft)
}
