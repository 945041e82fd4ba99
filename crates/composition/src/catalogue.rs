//! All declared contributions, valid after barrier A.

use std::cmp::Ordering;

use crate::contribution::Contribution;
use crate::diagnostic::Subject;
use crate::groups::Lookup;
use crate::steps::s01_shape::Draft;
use crate::steps::s02_sources::Source;
use crate::steps::s04_keys::{Front, KeyOrder};
use crate::vocabulary::{ContributionKind, Key, Owner};

/// A contribution's position in the order of all canonical keys.
///
/// Keys are sorted once; comparing ranks then compares keys.
pub(crate) type Rank = usize;

const KINDS: usize = ContributionKind::ALL.len();

/// All declared contributions in key order, and their sources.
pub(crate) struct Catalogue<'i> {
    pub(crate) sources: Vec<Source<'i>>,
    contributions: Vec<Contribution<'i>>,
    /// The first bytes of each local id, which usually decide a search.
    fronts: Vec<Front>,
    /// The start of each owner's contributions per kind, and their end.
    owners: Lookup<&'i str, [Rank; KINDS + 1]>,
}

impl<'i> Catalogue<'i> {
    /// Takes the declarations in the order of step 4. After barrier A every draft is complete and every key unique.
    pub(crate) fn new(sources: Vec<Source<'i>>, drafts: &[Draft<'i>], order: KeyOrder) -> Self {
        let mut contributions: Vec<Contribution<'i>> = Vec::with_capacity(order.drafts.len());
        contributions.extend(order.drafts.iter().filter_map(|index| settle(&drafts[*index])));
        let mut owners = Lookup::with_capacity_and_hasher(sources.len(), Default::default());
        let mut start = 0;
        for owned in contributions.chunk_by(|a, b| a.key.owner_id() == b.key.owner_id()) {
            let mut bounds = [start + owned.len(); KINDS + 1];
            for (kind, bound) in bounds.iter_mut().enumerate().take(KINDS) {
                *bound =
                    start + owned.partition_point(|other| usize::from(other.key.kind().name_rank()) < kind);
            }
            owners.insert(owned[0].key.owner_id(), bounds);
            start += owned.len();
        }
        Self { sources, contributions, fronts: order.fronts, owners }
    }

    pub(crate) const fn len(&self) -> usize {
        self.contributions.len()
    }

    pub(crate) fn get(&self, rank: Rank) -> &Contribution<'i> {
        &self.contributions[rank]
    }

    /// All contributions, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Contribution<'i>> {
        self.contributions.iter()
    }

    /// The rank of a declared key.
    pub(crate) fn rank(&self, key: Key<'i>) -> Option<Rank> {
        let bounds = self.owners.get(key.owner_id())?;
        let kind = usize::from(key.kind().name_rank());
        let (start, end) = (bounds[kind], bounds[kind + 1]);
        let front = Front::of(key.local_id());
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low.midpoint(high);
            let order =
                self.fronts[middle].cmp(&front).then_with(|| self.key(middle).local_id().cmp(key.local_id()));
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// The rank of a key written in an operation; `None` for invalid or undeclared keys.
    pub(crate) fn rank_of(&self, text: &'i str) -> Option<Rank> {
        self.rank(Key::parse(text)?)
    }

    pub(crate) fn key(&self, rank: Rank) -> Key<'i> {
        self.contributions[rank].key
    }

    pub(crate) fn kind(&self, rank: Rank) -> ContributionKind {
        self.key(rank).kind()
    }

    pub(crate) fn source(&self, rank: Rank) -> &Source<'i> {
        &self.sources[self.contributions[rank].source]
    }

    pub(crate) fn owner(&self, rank: Rank) -> Owner<'i> {
        self.source(rank).owner()
    }

    /// The contribution as a diagnostic subject.
    pub(crate) fn subject(&self, rank: Rank) -> Subject<'i> {
        let key = self.key(rank);
        Subject {
            contribution_kind: Some(key.kind()),
            key: Some(key),
            local_id: Some(key.local_id()),
            ..self.source(rank).subject
        }
    }
}

fn settle<'i>(draft: &Draft<'i>) -> Option<Contribution<'i>> {
    let whole = draft.key.zip(draft.body);
    debug_assert!(whole.is_some(), "after barrier A every draft is complete");
    let (key, body) = whole?;
    Some(Contribution {
        key,
        source: draft.source,
        label: draft.label,
        metadata: draft.metadata,
        activation: draft.activation,
        body,
    })
}
