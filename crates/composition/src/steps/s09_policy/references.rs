//! Step 9a: the keys of each operation exist, are active and have the right kind.

use super::{Action, Operation, OperationKind, PolicyContext, Position, RequestedPosition, Resolved};
use crate::catalogue::Rank;
use crate::contribution::Body;
use crate::diagnostic::{Details, Findings, PolicyFault, PolicyReason, Subject};
use crate::grammar;
use crate::steps::s07_gate::Gate;
use crate::vocabulary::{ContributionKind, FallbackStatus, NonReadyStatus};

/// The operation with resolved keys, or one diagnostic: only the first failed check is reported.
pub(super) fn resolve<'i>(
    scene: PolicyContext<'_, 'i>,
    operation: &Operation<'i>,
    findings: &mut Findings<'i>,
) -> Option<Resolved<'i>> {
    let judge = Judge { scene, id: operation.id };
    match judge.action(operation.kind) {
        Ok(action) => Some(Resolved { id: operation.id, action }),
        Err(details) => {
            let subjects =
                std::iter::once(Subject::operation(operation.id)).chain(scene.named(operation)).collect();
            findings.report_about(*details, subjects);
            None
        }
    }
}

/// The result for one operation. The details are large and rare, so they are boxed.
type Verdict<'i, T> = Result<T, Box<Details<'i>>>;

struct Judge<'s, 'i> {
    scene: PolicyContext<'s, 'i>,
    id: &'i str,
}

impl<'i> Judge<'_, 'i> {
    fn action(&self, kind: OperationKind<'i>) -> Verdict<'i, Action<'i>> {
        match kind {
            OperationKind::Hide { target } => {
                let target = self.active(target, None)?;
                self.unprotected(target)?;
                Ok(Action::Hide { target })
            }
            OperationKind::Reorder { target: written, place } => {
                let target = self.active(written, None)?;
                if !self.scene.catalogue.kind(target).is_ordered() {
                    return Err(self.fault(PolicyReason::InvalidKind, written));
                }
                Ok(Action::Reorder { target, place: self.position(target, place)? })
            }
            OperationKind::Replace { target, replacement: written } => {
                const FIELD: Option<&str> = Some("replacement");
                let target = self.active(target, None)?;
                let replacement = self.active(written, FIELD)?;
                let kinds = [target, replacement].map(|rank| self.scene.catalogue.kind(rank));
                if kinds[0] != kinds[1] {
                    return Err(self.fault_at(PolicyReason::InvalidKind, written, FIELD));
                }
                self.unprotected(target)?;
                // After barrier A every handle exists: step 5b has reported missing ones.
                Ok(Action::Replace { target, replacement })
            }
            OperationKind::PathAlias { target: written, path } => {
                let target = self.active(written, None)?;
                if self.scene.catalogue.kind(target) != ContributionKind::Routes {
                    return Err(self.fault(PolicyReason::InvalidKind, written));
                }
                match grammar::path_fault(path) {
                    None => Ok(Action::PathAlias { target, path }),
                    Some(reason) => {
                        Err(Box::new(Details::InvalidPath { path, policy_id: Some(self.id), reason }))
                    }
                }
            }
            OperationKind::RendererOverride { claim, used } => self.renderer_override(claim, used),
        }
    }

    fn renderer_override(&self, claim: &'i str, used: &'i str) -> Verdict<'i, Action<'i>> {
        let PolicyContext { catalogue, candidates, claims, .. } = self.scene;
        if grammar::is_protected(claim) {
            return Err(self.fault(PolicyReason::DefaultRendererProtected, claim));
        }
        match claims.activity(claim) {
            None => return Err(self.fault(PolicyReason::MissingTarget, claim)),
            Some(false) => return Err(self.fault(PolicyReason::InactiveTarget, claim)),
            Some(true) => {}
        }
        let unusable = |reason| {
            let fault = PolicyFault { used: Some(used), ..PolicyFault::new(self.id, reason, claim) };
            Err(Box::new(Details::Policy(fault)))
        };
        let Some(selected) = catalogue.rank_of(used) else { return unusable(PolicyReason::MissingUse) };
        if !candidates.is_active(selected) {
            return unusable(PolicyReason::InactiveUse);
        }
        if catalogue.get(selected).body.claim() != Some(claim) {
            return unusable(PolicyReason::InvalidUseKind);
        }
        Ok(Action::RendererOverride { claim, selected })
    }

    /// The rank of a declared and active key.
    fn active(&self, key: &'i str, field: Option<&'static str>) -> Verdict<'i, Rank> {
        match self.scene.catalogue.rank_of(key) {
            None => Err(self.fault_at(PolicyReason::MissingTarget, key, field)),
            Some(rank) if !self.scene.candidates.is_active(rank) => {
                Err(self.fault_at(PolicyReason::InactiveTarget, key, field))
            }
            Some(rank) => Ok(rank),
        }
    }

    fn position(&self, target: Rank, place: RequestedPosition<'i>) -> Verdict<'i, Position> {
        let Some(written) = place.anchor() else {
            return Ok(if matches!(place, RequestedPosition::First) {
                Position::First
            } else {
                Position::Last
            });
        };
        const FIELD: Option<&str> = Some("anchor");
        let anchor = self.active(written, FIELD)?;
        if self.display_group(target) != self.display_group(anchor) {
            return Err(self.fault_at(PolicyReason::InvalidKind, written, FIELD));
        }
        Ok(if matches!(place, RequestedPosition::Before(_)) {
            Position::Before(anchor)
        } else {
            Position::After(anchor)
        })
    }

    /// The scope of an order: the kind, and for fallbacks their display group.
    fn display_group(&self, rank: Rank) -> (ContributionKind, Option<(NonReadyStatus, bool)>) {
        let contribution = self.scene.catalogue.get(rank);
        let group = match (contribution.body, self.scene.candidates.gate(rank)) {
            (Body::Fallback { status, .. }, Gate::Fallback(matched)) => {
                Some((matched, status == FallbackStatus::AnyNonReady))
            }
            _ => None,
        };
        (contribution.key.kind(), group)
    }

    /// Ordinary text cannot be hidden or replaced.
    fn unprotected(&self, target: Rank) -> Verdict<'i, ()> {
        match self.scene.catalogue.get(target).body.claim().filter(|claim| grammar::is_protected(claim)) {
            Some(claim) => Err(self.fault(PolicyReason::DefaultRendererProtected, claim)),
            None => Ok(()),
        }
    }

    fn fault(&self, reason: PolicyReason, target: &'i str) -> Box<Details<'i>> {
        self.fault_at(reason, target, None)
    }

    fn fault_at(
        &self,
        reason: PolicyReason,
        target: &'i str,
        field: Option<&'static str>,
    ) -> Box<Details<'i>> {
        Box::new(Details::Policy(PolicyFault { field, ..PolicyFault::new(self.id, reason, target) }))
    }
}
