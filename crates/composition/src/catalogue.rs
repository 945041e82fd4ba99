//! Every declared contribution, once barrier A has found them all in order.

use std::collections::HashMap;

use crate::contribution::Contribution;
use crate::diagnostic::Subject;
use crate::steps::s01_shape::Draft;
use crate::steps::s02_sources::Source;
use crate::vocabulary::{ContributionKind, Key, Owner};

/// A contribution's place in the order of all canonical keys.
///
/// Keys are sorted once; afterwards comparing ranks is comparing keys.
pub(crate) type Rank = usize;

/// All declared contributions in the order of their keys, and the sources they came from.
pub(crate) struct Catalogue<'i> {
    pub(crate) sources: Vec<Source<'i>>,
    contributions: Vec<Contribution<'i>>,
    ranks: HashMap<Key<'i>, Rank>,
}

impl<'i> Catalogue<'i> {
    /// Sorts what was declared. Barrier A has made sure that every draft is whole and every key its own.
    pub(crate) fn new(sources: Vec<Source<'i>>, drafts: &[Draft<'i>]) -> Self {
        let mut contributions: Vec<Contribution<'i>> = drafts.iter().filter_map(settle).collect();
        sort_by_key(&mut contributions);
        let ranks =
            contributions.iter().enumerate().map(|(rank, contribution)| (contribution.key, rank)).collect();
        Self { sources, contributions, ranks }
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
        self.ranks.get(&key).copied()
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

/// Sorts small tuples instead of the contributions, which are large, and compares the owner by a number.
fn sort_by_key(contributions: &mut Vec<Contribution<'_>>) {
    let mut owners: Vec<&str> =
        contributions.iter().map(|contribution| contribution.key.owner_id()).collect();
    owners.sort_unstable_by(|a, b| crate::vocabulary::compare_before_colon(a, b));
    owners.dedup();
    let owner_ranks: HashMap<&str, usize> = owners.into_iter().zip(0..).collect();
    let mut order: Vec<(usize, &str, &str, usize)> = contributions
        .iter()
        .enumerate()
        .map(|(index, Contribution { key, .. })| {
            (owner_ranks[key.owner_id()], key.kind().as_str(), key.local_id(), index)
        })
        .collect();
    order.sort_unstable();
    let mut taken: Vec<Option<Contribution<'_>>> =
        std::mem::take(contributions).into_iter().map(Some).collect();
    contributions.extend(order.into_iter().filter_map(|(.., index)| taken[index].take()));
}
