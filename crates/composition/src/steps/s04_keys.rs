//! Step 4: canonical keys of all declared contributions, active or not.

use super::s01_shape::{Draft, PackageField};
use super::s02_sources::Source;
use crate::diagnostic::{Details, Findings, Subject, SubjectOwner};
use crate::grammar;
use crate::groups::Lookup;
use crate::vocabulary::{OwnerKind, compare_before_colon};

/// The owner part of the keys of a source: its id, if valid for its owner kind.
pub(crate) fn owner_half<'i>(owner: Subject<'i>) -> Option<&'i str> {
    owner.owner_id.filter(|id| match owner.owner_kind {
        SubjectOwner::Builtin => grammar::is_builtin_id(id),
        SubjectOwner::Module => grammar::is_id(id),
        SubjectOwner::Host => false,
    })
}

/// The drafts with a key, in key order.
pub(crate) struct KeyOrder {
    pub(crate) drafts: Vec<usize>,
    /// The first bytes of each local id.
    pub(crate) fronts: Vec<Front>,
}

/// The first sixteen bytes of an id as a number with the same order. It usually decides a comparison without another
/// memory access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Front(u128);

impl Front {
    pub(crate) fn of(id: &str) -> Self {
        let mut bytes = [0; 16];
        let length = id.len().min(bytes.len());
        bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
        Self(u128::from_be_bytes(bytes))
    }
}

/// Reports duplicate ids, owners and keys.
///
/// Returns the drafts with a key, in key order: this is the only sort.
pub(crate) fn check<'i>(
    sources: &[Source<'i>],
    drafts: &[Draft<'i>],
    findings: &mut Findings<'i>,
) -> KeyOrder {
    let shared = shared_instance_ids(sources, findings);
    check_builtin_owners(sources, findings);
    let order = key_order(sources, drafts);
    check_keys(sources, drafts, &order.drafts, &shared, findings);
    order
}

/// The drafts with a key, in key order, equal ones in declaration order.
///
/// There are few sources, so their ids are compared first; then only a number and the local id are compared per draft.
fn key_order(sources: &[Source<'_>], drafts: &[Draft<'_>]) -> KeyOrder {
    let owner_id = |source: usize| sources[source].subject.owner_id.unwrap_or_default();
    let mut by_owner: Vec<usize> = (0..sources.len()).collect();
    by_owner.sort_unstable_by(|a, b| compare_before_colon(owner_id(*a), owner_id(*b)));
    let mut owner_ranks = vec![0; sources.len()];
    for (rank, alike) in by_owner.chunk_by(|a, b| owner_id(*a) == owner_id(*b)).enumerate() {
        for source in alike {
            owner_ranks[*source] = rank;
        }
    }
    let mut order: Vec<(usize, Front, &str, usize)> = Vec::with_capacity(drafts.len());
    order.extend(drafts.iter().enumerate().filter_map(|(index, draft)| {
        let key = draft.key?;
        let owner_and_kind = owner_ranks[draft.source] << 4 | usize::from(key.kind().name_rank());
        Some((owner_and_kind, draft.front, key.local_id(), index))
    }));
    order.sort_unstable();
    KeyOrder {
        fronts: order.iter().map(|(_, front, ..)| *front).collect(),
        drafts: order.into_iter().map(|(.., index)| index).collect(),
    }
}

/// Instance ids of several modules, with their sources.
fn shared_instance_ids<'i>(
    sources: &[Source<'i>],
    findings: &mut Findings<'i>,
) -> Lookup<&'i str, Vec<usize>> {
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

/// Built-in sets with one owner id must have the same package. A field already reported as invalid is ignored.
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

/// The sources of one kind by valid id.
fn sources_by_id<'i>(
    sources: &[Source<'i>],
    kind: OwnerKind,
    grammatical: fn(&str) -> bool,
) -> Lookup<&'i str, Vec<usize>> {
    let mut by_id: Lookup<&str, Vec<usize>> = Lookup::default();
    for (index, source) in sources.iter().enumerate().filter(|(_, source)| source.kind == kind) {
        if let Some(id) = source.subject.owner_id.filter(|id| grammatical(id)) {
            by_id.entry(id).or_default().push(index);
        }
    }
    by_id
}

/// Reports keys that are declared more than once.
///
/// Modules with the same instance id were already reported; their equal keys only repeat that, so only the one with the
/// most declarations of a key counts.
fn check_keys<'i>(
    sources: &[Source<'i>],
    drafts: &[Draft<'i>],
    order: &[usize],
    shared: &Lookup<&'i str, Vec<usize>>,
    findings: &mut Findings<'i>,
) {
    // Drafts are in source order, so the declarations of one source are adjacent.
    for group in order.chunk_by(|a, b| drafts[*a].key == drafts[*b].key).filter(|group| group.len() > 1) {
        let group: Vec<&Draft<'i>> = group.iter().map(|index| &drafts[*index]).collect();
        let Some(key) = group[0].key else { continue };
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
