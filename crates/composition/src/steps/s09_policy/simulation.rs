//! Step 9c: references that removals would break.

use super::conflicts::ReplaceGraph;
use super::{Action, PolicyContext, Position, Resolved};
use crate::catalogue::Rank;
use crate::contribution::Body;
use crate::diagnostic::{Details, Findings, PolicyFault, PolicyReason, Subject};

/// Reports every reference that only this policy would break.
pub(super) fn check<'i>(
    scene: PolicyContext<'_, 'i>,
    resolved: &[Option<Resolved<'i>>],
    graph: &ReplaceGraph,
    findings: &mut Findings<'i>,
) {
    let removals = Removals::of(scene, resolved);
    if removals.is_empty() {
        return;
    }
    for item in scene.candidates.active().filter(|rank| removals.remover(*rank).is_none()) {
        if let Body::SidebarItem { route_key: Some(route_key), .. } = scene.catalogue.get(item).body
            && let Some(route) = scene.catalogue.rank_of(route_key)
            && let Some(remover) = removals.remover(route)
        {
            let fault =
                PolicyFault { from: Some(scene.catalogue.key(item)), ..dangling(scene, remover, route) };
            let subjects = vec![
                Subject::operation(remover),
                scene.catalogue.subject(item),
                scene.catalogue.subject(route),
            ];
            findings.report_about(Details::Policy(fault), subjects);
        }
    }
    for (index, operation) in resolved.iter().enumerate() {
        if let Some(operation) = operation {
            for removed in references_held(operation, graph.is_in_cycle(index)).into_iter().flatten() {
                if let Some(remover) = removals.remover(removed) {
                    report_holder(scene, index, removed, remover, findings);
                }
            }
        }
    }
}

/// The references of an operation, except to what it removes itself.
///
/// Two removals of one target, and replacements in a cycle, were reported in 9b.
fn references_held(operation: &Resolved<'_>, in_cycle: bool) -> [Option<Rank>; 2] {
    match operation.action {
        Action::Hide { .. } => [None, None],
        Action::Replace { replacement, .. } => [(!in_cycle).then_some(replacement), None],
        Action::PathAlias { target, .. } => [Some(target), None],
        Action::RendererOverride { selected, .. } => [Some(selected), None],
        Action::Reorder { target, place } => match place {
            Position::Before(anchor) | Position::After(anchor) if anchor != target => {
                [Some(target), Some(anchor)]
            }
            Position::First | Position::Last | Position::Before(_) | Position::After(_) => {
                [Some(target), None]
            }
        },
    }
}

fn report_holder<'i>(
    scene: PolicyContext<'_, 'i>,
    holder: usize,
    removed: Rank,
    remover: &'i str,
    findings: &mut Findings<'i>,
) {
    let operation = &scene.operations[holder];
    let used = match operation.kind {
        super::OperationKind::RendererOverride { used, .. } => Some(used),
        _ => None,
    };
    let fault = PolicyFault {
        related_policy_ids: Some(vec![operation.id]),
        used,
        ..dangling(scene, remover, removed)
    };
    let mut subjects =
        vec![Subject::operation(remover), Subject::operation(operation.id), scene.catalogue.subject(removed)];
    subjects.extend(scene.named(operation));
    findings.report_about(Details::Policy(fault), subjects);
}

fn dangling<'i>(scene: PolicyContext<'_, 'i>, remover: &'i str, removed: Rank) -> PolicyFault<'i> {
    let target = scene.catalogue.key(removed).to_string();
    PolicyFault::new(remover, PolicyReason::PolicyCreatedDanglingReference, target)
}

/// The removed contributions, each with the smallest id of its removing operations.
struct Removals<'i> {
    removers: Vec<Option<&'i str>>,
}

impl<'i> Removals<'i> {
    fn of(scene: PolicyContext<'_, 'i>, resolved: &[Option<Resolved<'i>>]) -> Self {
        let mut removers: Vec<Option<&'i str>> = Vec::new();
        for operation in resolved.iter().flatten() {
            if let Action::Hide { target } | Action::Replace { target, .. } = operation.action {
                removers.resize(scene.catalogue.len(), None);
                let smallest = removers[target].map_or(operation.id, |other| other.min(operation.id));
                removers[target] = Some(smallest);
            }
        }
        Self { removers }
    }

    fn is_empty(&self) -> bool {
        self.removers.is_empty()
    }

    fn remover(&self, rank: Rank) -> Option<&'i str> {
        self.removers[rank]
    }
}
