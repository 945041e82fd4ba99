//! Step 9: validate the whole policy before applying it.
//!
//! Three passes over the fixed candidate graph: the keys of each operation (9a), conflicts between operations (9b), and
//! references that removals would break (9c). The order of operations in the input has no effect.

mod conflicts;
mod cycles;
mod references;
mod simulation;

use super::s01_shape::{Operation, OperationKind, RequestedPosition};
use super::s07_gate::Candidates;
use crate::catalogue::{Catalogue, Rank};
use crate::diagnostic::{Details, Findings, PolicyFault, Subject};
use crate::groups::Lookup;

/// An operation with resolved keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved<'i> {
    pub(crate) id: &'i str,
    pub(crate) action: Action<'i>,
}

impl<'i> Resolved<'i> {
    /// The order of the ordering contract: by kind, then target or claim, then id.
    fn effect_order(&self) -> (u8, Rank, &'i str, &'i str) {
        let (kind, rank, claim) = match self.action {
            Action::Hide { target } => (0, target, ""),
            Action::Replace { target, .. } => (1, target, ""),
            Action::PathAlias { target, .. } => (2, target, ""),
            Action::RendererOverride { claim, .. } => (3, 0, claim),
            Action::Reorder { target, .. } => (4, target, ""),
        };
        (kind, rank, claim, self.id)
    }
}

/// The action of a resolved operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'i> {
    Hide { target: Rank },
    Reorder { target: Rank, place: Position },
    Replace { target: Rank, replacement: Rank },
    PathAlias { target: Rank, path: &'i str },
    RendererOverride { claim: &'i str, selected: Rank },
}

/// Where a resolved reorder moves its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    Last,
    Before(Rank),
    After(Rank),
}

/// The data of all three passes.
#[derive(Clone, Copy)]
pub(crate) struct PolicyContext<'s, 'i> {
    pub(crate) catalogue: &'s Catalogue<'i>,
    pub(crate) candidates: &'s Candidates,
    pub(crate) claims: &'s Claims<'i>,
    pub(crate) operations: &'s [Operation<'i>],
}

/// The claims in operations, each with whether an active renderer has it, if declared.
pub(crate) struct Claims<'i>(Lookup<&'i str, Option<bool>>);

impl<'i> Claims<'i> {
    /// Looks up the claims among all renderers, once.
    pub(crate) fn gather(
        catalogue: &Catalogue<'i>,
        candidates: &Candidates,
        operations: &[Operation<'i>],
    ) -> Self {
        let asked = operations.iter().filter_map(|operation| match operation.kind {
            OperationKind::RendererOverride { claim, .. } => Some((claim, None)),
            _ => None,
        });
        let mut claims: Lookup<&'i str, Option<bool>> = asked.collect();
        if !claims.is_empty() {
            for (rank, contribution) in catalogue.iter().enumerate() {
                if let Some(claim) = contribution.body.claim()
                    && let Some(activity) = claims.get_mut(claim)
                {
                    *activity = Some(activity.unwrap_or_default() || candidates.is_active(rank));
                }
            }
        }
        Self(claims)
    }

    /// `None` if the claim is not declared, otherwise whether it is active.
    fn activity(&self, claim: &str) -> Option<bool> {
        self.0.get(claim).copied().flatten()
    }
}

impl<'i> PolicyContext<'_, 'i> {
    /// The declared contributions that `operation` names.
    fn named(&self, operation: &Operation<'i>) -> impl Iterator<Item = Subject<'i>> {
        operation
            .named_keys()
            .filter_map(|key| self.catalogue.rank_of(key))
            .map(|rank| self.catalogue.subject(rank))
    }
}

/// Validates the policy. The result may be applied only if nothing was found.
pub(crate) fn validate<'i>(scene: PolicyContext<'_, 'i>, findings: &mut Findings<'i>) -> Vec<Resolved<'i>> {
    let resolved: Vec<Option<Resolved<'i>>> =
        scene.operations.iter().map(|operation| references::resolve(scene, operation, findings)).collect();
    let graph = conflicts::check(scene, &resolved, findings);
    simulation::check(scene, &resolved, &graph, findings);
    let mut policy: Vec<Resolved<'i>> = resolved.into_iter().flatten().collect();
    policy.sort_unstable_by_key(Resolved::effect_order);
    policy
}

/// Reports a fault of several operations: each of them, and everything they name, is a subject.
fn report_operations<'o, 'i: 'o>(
    scene: PolicyContext<'_, 'i>,
    fault: PolicyFault<'i>,
    operations: impl Iterator<Item = &'o Operation<'i>>,
    findings: &mut Findings<'i>,
) {
    let mut ids = Vec::new();
    let mut ranks = Vec::new();
    for operation in operations {
        ids.push(operation.id);
        ranks.extend(operation.named_keys().filter_map(|key| scene.catalogue.rank_of(key)));
    }
    // Thousands of operations can have the same id or target, and ids and ranks are cheaper to compare than subjects.
    ids.sort_unstable();
    ids.dedup();
    ranks.sort_unstable();
    ranks.dedup();
    let named = ranks.into_iter().map(|rank| scene.catalogue.subject(rank));
    let subjects = ids.iter().map(|id| Subject::operation(id)).chain(named).collect();
    findings.report_about(Details::Policy(PolicyFault { related_policy_ids: Some(ids), ..fault }), subjects);
}
