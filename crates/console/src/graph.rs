//! Draws graphs as SVG, in layers from left to right.
//!
//! The layout is hand-written because it needs little: layers by longest path, order within a layer
//! by the mean position of the neighbours, and bends that lead long edges through the layers
//! between. Each sweep is O(nodes + edges), and the same graph always gives the same drawing. A
//! large graph is split into parts, so that the page size stays bounded.

mod layers;

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, Render as _, html};

use self::layers::{Layout, layout};

/// The most nodes that are laid out. A larger drawing would not be readable.
pub(crate) const MAX_NODES: usize = 2000;
/// The most bytes of nodes per part: about 250 nodes with typical names.
const NODE_BYTES: usize = 55_000;
/// The most bytes of edges per part.
const EDGE_BYTES: usize = 25_000;

const WIDTH: i64 = 172;
const HEIGHT: i64 = 42;
const GAP_X: i64 = 54;
const GAP_Y: i64 = 18;
const MARGIN: i64 = 18;

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Edges as pairs of indices into `nodes`.
    pub(crate) edges: Vec<(usize, usize)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) label: String,
    /// Smaller text below the label.
    pub(crate) kind: String,
    /// The CSS class for the status; see [`tone`](crate::parts::tone).
    pub(crate) tone: &'static str,
    /// The status as text, for readers who cannot use colour.
    pub(crate) state: String,
    pub(crate) href: Option<String>,
}

/// A laid-out graph, in parts that each fit on a page.
///
/// A part is a range of nodes in layer order. Edges that leave it end at the border of the picture.
pub(crate) struct Drawing {
    graph: Graph,
    placed: Layout,
    /// The markup of each node.
    drawn: Vec<String>,
    /// The nodes of each part, by index. There is at least one part.
    parts: Vec<Vec<usize>>,
}

impl Drawing {
    /// Lays out a graph. Nodes get the ids `n0`, `n1`, … in their order.
    ///
    /// # Errors
    /// The message for a graph that is too large.
    pub(crate) fn new(graph: Graph) -> Result<Self, Markup> {
        let nodes = graph.nodes.len();
        if nodes > MAX_NODES {
            return Err(
                html! { p.notice { "The graph has " (nodes) " nodes; the limit for drawing is " (MAX_NODES) "." } },
            );
        }
        let placed = layout(nodes, &graph.edges);
        let drawn: Vec<String> = (0..nodes).map(|place| draw_node(&graph, &placed, place)).collect();
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_by_key(|place| placed.places[*place]);
        let mut parts = vec![Vec::new()];
        let mut bytes = 0;
        for place in order {
            bytes += drawn[place].len();
            if bytes > NODE_BYTES && parts.last().is_some_and(|part| !part.is_empty()) {
                parts.push(Vec::new());
                bytes = drawn[place].len();
            }
            if let Some(part) = parts.last_mut() {
                part.push(place);
            }
        }
        Ok(Self { graph, placed, drawn, parts })
    }

    /// The number of parts, at least one.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The first and last node of a part, counted from 1 in drawing order.
    pub(crate) fn range(&self, part: usize) -> (usize, usize) {
        let before: usize = self.parts.iter().take(part).map(Vec::len).sum();
        (before + 1, before + self.parts.get(part).map_or(0, Vec::len))
    }

    /// The part to show first: the first with a node that is running, waiting or failed.
    pub(crate) fn first_active_part(&self) -> usize {
        let is_lively =
            |place: &usize| matches!(self.graph.nodes[*place].tone, "busy" | "wait" | "bad" | "held");
        self.parts.iter().position(|part| part.iter().any(is_lively)).unwrap_or(0)
    }

    /// The SVG of a part.
    pub(crate) fn draw(&self, part: usize) -> Markup {
        let members = self.parts.get(part).map_or(&[][..], Vec::as_slice);
        let window = self.window(members);
        let (left, upper, width, height) = window;
        let (lines, omitted) = edges(&self.placed, self.graph.nodes.len(), members);
        let mut svg = String::with_capacity(NODE_BYTES + EDGE_BYTES);
        let _ = write!(
            svg,
            "<svg viewBox=\"{left} {upper} {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"group\" aria-label=\"Graph of {} nodes\">{lines}",
            members.len()
        );
        for place in members {
            svg.push_str(&self.drawn[*place]);
        }
        svg.push_str("</svg>");
        html! {
            div.graph tabindex="0" { (PreEscaped(svg)) }
            @if omitted > 0 { p.muted { (omitted) " more edges are not drawn." } }
        }
    }

    /// The node states of a part, to update a picture that is already on the page.
    pub(crate) fn states(&self, part: usize) -> Markup {
        let members = self.parts.get(part).map_or(&[][..], Vec::as_slice);
        let mut pairs = String::with_capacity(members.len() * 10);
        for place in members {
            let _ = write!(pairs, "n{place}={} ", self.graph.nodes[*place].tone);
        }
        html! { span hidden data-states=(pairs.trim_end()) {} }
    }

    /// The bounds of a part: left, top, width and height.
    fn window(&self, members: &[usize]) -> (i64, i64, i64, i64) {
        if self.parts.len() == 1 {
            let (width, height) = size(&self.placed);
            return (0, 0, width, height);
        }
        let corners = || members.iter().map(|place| corner(&self.placed, *place));
        let (left, right) = (corners().map(|at| at.0).min(), corners().map(|at| at.0).max());
        let (upper, lower) = (corners().map(|at| at.1).min(), corners().map(|at| at.1).max());
        let (left, upper) = (left.unwrap_or(0), upper.unwrap_or(0));
        // Include half of the gap to the next layer, to show the edges that go there.
        let (width, height) =
            (right.unwrap_or(0) - left + WIDTH + GAP_X, lower.unwrap_or(0) - upper + HEIGHT + 2 * MARGIN);
        (left - GAP_X / 2, upper - MARGIN, width, height)
    }
}

fn size(placed: &Layout) -> (i64, i64) {
    let width = count(placed.layers) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN;
    let height = count(placed.rows) * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN;
    let below = if placed.back.is_empty() { 0 } else { HEIGHT };
    (width.max(2 * MARGIN), height.max(2 * MARGIN) + below)
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / (1 << 20))
}

fn corner(placed: &Layout, node: usize) -> (i64, i64) {
    let (layer, half_rows) = placed.places[node];
    (MARGIN + count(layer) * (WIDTH + GAP_X), MARGIN + half_rows * (HEIGHT + GAP_Y) / 2)
}

/// The edges of a part, and how many were left out because they exceed the limit.
fn edges(placed: &Layout, nodes: usize, members: &[usize]) -> (String, usize) {
    let mut is_member = vec![false; nodes];
    members.iter().for_each(|place| is_member[*place] = true);
    let touches =
        |ends: [Option<&usize>; 2]| ends.into_iter().flatten().any(|end| is_member.get(*end) == Some(&true));
    let (mut lines, mut tips, mut back) = (String::new(), String::new(), String::new());
    let mut omitted = 0;
    for path in placed.paths.iter().filter(|path| touches([path.first(), path.last()])) {
        let mut line = String::new();
        for (place, pair) in path.windows(2).enumerate() {
            let (from, to) = (corner(placed, pair[0]), corner(placed, pair[1]));
            let (x0, y0) = (from.0 + WIDTH, from.1 + HEIGHT / 2);
            let (across, down) = (to.0 - x0, to.1 - from.1);
            if place == 0 {
                let _ = write!(line, "M{x0} {y0}");
            } else {
                // Straight through the layers between.
                let _ = write!(line, "H{x0}");
            }
            if down == 0 {
                let _ = write!(line, "h{across}");
            } else {
                let half = across / 2;
                let _ = write!(line, "c{half} 0 {half} {down} {across} {down}");
            }
        }
        if lines.len() + line.len() + tips.len() + 20 > EDGE_BYTES {
            omitted += 1;
            continue;
        }
        lines.push_str(&line);
        if let Some(last) = path.last() {
            let (x, y) = corner(placed, *last);
            let _ = write!(tips, "M{x} {}l-7-4v8z", y + HEIGHT / 2);
        }
    }
    for (from, to) in placed.back.iter().filter(|(from, to)| touches([Some(from), Some(to)])) {
        if lines.len() + tips.len() + back.len() + 60 > EDGE_BYTES {
            omitted += 1;
            continue;
        }
        let (from, to) = (corner(placed, *from), corner(placed, *to));
        let (x0, y0) = (from.0 + WIDTH / 2, from.1 + HEIGHT);
        let (x1, y1) = (to.0 + WIDTH / 2, to.1 + HEIGHT);
        let low = y0.max(y1) + HEIGHT;
        let _ = write!(back, "M{x0} {y0}C{x0} {low} {x1} {low} {x1} {y1}");
        let _ = write!(tips, "M{x1} {y1}l-4 7h8z");
    }
    let drawn = format!(
        "<path class=\"edges\" d=\"{lines}\"/><path class=\"edges back\" d=\"{back}\"/><path class=\"tips\" d=\"{tips}\"/>"
    );
    (drawn, omitted)
}

/// One node. The size of the box and the positions of the texts are in the style sheet.
fn draw_node(graph: &Graph, placed: &Layout, place: usize) -> String {
    let node = &graph.nodes[place];
    let (x, y) = corner(placed, place);
    let escaped = |text: &str| text.render().0;
    let label = escaped(&crate::parts::cut(&node.label, 22));
    let title = escaped(&format!("{} ({}): {}", crate::parts::cut(&node.label, 80), node.kind, node.state));
    let kind = escaped(&crate::parts::cut(&node.kind, 26));
    let mut svg = format!("<a id=\"n{place}\" class=\"node {}\"", node.tone);
    if let Some(href) = &node.href {
        let _ = write!(svg, " href=\"{}\"", escaped(href));
    }
    let _ = write!(
        svg,
        " transform=\"translate({x} {y})\"><title>{title}</title><rect/><text>{label}</text><text class=\"kind\">{kind}</text></a>"
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let node = |place: usize| Node {
            label: format!("node {place}"),
            kind: "core.noop".to_owned(),
            tone: "good",
            state: "completed".to_owned(),
            href: Some(format!("?node=node-{place}#node")),
        };
        Graph { nodes: (0..nodes).map(node).collect(), edges: edges.to_vec() }
    }

    fn drawing(graph: Graph) -> Drawing {
        Drawing::new(graph).unwrap_or_else(|notice| panic!("{}", notice.0))
    }

    #[test]
    fn drawings_have_labels_and_escape_them() {
        let mut hostile = graph(2, &[(0, 1)]);
        hostile.nodes[0].label = "<script>alert(1)</script>\"'&".to_owned();
        hostile.nodes[0].href = Some("/x?\"><script>".to_owned());
        let drawn = drawing(hostile).draw(0).0;
        assert!(!drawn.contains("<script"), "{drawn}");
        assert!(
            drawn.contains("aria-label=\"Graph of 2 nodes\"")
                && drawn.contains("id=\"n1\" class=\"node good\"")
        );
    }

    /// Graphs of a thousand nodes: a typical shape and the worst cases.
    fn thousands() -> Vec<(&'static str, Graph)> {
        let tree: Vec<(usize, usize)> = (1..1000).map(|node| ((node - 1) / 3, node)).collect();
        let chain: Vec<(usize, usize)> = (1..1000).map(|node| (node - 1, node)).collect();
        let dense: Vec<(usize, usize)> =
            (0..1000).flat_map(|from| [1, 2, 30, 400].map(|step| (from, (from + step) % 1000))).collect();
        let mut long = graph(1000, &chain);
        for node in &mut long.nodes {
            node.label = "\"<>&".repeat(60);
            node.href = Some(format!("?node={}#node", "%22".repeat(80)));
        }
        vec![
            ("tree", graph(1000, &tree)),
            ("chain", graph(1000, &chain)),
            ("one layer", graph(1000, &[])),
            ("dense", graph(1000, &dense)),
            ("long names", long),
        ]
    }

    #[test]
    fn every_part_of_a_thousand_nodes_fits_on_a_page_and_no_node_is_missing() {
        for (name, graph) in thousands() {
            let drawing = drawing(graph);
            let mut seen = 0;
            for part in 0..drawing.parts() {
                let page = drawing.draw(part).0 + &drawing.states(part).0;
                assert!(page.len() < 90_000, "part {part} of {name} is {} bytes", page.len());
                let nodes = page.matches("<rect/>").count();
                assert_eq!(drawing.range(part), (seen + 1, seen + nodes), "{name}");
                seen += nodes;
            }
            assert_eq!(seen, 1000, "{name}");
            assert_eq!(
                drawing.draw(drawing.parts()).0.matches("<rect/>").count(),
                0,
                "the part does not exist"
            );
        }
    }

    #[test]
    fn the_first_part_shown_has_an_active_node() {
        let chain: Vec<(usize, usize)> = (1..1000).map(|node| (node - 1, node)).collect();
        let mut graph = graph(1000, &chain);
        assert_eq!(drawing(graph.clone()).first_active_part(), 0, "the first part if nothing is active");
        graph.nodes[999].tone = "wait";
        let drawing = drawing(graph);
        assert_eq!(drawing.first_active_part(), drawing.parts() - 1);
        assert!(drawing.states(drawing.parts() - 1).0.contains("n999=wait"));
    }

    #[test]
    fn a_graph_over_the_limit_gets_a_notice() {
        let refused = Drawing::new(graph(MAX_NODES + 1, &[])).err().map(|notice| notice.0);
        assert!(refused.is_some_and(|notice| notice.contains("the limit for drawing")));
        assert!(drawing(graph(0, &[])).draw(0).0.contains("<svg"));
    }
}
