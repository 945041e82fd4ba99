//! Every declared contribution, once barrier A has found them all in order.

use std::cmp::Ordering;

use crate::contribution::Contribution;
use crate::diagnostic::Subject;
use crate::groups::Lookup;
use crate::steps::s01_shape::Draft;
use crate::steps::s02_sources::Source;
use crate::steps::s04_keys::{Front, KeyOrder};
use crate::vocabulary::{ContributionKind, Key, Owner};

/// A contribution's place in the order of all canonical keys.
///
/// Keys are sorted once; afterwards comparing ranks is comparing keys.
pub(crate) type Rank = usize;

const KINDS: usize = ContributionKind::ALL.len();

/// All declared contributions in the order of their keys, and the sources they came from.
pub(crate) struct Catalogue<'i> {
    pub(crate) sources: Vec<Source<'i>>,
    contributions: Vec<Contribution<'i>>,
    /// The front of each local id, by which a search decides nearly always.
    fronts: Vec<Front>,
    /// Where the contributions of each owner begin, kind by kind, and where they end.
    owners: Lookup<&'i str, [Rank; KINDS + 1]>,
}

impl<'i> Catalogue<'i> {
    /// Takes what was declared, in the order that step 4 found. Barrier A has made sure that every
    /// draft is whole and every key its own.
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

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.contributions.len()
    }

    /// The contribution of a rank.
    pub(crate) fn get(&self, rank: Rank) -> &Contribution<'i> {
        &self.contributions[rank]
    }

    /// All of them, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Contribution<'i>> {
        self.contributions.iter()
    }

    /// The rank of a key, if somebody declares it.
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

    /// The rank of a key as an operation writes it; what is no key is declared by nobody.
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

    /// The contribution as diagnostics name it.
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
    debug_assert!(whole.is_some(), "barrier A lets only whole drafts pass");
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
