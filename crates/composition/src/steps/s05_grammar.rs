//! Step 5: validate names, paths, claims, references and module versions.
//!
//! This covers every declaration, whatever its status: a disabled module must not hide an invalid declaration.

use std::collections::HashSet;

use super::s01_shape::{Draft, Operation, OperationKind, SourceShape, Versions};
use super::s02_sources::Source;
use crate::diagnostic::{
    Details, Findings, PolicyFault, PolicyReason, ReferenceReason, Subject, SubjectOwner, VersionField,
};
use crate::grammar::{self, BUILTIN_ID_PATTERN, BUILTIN_PREFIX, NAME_PATTERN};
use crate::groups::Lookup;
use crate::vocabulary::{ContributionKind, Key, OwnerKind};

/// Validates every source. [`check_contribution`] validated its contributions as they were read; both steps belong to
/// one block, so their order does not matter.
pub(crate) fn check<'i>(
    sources: &[Source<'i>],
    shapes: &[SourceShape<'i>],
    versions: Versions,
    findings: &mut Findings<'i>,
) {
    for (source, shape) in sources.iter().zip(shapes) {
        check_owner_id(source, findings);
        if let Some(module) = shape.module
            && let Some(details) = versions.fault(VersionField::ModuleApi, module.get("moduleApiVersion"))
        {
            findings.report(details, source.subject);
        }
    }
}

fn check_owner_id<'i>(source: &Source<'i>, findings: &mut Findings<'i>) {
    let Some(id) = source.subject.owner_id else { return };
    let details = match source.kind {
        OwnerKind::Builtin if !grammar::is_builtin_id(id) => {
            Details::InvalidOwnerId { owner_id: id, pattern: BUILTIN_ID_PATTERN }
        }
        OwnerKind::Module if !grammar::is_id(id) => {
            Details::InvalidInstanceId { instance_id: id, pattern: NAME_PATTERN }
        }
        OwnerKind::Module if id.starts_with(BUILTIN_PREFIX) => {
            Details::ReservedOwnerId { instance_id: id, prefix: BUILTIN_PREFIX }
        }
        OwnerKind::Builtin | OwnerKind::Module => return,
    };
    findings.report(details, source.subject);
}

/// Validates the names, path, claim or reference of one contribution.
pub(crate) fn check_contribution<'i>(draft: &Draft<'i>, owner: Subject<'i>, findings: &mut Findings<'i>) {
    let mut report = |details| findings.report(details, draft.subject(owner));
    if draft.key.is_none()
        && let Some(local_id) = draft.local_id
        && !grammar::is_id(local_id)
    {
        report(Details::InvalidLocalId { contribution_kind: draft.kind, local_id, pattern: NAME_PATTERN });
    }
    let Some(text) = draft.judged else { return };
    match (draft.kind, draft.kind.renderer_kind()) {
        (ContributionKind::Routes, _) => {
            if let Some(reason) = grammar::path_fault(text) {
                report(Details::InvalidPath { path: text, policy_id: None, reason });
            }
        }
        (ContributionKind::SidebarItems, _) => {
            let reason = match Key::parse(text) {
                None => ReferenceReason::MalformedKey,
                Some(key) if key.kind() != ContributionKind::Routes => ReferenceReason::WrongKind,
                Some(_) => return,
            };
            report(Details::Reference { field: "routeKey", from: draft.key, reason, reference: text });
        }
        (_, Some(renderer_kind)) => {
            if let Some(reason) = grammar::claim_fault(text, renderer_kind) {
                report(Details::InvalidClaim { claim: text, reason });
            } else if owner.owner_kind == SubjectOwner::Module && grammar::is_protected(text) {
                report(Details::DefaultProtected { claim: text });
            }
        }
        (_, None) => {}
    }
}

/// Step 5b: reports a policy that selects a contribution without a handle, because barrier A would prevent step 9 from
/// reporting it.
pub(crate) fn check_selected_handles<'i>(
    sources: &[Source<'i>],
    drafts: &[Draft<'i>],
    operations: &[Operation<'i>],
    findings: &mut Findings<'i>,
) {
    let bare: HashSet<Key<'i>> =
        drafts.iter().filter(|draft| draft.lacks_handle).filter_map(|draft| draft.key).collect();
    if bare.is_empty() || operations.is_empty() {
        return;
    }
    let declared = subjects_by_key(sources, drafts);
    for operation in operations {
        let (selected, fault) = match operation.kind {
            OperationKind::Replace { replacement, .. } => (
                replacement,
                PolicyFault {
                    field: Some("replacement"),
                    ..PolicyFault::new(operation.id, PolicyReason::MissingRenderHandle, replacement)
                },
            ),
            OperationKind::RendererOverride { claim, used } => (
                used,
                PolicyFault {
                    used: Some(used),
                    ..PolicyFault::new(operation.id, PolicyReason::MissingRenderHandle, claim)
                },
            ),
            OperationKind::Hide { .. } | OperationKind::Reorder { .. } | OperationKind::PathAlias { .. } => {
                continue;
            }
        };
        if Key::parse(selected).is_some_and(|key| bare.contains(&key)) {
            let named =
                operation.named_keys().filter_map(Key::parse).filter_map(|key| declared.get(&key).copied());
            let subjects = std::iter::once(Subject::operation(operation.id)).chain(named).collect();
            findings.report_about(Details::Policy(fault), subjects);
        }
    }
}

/// The subject of each declared key.
///
/// A duplicate key, which is a separate error, has its first subject: with all of them, many declarations times many
/// operations would be quadratic.
fn subjects_by_key<'i>(sources: &[Source<'i>], drafts: &[Draft<'i>]) -> Lookup<Key<'i>, Subject<'i>> {
    let mut subjects: Lookup<Key<'i>, Subject<'i>> = Lookup::default();
    for draft in drafts {
        if let Some(key) = draft.key {
            let subject = draft.subject(sources[draft.source].subject);
            let first = subjects.entry(key).or_insert(subject);
            if subject.precedes(first) {
                *first = subject;
            }
        }
    }
    subjects
}
