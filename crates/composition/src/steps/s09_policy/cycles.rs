//! Strongly connected components without recursion: a chain of 10,000 operations must not overflow the stack.

/// The edges in a cycle, grouped by component. A self-edge is a cycle.
pub(super) fn cyclic_groups(edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut nodes: Vec<usize> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let dense = |node: usize| nodes.binary_search(&node).unwrap_or_default();
    let edges: Vec<(usize, usize)> = edges.iter().map(|(from, to)| (dense(*from), dense(*to))).collect();

    let component = components(nodes.len(), &edges);
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, (from, to)) in edges.iter().enumerate() {
        // Within one component every edge is in a cycle.
        if component[*from] == component[*to] {
            groups[component[*from]].push(index);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

const UNSEEN: usize = usize::MAX;

/// Tarjan's algorithm: the component number of each node.
fn components(node_count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); node_count];
    for (from, to) in edges {
        successors[*from].push(*to);
    }
    let mut search = Search {
        successors,
        order: vec![UNSEEN; node_count],
        lowest: vec![0; node_count],
        component: vec![UNSEEN; node_count],
        open: Vec::new(),
        seen: 0,
        components: 0,
    };
    for node in 0..node_count {
        if search.order[node] == UNSEEN {
            search.explore(node);
        }
    }
    search.component
}

struct Search {
    successors: Vec<Vec<usize>>,
    /// The discovery order of a node.
    order: Vec<usize>,
    /// The earliest open node reachable from it.
    lowest: Vec<usize>,
    component: Vec<usize>,
    /// Visited nodes without a component.
    open: Vec<usize>,
    seen: usize,
    components: usize,
}

impl Search {
    fn explore(&mut self, root: usize) {
        self.enter(root);
        // Each entry is a node and the number of visited successors.
        let mut path = vec![(root, 0)];
        while let Some((node, followed)) = path.last_mut() {
            let node = *node;
            if let Some(next) = self.successors[node].get(*followed).copied() {
                *followed += 1;
                if self.order[next] == UNSEEN {
                    self.enter(next);
                    path.push((next, 0));
                } else if self.component[next] == UNSEEN {
                    self.lowest[node] = self.lowest[node].min(self.order[next]);
                }
            } else {
                path.pop();
                if let Some((parent, _)) = path.last() {
                    self.lowest[*parent] = self.lowest[*parent].min(self.lowest[node]);
                }
                if self.lowest[node] == self.order[node] {
                    self.close(node);
                }
            }
        }
    }

    fn enter(&mut self, node: usize) {
        self.order[node] = self.seen;
        self.lowest[node] = self.seen;
        self.seen += 1;
        self.open.push(node);
    }

    fn close(&mut self, root: usize) {
        while let Some(node) = self.open.pop() {
            self.component[node] = self.components;
            if node == root {
                break;
            }
        }
        self.components += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_in_cycles() {
        type Case = (&'static str, &'static [(usize, usize)], &'static [&'static [usize]]);
        let cases: [Case; 6] = [
            ("nothing", &[], &[]),
            ("a chain", &[(1, 2), (2, 3)], &[]),
            ("itself", &[(7, 7)], &[&[0]]),
            ("a pair and a tail", &[(1, 2), (2, 1), (2, 3)], &[&[0, 1]]),
            ("two cycles joined by an edge", &[(1, 2), (2, 1), (2, 3), (3, 4), (4, 3)], &[&[3, 4], &[0, 1]]),
            ("two cycles through one node", &[(1, 2), (2, 1), (2, 3), (3, 2)], &[&[0, 1, 2, 3]]),
        ];
        for (name, edges, expected) in cases {
            assert_eq!(cyclic_groups(edges), expected, "{name}");
        }
    }

    #[test]
    fn a_long_ring_is_one_cycle() {
        let edges: Vec<_> = (0..100_000).map(|node| (node, (node + 1) % 100_000)).collect();
        let groups = cyclic_groups(&edges);
        assert_eq!((groups.len(), groups[0].len()), (1, 100_000));
    }
}
