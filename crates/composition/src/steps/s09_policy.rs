//! Step 9: judge the whole policy before any of it is applied.
//!
//! Three passes over the frozen candidate graph: what each operation names (9a), how the
//! operations get along (9b), and what their removals would leave dangling (9c). The order of
//! the operations in the input decides nothing.

mod conflicts;
mod cycles;
mod references;
mod simulation;

use std::collections::HashMap;

use super::s01_shape::{Operation, OperationKind, Place};
use super::s07_gate::Candidates;
use crate::catalogue::{Catalogue, Rank};
use crate::diagnostic::{Details, Findings, PolicyFault, Subject};

/// An operation whose keys were found in the candidate graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved<'i> {
    pub(crate) id: &'i str,
    pub(crate) action: Action<'i>,
}

/// What a resolved operation does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<'i> {
    Hide { target: Rank },
    Reorder { target: Rank, place: Position },
    Replace { target: Rank, replacement: Rank },
    PathAlias { target: Rank, path: &'i str },
    RendererOverride { claim: &'i str, selected: Rank },
}

/// Where a resolved reorder wants its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    Last,
    Before(Rank),
    After(Rank),
}

/// The facts that all three passes look at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'s, 'i> {
    pub(crate) catalogue: &'s Catalogue<'i>,
    pub(crate) candidates: &'s Candidates,
    pub(crate) claims: &'s Claims<'i>,
    pub(crate) operations: &'s [Operation<'i>],
}

/// The claims that somebody declares, each with whether an active renderer has it.
pub(crate) struct Claims<'i>(HashMap<&'i str, bool>);

impl<'i> Claims<'i> {
    /// Gathers the claims, if any operation asks for one.
    pub(crate) fn gather(
        catalogue: &Catalogue<'i>,
        candidates: &Candidates,
        operations: &[Operation<'i>],
    ) -> Self {
        let mut claims = HashMap::new();
        if operations.iter().any(|operation| matches!(operation.kind, OperationKind::RendererOverride { .. }))
        {
            for (rank, contribution) in catalogue.iter().enumerate() {
                if let Some(claim) = contribution.body.claim() {
                    *claims.entry(claim).or_default() |= candidates.is_active(rank);
                }
            }
        }
        Self(claims)
    }

    /// `None` when nobody declares the claim, else whether it is active.
    fn activity(&self, claim: &str) -> Option<bool> {
        self.0.get(claim).copied()
    }
}

impl<'i> Scene<'_, 'i> {
    /// The contributions that `operation` names, as far as somebody declares them.
    fn named(&self, operation: &Operation<'i>) -> impl Iterator<Item = Subject<'i>> {
        operation
            .named_keys()
            .filter_map(|key| self.catalogue.rank_of(key))
            .map(|rank| self.catalogue.subject(rank))
    }
}

/// Judges the policy. What comes out may be applied only if nothing was found.
pub(crate) fn validate<'i>(scene: Scene<'_, 'i>, findings: &mut Findings<'i>) -> Vec<Resolved<'i>> {
    let resolved: Vec<Option<Resolved<'i>>> =
        scene.operations.iter().map(|operation| references::resolve(scene, operation, findings)).collect();
    let graph = conflicts::check(scene, &resolved, findings);
    simulation::check(scene, &resolved, &graph, findings);
    resolved.into_iter().flatten().collect()
}

/// Reports a fault of several operations: each of them, and whatever they name, is a subject.
fn report_operations<'o, 'i: 'o>(
    scene: Scene<'_, 'i>,
    fault: PolicyFault<'i>,
    operations: impl Iterator<Item = &'o Operation<'i>>,
    findings: &mut Findings<'i>,
) {
    let mut ids = Vec::new();
    let mut subjects = Vec::new();
    for operation in operations {
        ids.push(operation.id);
        subjects.push(Subject::operation(operation.id));
        subjects.extend(scene.named(operation));
    }
    ids.sort_unstable();
    ids.dedup();
    findings.report_about(Details::Policy(PolicyFault { related_policy_ids: Some(ids), ..fault }), subjects);
}
