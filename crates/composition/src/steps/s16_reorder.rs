//! Step 16: order the ordered collections.
//!
//! `reorder` is precedence, not adjacency: of all valid orders, the smallest by canonical key is used.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::s09_policy::{Action, Position, Resolved};
use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::contribution::Body;
use crate::effect::Effect;
use crate::groups::Lookup;
use crate::steps::s07_gate::Gate;
use crate::vocabulary::{ContributionKind, FallbackStatus};

/// The requested position of each moved contribution.
pub(crate) type Moves = Lookup<Rank, Position>;

/// Collects the moves and records their effects.
pub(crate) fn apply<'i>(assembly: &mut Assembly<'_, 'i>, policy: &[Resolved<'i>]) -> Moves {
    let mut moves = Moves::default();
    for operation in policy {
        if let Action::Reorder { target, place } = operation.action {
            moves.insert(target, place);
            assembly.touch(target, operation.id);
            let target = assembly.catalogue.key(target);
            assembly.effects.push(Effect::Reorder {
                policy_id: operation.id,
                target,
                collection: target.kind(),
            });
        }
    }
    moves
}

/// The final order of `ranks`: all remaining contributions of one ordered kind, in key order.
pub(crate) fn order(
    assembly: &Assembly<'_, '_>,
    kind: ContributionKind,
    ranks: Vec<Rank>,
    moves: &Moves,
) -> Vec<Rank> {
    let body = |rank: &Rank| assembly.catalogue.get(*rank).body;
    match kind {
        ContributionKind::MessageAppenders => {
            let mut ranks = ranks;
            // Stable, so that equal appenders stay in key order.
            ranks.sort_by_key(|rank| match body(rank) {
                Body::Appender { target_message_type, position, .. } => Some((target_message_type, position)),
                _ => None,
            });
            moved(ranks, moves)
        }
        ContributionKind::FallbackSurfaces => {
            let group = |rank: &Rank| match (body(rank), assembly.candidates.gate(*rank)) {
                (Body::Fallback { status, .. }, Gate::Fallback(matched)) => {
                    Some((matched, status == FallbackStatus::AnyNonReady))
                }
                _ => None,
            };
            let mut ranks = ranks;
            ranks.sort_by_key(group);
            ranks
                .chunk_by(|a, b| group(a) == group(b))
                .flat_map(|group| moved(group.to_vec(), moves))
                .collect()
        }
        _ => moved(ranks, moves),
    }
}

/// Applies the moves to items in base order.
fn moved(items: Vec<Rank>, moves: &Moves) -> Vec<Rank> {
    if moves.is_empty() || !items.iter().any(|item| moves.contains_key(item)) {
        return items;
    }
    let (mut first, mut middle, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        match moves.get(&item) {
            Some(Position::First) => first.push(item),
            Some(Position::Last) => last.push(item),
            None | Some(Position::Before(_) | Position::After(_)) => middle.push(item),
        }
    }
    first.into_iter().chain(topological(&middle, moves)).chain(last).collect()
}

/// Kahn's algorithm, always taking the first ready item in base order.
fn topological(items: &[Rank], moves: &Moves) -> Vec<Rank> {
    let places: Lookup<Rank, usize> = items.iter().copied().zip(0..).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut waiting_for = vec![0_usize; items.len()];
    for (place, item) in items.iter().enumerate() {
        let (anchor, target_first) = match moves.get(item) {
            Some(Position::Before(anchor)) => (anchor, true),
            Some(Position::After(anchor)) => (anchor, false),
            _ => continue,
        };
        // An anchor in another bucket is already on the right side.
        if let Some(anchor) = places.get(anchor) {
            let (before, after) = if target_first { (place, *anchor) } else { (*anchor, place) };
            followers[before].push(after);
            waiting_for[after] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..items.len()).filter(|place| waiting_for[*place] == 0).map(Reverse).collect();
    let mut ordered = Vec::with_capacity(items.len());
    while let Some(Reverse(place)) = ready.pop() {
        ordered.push(items[place]);
        for follower in &followers[place] {
            waiting_for[*follower] -= 1;
            if waiting_for[*follower] == 0 {
                ready.push(Reverse(*follower));
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use Position::{After, Before, First, Last};

    use super::*;

    #[test]
    fn moves_of_a_b_c_d() {
        type Case = (&'static str, &'static [(Rank, Position)], [Rank; 4]);
        let cases: [Case; 7] = [
            ("nothing", &[], [0, 1, 2, 3]),
            ("d before b", &[(3, Before(1))], [0, 2, 3, 1]),
            ("a after c", &[(0, After(2))], [1, 2, 0, 3]),
            ("c and a first", &[(2, First), (0, First)], [0, 2, 1, 3]),
            ("b and a last", &[(1, Last), (0, Last)], [2, 3, 0, 1]),
            ("d first, a after c", &[(3, First), (0, After(2))], [3, 1, 2, 0]),
            ("a after a first", &[(0, After(3)), (3, First)], [3, 0, 1, 2]),
        ];
        for (name, moves, expected) in cases {
            assert_eq!(moved(vec![0, 1, 2, 3], &moves.iter().copied().collect()), expected, "{name}");
        }
    }
}
