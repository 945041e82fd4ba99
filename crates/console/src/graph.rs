//! Graphs, drawn: layers from left to right, as SVG.
//!
//! The layout is ours because what it has to do is small: layers by longest path, order within a layer by the mean place of the
//! neighbours, long edges led through the layers between. It is O(nodes + edges) for each sweep, and the same graph always gives the
//! same drawing.

mod layers;

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, Render as _, html};

use self::layers::{Layout, layout};

/// The most nodes that are drawn. More would be no picture any more.
pub(crate) const MAX_NODES: usize = 2000;

const WIDTH: i64 = 172;
const HEIGHT: i64 = 42;
const GAP_X: i64 = 54;
const GAP_Y: i64 = 18;
const MARGIN: i64 = 18;

/// A graph that is to be drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// From where to where, as places in `nodes`.
    pub(crate) edges: Vec<(usize, usize)>,
}

/// A node of a drawing.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) label: String,
    /// What stands below the label, smaller.
    pub(crate) kind: String,
    /// The class that says how it is; see [`tone`](crate::parts::tone).
    pub(crate) tone: &'static str,
    /// The state in words, for those who see no colours.
    pub(crate) state: String,
    pub(crate) href: Option<String>,
}

/// The drawing. Nodes have the ids `n0`, `n1`, … in their order.
pub(crate) fn draw(graph: &Graph) -> Markup {
    let (nodes, edges) = (graph.nodes.len(), &graph.edges);
    if nodes > MAX_NODES {
        return html! { p.notice { "The graph has " (nodes) " nodes, which is more than can be drawn (" (MAX_NODES) ")." } };
    }
    let placed = layout(nodes, edges);
    let (width, height) = size(&placed);
    let mut svg = String::with_capacity(nodes * 220 + edges.len() * 60);
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"group\" aria-label=\"Graph of {nodes} nodes\">"
    );
    draw_edges(&mut svg, &placed);
    for (place, node) in graph.nodes.iter().enumerate() {
        draw_node(&mut svg, place, node, corner(&placed, place));
    }
    svg.push_str("</svg>");
    html! { div.graph tabindex="0" { (PreEscaped(svg)) } }
}

/// The states of the nodes, for a drawing that is there already.
pub(crate) fn states(graph: &Graph) -> Markup {
    let pairs: Vec<String> =
        graph.nodes.iter().enumerate().map(|(place, node)| format!("n{place}={}", node.tone)).collect();
    html! { span hidden data-states=(pairs.join(" ")) {} }
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

/// The upper left corner of a node.
fn corner(placed: &Layout, node: usize) -> (i64, i64) {
    let (layer, half_rows) = placed.places[node];
    (MARGIN + count(layer) * (WIDTH + GAP_X), MARGIN + half_rows * (HEIGHT + GAP_Y) / 2)
}

fn draw_edges(svg: &mut String, placed: &Layout) {
    let (mut lines, mut tips) = (String::new(), String::new());
    for path in &placed.paths {
        for (place, pair) in path.windows(2).enumerate() {
            let (from, to) = (corner(placed, pair[0]), corner(placed, pair[1]));
            let (x0, y0) = (from.0 + WIDTH, from.1 + HEIGHT / 2);
            let (x1, y1) = (to.0, to.1 + HEIGHT / 2);
            let middle = i64::midpoint(x0, x1);
            if place == 0 {
                let _ = write!(lines, "M{x0} {y0}");
            } else {
                // Through a layer in between, straight.
                let _ = write!(lines, "H{x0}");
            }
            let _ = write!(lines, "C{middle} {y0} {middle} {y1} {x1} {y1}");
            if place + 2 == path.len() {
                let _ = write!(tips, "M{x1} {y1}l-7-4v8z");
            }
        }
    }
    let mut back = String::new();
    for (from, to) in &placed.back {
        let (from, to) = (corner(placed, *from), corner(placed, *to));
        let (x0, y0) = (from.0 + WIDTH / 2, from.1 + HEIGHT);
        let (x1, y1) = (to.0 + WIDTH / 2, to.1 + HEIGHT);
        let low = y0.max(y1) + HEIGHT;
        let _ = write!(back, "M{x0} {y0}C{x0} {low} {x1} {low} {x1} {y1}");
        let _ = write!(tips, "M{x1} {y1}l-4 7h8z");
    }
    let _ = write!(
        svg,
        "<path class=\"edges\" d=\"{lines}\"/><path class=\"edges back\" d=\"{back}\"/><path class=\"tips\" d=\"{tips}\"/>"
    );
}

fn draw_node(svg: &mut String, place: usize, node: &Node, (x, y): (i64, i64)) {
    let escaped = |text: &str| text.render().0;
    let label = escaped(&crate::parts::cut(&node.label, 22));
    let title = escaped(&format!("{} ({}): {}", crate::parts::cut(&node.label, 200), node.kind, node.state));
    let _ = write!(svg, "<a id=\"n{place}\" class=\"node {}\"", node.tone);
    if let Some(href) = &node.href {
        let _ = write!(svg, " href=\"{}\"", escaped(href));
    }
    let _ = write!(
        svg,
        "><title>{title}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>"
    );
    let kind = escaped(&crate::parts::cut(&node.kind, 26));
    let (left, upper, lower) = (x + 10, y + 18, y + 33);
    let _ = write!(
        svg,
        "<text x=\"{left}\" y=\"{upper}\">{label}</text><text x=\"{left}\" y=\"{lower}\" class=\"kind\">{kind}</text></a>"
    );
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
            href: Some(format!("/runs/r?node={place}")),
        };
        Graph { nodes: (0..nodes).map(node).collect(), edges: edges.to_vec() }
    }

    #[test]
    fn a_drawing_says_what_it_shows_and_escapes_it() {
        let mut hostile = graph(2, &[(0, 1)]);
        hostile.nodes[0].label = "<script>alert(1)</script>\"'&".to_owned();
        hostile.nodes[0].href = Some("/x?\"><script>".to_owned());
        let drawn = draw(&hostile).0;
        assert!(!drawn.contains("<script"), "{drawn}");
        assert!(
            drawn.contains("aria-label=\"Graph of 2 nodes\"")
                && drawn.contains("id=\"n1\" class=\"node good\"")
        );
    }

    #[test]
    fn a_thousand_nodes_fit_into_a_page() {
        let edges: Vec<(usize, usize)> = (1..1000).map(|node| ((node - 1) / 3, node)).collect();
        let drawn = draw(&graph(1000, &edges)).0;
        assert_eq!(drawn.matches("<rect").count(), 1000);
        assert!(drawn.len() < 400_000, "{}", drawn.len());
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        assert!(draw(&graph(MAX_NODES + 1, &[])).0.contains("more than can be drawn"));
        assert!(draw(&graph(0, &[])).0.contains("<svg"));
    }
}
