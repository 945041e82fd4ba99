//! Step 4: canonical keys, for every declared contribution, active or not.

use std::collections::HashMap;

use super::s01_shape::{Draft, PackageField};
use super::s02_sources::Source;
use crate::diagnostic::{Details, Findings, Subject, SubjectOwner};
use crate::grammar;
use crate::groups::repeated;
use crate::vocabulary::{ContributionKind, Key, OwnerKind};

/// The key of a contribution, if both halves are grammatical, the owner half by the pattern of its owner kind.
pub(crate) fn derive<'i>(
    owner: Subject<'i>,
    kind: ContributionKind,
    local_id: Option<&'i str>,
) -> Option<Key<'i>> {
    let owner_id = owner.owner_id.filter(|id| match owner.owner_kind {
        SubjectOwner::Builtin => grammar::is_builtin_id(id),
        SubjectOwner::Module => grammar::is_id(id),
        SubjectOwner::Host => false,
    })?;
    let local_id = local_id.filter(|id| grammar::is_id(id))?;
    Some(Key::from_parts(owner_id, kind, local_id))
}

/// Reports ids, owners and keys that stand for more than one thing.
pub(crate) fn check<'i>(sources: &[Source<'i>], drafts: &[Draft<'i>], findings: &mut Findings<'i>) {
    let shared = shared_instance_ids(sources, findings);
    check_builtin_owners(sources, findings);
    check_keys(sources, drafts, &shared, findings);
}

/// Instance ids of several modules, with the sources that share each.
fn shared_instance_ids<'i>(
    sources: &[Source<'i>],
    findings: &mut Findings<'i>,
) -> HashMap<&'i str, Vec<usize>> {
    let mut by_id = sources_by_id(sources, OwnerKind::Module, grammar::is_id);
    by_id.retain(|_, sharing| sharing.len() > 1);
    for (instance_id, sharing) in &by_id {
        findings.report_about(
            Details::DuplicateInstanceId { count: sharing.len(), instance_id },
            sharing.iter().map(|index| sources[*index].subject).collect(),
        );
    }
    by_id
}

/// Built-in sets of one owner id have to agree about the package. A malformed field was reported and takes no part.
fn check_builtin_owners<'i>(sources: &[Source<'i>], findings: &mut Findings<'i>) {
    for (owner_id, sets) in sources_by_id(sources, OwnerKind::Builtin, grammar::is_builtin_id) {
        let differs = |field: fn(&Source<'i>) -> PackageField<'i>| {
            let mut values =
                sets.iter().map(|index| field(&sources[*index])).filter(|v| *v != PackageField::Malformed);
            values.next().is_some_and(|first| values.any(|other| other != first))
        };
        let mut fields = Vec::new();
        if differs(|source| source.package_id) {
            fields.push("packageId");
        }
        if differs(|source| source.package_version) {
            fields.push("packageVersion");
        }
        if !fields.is_empty() {
            findings.report_about(
                Details::OwnerConflict { fields, owner_id },
                sets.iter().map(|index| sources[*index].subject).collect(),
            );
        }
    }
}

/// The sources of one kind under each grammatical id.
fn sources_by_id<'i>(
    sources: &[Source<'i>],
    kind: OwnerKind,
    grammatical: fn(&str) -> bool,
) -> HashMap<&'i str, Vec<usize>> {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, source) in sources.iter().enumerate().filter(|(_, source)| source.kind == kind) {
        if let Some(id) = source.subject.owner_id.filter(|id| grammatical(id)) {
            by_id.entry(id).or_default().push(index);
        }
    }
    by_id
}

/// Reports keys that are declared more than once.
///
/// Modules that share an instance id were reported for that; their equal keys only repeat it,
/// so of such modules only the one with the most declarations of a key counts.
fn check_keys<'i>(
    sources: &[Source<'i>],
    drafts: &[Draft<'i>],
    shared: &HashMap<&'i str, Vec<usize>>,
    findings: &mut Findings<'i>,
) {
    // Drafts stand in the order of their sources, so the declarations of one source are neighbours.
    for (key, group) in repeated(drafts.iter().filter_map(|draft| Some((draft.key?, draft)))) {
        let (mut count, mut most_of_shared) = (0, 0);
        for declarations in group.chunk_by(|a, b| a.source == b.source) {
            if sources[declarations[0].source].kind == OwnerKind::Module
                && shared.contains_key(key.owner_id())
            {
                most_of_shared = most_of_shared.max(declarations.len());
            } else {
                count += declarations.len();
            }
        }
        count += most_of_shared;
        if count > 1 {
            let subjects = group.iter().map(|draft| draft.subject(sources[draft.source].subject)).collect();
            findings.report_about(Details::DuplicateCanonicalKey { count, key }, subjects);
        }
    }
}
