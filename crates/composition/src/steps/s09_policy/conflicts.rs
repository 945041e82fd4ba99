//! Step 9b: conflicting operations.

use super::cycles::cyclic_groups;
use super::{Action, OperationKind, PolicyContext, Position, Resolved, report_operations};
use crate::catalogue::Rank;
use crate::diagnostic::{Findings, PolicyFault, PolicyReason};
use crate::groups::{Lookup, repeated};

/// The reported cycles, for 9c.
pub(super) struct ReplaceGraph {
    /// For each operation, whether it is a replace in a cycle.
    in_cycle: Vec<bool>,
}

impl ReplaceGraph {
    pub(super) fn is_in_cycle(&self, operation: usize) -> bool {
        self.in_cycle[operation]
    }
}

/// Reports every conflict; `resolved` has an entry for each operation.
pub(super) fn check<'i>(
    scene: PolicyContext<'_, 'i>,
    resolved: &[Option<Resolved<'i>>],
    findings: &mut Findings<'i>,
) -> ReplaceGraph {
    duplicate_ids(scene, findings);
    duplicate_targets(scene, findings);
    hidden_and_replaced(scene, findings);
    reorder_cycles(scene, resolved, findings);
    ReplaceGraph { in_cycle: replace_cycles(scene, resolved, findings) }
}

fn duplicate_ids<'i>(scene: PolicyContext<'_, 'i>, findings: &mut Findings<'i>) {
    for (id, group) in repeated(scene.operations.iter().map(|operation| (operation.id, operation))) {
        let fault = PolicyFault::new(id, PolicyReason::DuplicateOperationId, format!("operation:{id}"));
        report_operations(scene, fault, group.into_iter(), findings);
    }
}

/// Several operations of a kind for one target or claim. The second id in byte order is reported.
fn duplicate_targets<'i>(scene: PolicyContext<'_, 'i>, findings: &mut Findings<'i>) {
    let aimed = scene.operations.iter().map(|operation| {
        let aim = match operation.kind {
            OperationKind::Hide { target } => (PolicyReason::DuplicateHideTarget, target),
            OperationKind::Reorder { target, .. } => (PolicyReason::DuplicateReorderTarget, target),
            OperationKind::Replace { target, .. } => (PolicyReason::DuplicateReplaceTarget, target),
            OperationKind::PathAlias { target, .. } => (PolicyReason::DuplicatePathAliasTarget, target),
            OperationKind::RendererOverride { claim, .. } => {
                (PolicyReason::DuplicateRendererOverrideClaim, claim)
            }
        };
        (aim, operation)
    });
    for ((reason, target), mut group) in repeated(aimed) {
        group.sort_unstable_by_key(|operation| operation.id);
        report_operations(scene, PolicyFault::new(group[1].id, reason, target), group.into_iter(), findings);
    }
}

fn hidden_and_replaced<'i>(scene: PolicyContext<'_, 'i>, findings: &mut Findings<'i>) {
    let removals = scene.operations.iter().filter_map(|operation| match operation.kind {
        OperationKind::Hide { target } | OperationKind::Replace { target, .. } => Some((target, operation)),
        _ => None,
    });
    for (target, mut group) in repeated(removals) {
        let hides =
            group.iter().filter(|operation| matches!(operation.kind, OperationKind::Hide { .. })).count();
        if hides > 0 && hides < group.len() {
            group.sort_unstable_by_key(|operation| operation.id);
            let fault = PolicyFault::new(group[0].id, PolicyReason::HideReplaceSameTarget, target);
            report_operations(scene, fault, group.into_iter(), findings);
        }
    }
}

/// Cycles of replacements; returns the operations in one.
fn replace_cycles<'i>(
    scene: PolicyContext<'_, 'i>,
    resolved: &[Option<Resolved<'i>>],
    findings: &mut Findings<'i>,
) -> Vec<bool> {
    let mut edges = Vec::new();
    let mut operations = Vec::new();
    for (index, operation) in resolved.iter().enumerate() {
        if let Some(Resolved { action: Action::Replace { target, replacement }, .. }) = *operation {
            edges.push((target, replacement));
            operations.push(index);
        }
    }
    let mut in_cycle = vec![false; resolved.len()];
    for group in cyclic_groups(&edges) {
        let involved: Vec<usize> = group.into_iter().map(|edge| operations[edge]).collect();
        for index in &involved {
            in_cycle[*index] = true;
        }
        report_cycle(scene, PolicyReason::ReplaceCycle, &involved, findings);
    }
    in_cycle
}

/// Contradictory orders.
///
/// A target with several reorders is already a conflict, and these are ignored. `first` and `last` form buckets: an
/// edge from a later bucket into an earlier one contradicts the operation that formed the bucket; an edge in the right
/// direction is redundant.
fn reorder_cycles<'i>(
    scene: PolicyContext<'_, 'i>,
    resolved: &[Option<Resolved<'i>>],
    findings: &mut Findings<'i>,
) {
    let mut reorders: Lookup<&str, usize> = Lookup::default();
    for operation in scene.operations {
        if let OperationKind::Reorder { target, .. } = operation.kind {
            *reorders.entry(target).or_default() += 1;
        }
    }
    let single: Vec<(usize, Rank, Position)> = resolved
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| match (operation.as_ref()?.action, scene.operations[index].kind) {
            (Action::Reorder { target, place }, OperationKind::Reorder { target: written, .. })
                if reorders[written] == 1 =>
            {
                Some((index, target, place))
            }
            _ => None,
        })
        .collect();
    let buckets: Lookup<Rank, (usize, Position)> = single
        .iter()
        .filter(|(.., place)| matches!(place, Position::First | Position::Last))
        .map(|(index, target, place)| (*target, (*index, *place)))
        .collect();

    let mut edges = Vec::new();
    let mut operations = Vec::new();
    for (index, target, place) in single {
        let (anchor, edge, against) = match place {
            Position::Before(anchor) => (anchor, (target, anchor), Position::First),
            Position::After(anchor) => (anchor, (anchor, target), Position::Last),
            Position::First | Position::Last => continue,
        };
        match buckets.get(&anchor) {
            None => {
                edges.push(edge);
                operations.push(index);
            }
            Some((other, bucket)) if *bucket == against => {
                report_cycle(scene, PolicyReason::ReorderCycle, &[index, *other], findings);
            }
            Some(_) => {}
        }
    }
    for group in cyclic_groups(&edges) {
        let involved: Vec<usize> = group.into_iter().map(|edge| operations[edge]).collect();
        report_cycle(scene, PolicyReason::ReorderCycle, &involved, findings);
    }
}

/// Reports the operation with the smallest id; of several, the one with the smallest target.
fn report_cycle<'i>(
    scene: PolicyContext<'_, 'i>,
    reason: PolicyReason,
    involved: &[usize],
    findings: &mut Findings<'i>,
) {
    let operations = || involved.iter().map(|index| &scene.operations[*index]);
    let blamed = operations().map(|operation| (operation.id, operation.named_keys().next())).min();
    if let Some((id, Some(target))) = blamed {
        report_operations(scene, PolicyFault::new(id, reason, target), operations(), findings);
    }
}
