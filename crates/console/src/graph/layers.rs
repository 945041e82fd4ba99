//! Computes the layers and positions of the nodes.

use std::collections::VecDeque;

/// How often the order within the layers is improved.
const SWEEPS: usize = 6;
/// The limit of bends for long edges. Beyond it, edges are drawn straight.
const MAX_BENDS: usize = 20_000;

/// The positions of nodes and edges. Bends of long edges are stored after the nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// For each node and bend: its layer, and its position in half rows.
    pub(super) places: Vec<(usize, i64)>,
    /// For each forward edge: the nodes and bends on its way.
    pub(super) paths: Vec<Vec<usize>>,
    /// The edges that close a loop.
    pub(super) back: Vec<(usize, usize)>,
    pub(super) layers: usize,
    /// The number of rows in the largest layer.
    pub(super) rows: usize,
}

/// Lays out a graph. Edges to unknown nodes are ignored.
pub(super) fn layout(nodes: usize, edges: &[(usize, usize)]) -> Layout {
    let edges: Vec<(usize, usize)> =
        edges.iter().copied().filter(|(from, to)| *from < nodes && *to < nodes).collect();
    let is_back = leads_back(nodes, &edges);
    let (onwards, back): (Vec<_>, Vec<_>) = edges.into_iter().zip(is_back).partition(|(_, is_back)| !is_back);
    let onwards: Vec<(usize, usize)> = onwards.into_iter().map(|(edge, _)| edge).collect();
    let mut layer = longest_paths(nodes, &onwards);
    let paths = bend(&mut layer, &onwards);
    let layers = layer.iter().max().map_or(0, |last| last + 1);
    let order = ordered(&layer, layers, &paths);
    let rows = order.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = vec![(0, 0); layer.len()];
    for (number, members) in order.iter().enumerate() {
        let first = i64::try_from(rows - members.len()).unwrap_or(0);
        for (row, member) in members.iter().enumerate() {
            places[*member] = (number, first + 2 * i64::try_from(row).unwrap_or(0));
        }
    }
    Layout { places, paths, back: back.into_iter().map(|(edge, _)| edge).collect(), layers, rows }
}

/// Walks the graph depth first, with an explicit stack, and marks the edges that close a loop.
fn leads_back(nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let mut outgoing = vec![Vec::new(); nodes];
    let mut has_incoming = vec![false; nodes];
    for (place, (from, to)) in edges.iter().enumerate() {
        outgoing[*from].push(place);
        has_incoming[*to] = true;
    }
    let mut back = vec![false; edges.len()];
    // 0: not visited, 1: on the stack, 2: done.
    let mut seen = vec![0_u8; nodes];
    let roots = (0..nodes).filter(|node| !has_incoming[*node]).chain(0..nodes);
    for root in roots {
        if seen[root] != 0 {
            continue;
        }
        seen[root] = 1;
        let mut walk = vec![(root, 0)];
        while let Some((node, next)) = walk.last_mut() {
            let Some(edge) = outgoing[*node].get(*next).copied() else {
                seen[*node] = 2;
                walk.pop();
                continue;
            };
            *next += 1;
            let target = edges[edge].1;
            match seen[target] {
                0 => {
                    seen[target] = 1;
                    walk.push((target, 0));
                }
                1 => back[edge] = true,
                _ => {}
            }
        }
    }
    back
}

/// The layer of each node: one after the latest of its predecessors.
fn longest_paths(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut outgoing = vec![Vec::new(); nodes];
    let mut missing = vec![0_usize; nodes];
    for (from, to) in edges {
        outgoing[*from].push(*to);
        missing[*to] += 1;
    }
    let mut layer = vec![0; nodes];
    let mut ready: VecDeque<usize> = (0..nodes).filter(|node| missing[*node] == 0).collect();
    while let Some(node) = ready.pop_front() {
        for target in &outgoing[node] {
            layer[*target] = layer[*target].max(layer[node] + 1);
            missing[*target] -= 1;
            if missing[*target] == 0 {
                ready.push_back(*target);
            }
        }
    }
    layer
}

/// Adds a bend to each layer that an edge passes.
fn bend(layer: &mut Vec<usize>, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut bends = 0;
    let paths = edges.iter().map(|(from, to)| {
        let between = (layer[*from] + 1)..layer[*to];
        let mut path = vec![*from];
        if bends + between.len() <= MAX_BENDS {
            bends += between.len();
            for number in between {
                path.push(layer.len());
                layer.push(number);
            }
        }
        path.push(*to);
        path
    });
    paths.collect()
}

/// The nodes of each layer, ordered so that neighbours are close.
fn ordered(layer: &[usize], layers: usize, paths: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut order = vec![Vec::new(); layers];
    for (member, number) in layer.iter().enumerate() {
        order[*number].push(member);
    }
    let mut before = vec![Vec::new(); layer.len()];
    let mut behind = vec![Vec::new(); layer.len()];
    for pair in paths.iter().flat_map(|path| path.windows(2)) {
        behind[pair[0]].push(pair[1]);
        before[pair[1]].push(pair[0]);
    }
    let mut row = vec![0_usize; layer.len()];
    let remember = |row: &mut Vec<usize>, members: &[usize]| {
        for (place, member) in members.iter().enumerate() {
            row[*member] = place;
        }
    };
    order.iter().for_each(|members| remember(&mut row, members));
    for sweep in 0..SWEEPS {
        let (neighbours, numbers): (_, Vec<usize>) = if sweep % 2 == 0 {
            (&before, (1..layers).collect())
        } else {
            (&behind, (0..layers).rev().skip(1).collect())
        };
        for number in numbers {
            // Compare the means as fractions (sum and count), so that rounding does not decide. A
            // node without neighbours stays in place.
            let mean = |member: usize| {
                let around = &neighbours[member];
                if around.is_empty() {
                    (row[member], 1)
                } else {
                    (around.iter().map(|near| row[*near]).sum(), around.len())
                }
            };
            let mut members = std::mem::take(&mut order[number]);
            members.sort_by(|a, b| {
                let ((sum_a, count_a), (sum_b, count_b)) = (mean(*a), mean(*b));
                (sum_a * count_b).cmp(&(sum_b * count_a)).then(row[*a].cmp(&row[*b]))
            });
            remember(&mut row, &members);
            order[number] = members;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_placed_after_their_predecessors() {
        let placed = layout(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let layers: Vec<usize> = placed.places.iter().map(|(layer, _)| *layer).collect();
        assert_eq!(layers, [0, 1, 1, 2]);
        assert_eq!((placed.layers, placed.rows), (3, 2));
        assert_eq!(placed.places[0].1, 1, "a single node is centred between two rows");
    }

    #[test]
    fn loops_become_back_edges() {
        let placed = layout(3, &[(0, 1), (1, 2), (2, 0), (1, 1)]);
        assert_eq!(placed.back, [(2, 0), (1, 1)]);
        assert_eq!(placed.layers, 3);
    }

    #[test]
    fn long_edges_get_a_bend_in_every_layer() {
        let placed = layout(3, &[(0, 1), (1, 2), (0, 2), (7, 1)]);
        assert_eq!(placed.paths.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 3]);
    }

    #[test]
    fn the_order_within_a_layer_follows_the_neighbours() {
        // Two chains whose middle nodes are listed in the opposite order.
        let placed = layout(6, &[(0, 3), (1, 2), (3, 5), (2, 4)]);
        let row = |node: usize| placed.places[node].1;
        assert!(
            (row(0) < row(1)) == (row(3) < row(2)) && (row(3) < row(2)) == (row(5) < row(4)),
            "{placed:?}"
        );
    }
}
