//! A run as SVG, without scripts, fonts or external references.

use std::fmt::Write as _;
use std::ops::Range;

use super::layout::{Layout, NodePosition};
use super::{DRAWN_NODES, Labels, Look, caption, label, omission};
use crate::project::run_status;
use crate::record::{NodeId, RunId};
use crate::state::SessionState;

const COLUMN: usize = 216;
const ROW: usize = 76;
const BOX_WIDTH: usize = 188;
const BOX_HEIGHT: usize = 46;
const MARGIN: usize = 20;
const HEAD: usize = 44;
/// The minimum width of a document, so that its heading fits.
const LEAST_WIDTH: usize = 480;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2933}\
.head{font-size:15px;font-weight:600}\
.caption{font-size:11px;fill:#52606d}\
.box{stroke-width:1.2}\
.step .box{fill:#e8f0fe;stroke:#3b6fb6}\
.checkpoint .box{fill:#f3f4f6;stroke:#6b7280;stroke-dasharray:4 3}\
.blocked .box{fill:#fdecea;stroke:#c0392b}\
.complete .box{fill:#e6f4ea;stroke:#2e7d32}\
.tip .box{stroke-width:3}\
.edge{fill:none;stroke:#9aa5b1;stroke-width:1.4}\
.preferred{stroke:#3b6fb6;stroke-width:2.4}\
.fork{stroke-dasharray:7 4}";

/// The run as an SVG document; `None` if the run does not exist.
pub fn to_svg(state: &SessionState, run_id: &RunId, labels: &Labels) -> Option<String> {
    let run = state.run(run_id)?;
    let layout = Layout::new(state, run, 0..DRAWN_NODES);
    let note = omission(layout.omitted);
    let width = (2 * MARGIN + layout.columns * COLUMN).max(LEAST_WIDTH);
    let height = HEAD + layout.rows * ROW + MARGIN + if note.is_some() { ROW } else { 0 };
    let head = format!("{} · {}", run.workflow_id, run_status(state, run).as_str());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{head}</title>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"26\">{head}</text>\n",
        head = escape(&head),
    );
    // Edges first, so that boxes cover them.
    for position in &layout.positions {
        if let Some(parent) = position.parent {
            edge(&mut svg, &layout.positions[parent], position, HEAD);
        }
    }
    for position in &layout.positions {
        node(&mut svg, state, position, labels, HEAD);
    }
    if let Some(note) = note {
        let y = height - ROW / 2;
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(&note));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Some nodes of a run as SVG for a page: those whose indexes in creation order are in `window`, each a link
/// to the result of `address`. It has no style and background, because the page has both. A node whose parent
/// is not drawn has a short line above it. `None` if the run does not exist.
pub fn to_svg_part(
    state: &SessionState,
    run_id: &RunId,
    labels: &Labels,
    window: Range<usize>,
    address: &dyn Fn(&NodeId) -> String,
) -> Option<String> {
    let run = state.run(run_id)?;
    let layout = Layout::new(state, run, window);
    let width = 2 * MARGIN + layout.columns.max(1) * COLUMN - (COLUMN - BOX_WIDTH);
    let height = 2 * MARGIN + layout.rows.max(1) * ROW - (ROW - BOX_HEIGHT);
    let mut svg = format!(
        "<svg class=\"session-graph\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"group\" aria-label=\"The nodes of the run, each a link\">\n"
    );
    for position in &layout.positions {
        match position.parent {
            Some(parent) => edge(&mut svg, &layout.positions[parent], position, MARGIN),
            None if position.node.parent.is_some() => {
                let (x, y) = corner(position, MARGIN);
                let middle = x + BOX_WIDTH / 2;
                let _ = writeln!(svg, "<path class=\"edge earlier\" d=\"M{middle} {}V{y}\"/>", y - MARGIN);
            }
            None => {}
        }
    }
    for position in &layout.positions {
        let _ = write!(svg, "<a href=\"{}\">", escape(&address(&position.node.id)));
        node(&mut svg, state, position, labels, MARGIN);
        svg.push_str("</a>");
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn corner(position: &NodePosition<'_>, head: usize) -> (usize, usize) {
    (MARGIN + position.column * COLUMN, head + position.row * ROW)
}

fn edge(svg: &mut String, parent: &NodePosition<'_>, position: &NodePosition<'_>, head: usize) {
    let (from_x, from_y) = corner(parent, head);
    let (to_x, to_y) = corner(position, head);
    let (from_x, from_y, to_x) = (from_x + BOX_WIDTH / 2, from_y + BOX_HEIGHT, to_x + BOX_WIDTH / 2);
    let half = from_y.midpoint(to_y);
    let preferred = if position.preferred { " preferred" } else { "" };
    let fork = if position.node.is_fork() { " fork" } else { "" };
    let _ = writeln!(
        svg,
        "<path class=\"edge{preferred}{fork}\" d=\"M{from_x} {from_y}C{from_x} {half} {to_x} {half} {to_x} {to_y}\"/>"
    );
}

fn node(svg: &mut String, state: &SessionState, position: &NodePosition<'_>, labels: &Labels, head: usize) {
    let look = Look::of(state, position.node);
    let (x, y) = corner(position, head);
    let radius = match look {
        Look::Checkpoint => BOX_HEIGHT / 2,
        Look::Step | Look::Blocked | Look::Complete => 6,
    };
    let tip = if position.is_tip { " tip" } else { "" };
    let middle = x + BOX_WIDTH / 2;
    let _ = writeln!(
        svg,
        "<g class=\"{class}{tip}\"><title>{id}</title>\
         <rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\"/>\
         <text x=\"{middle}\" y=\"{first}\" text-anchor=\"middle\">{label}</text>\
         <text class=\"caption\" x=\"{middle}\" y=\"{second}\" text-anchor=\"middle\">{caption}</text></g>",
        class = look.class(),
        id = escape(position.node.id.as_str()),
        first = y + 20,
        second = y + 36,
        label = escape(&label(position.node, look, labels)),
        caption = escape(&caption(position.node, look, position.is_tip)),
    );
}

/// Escapes XML markup, and replaces characters that XML does not allow.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character if character.is_control() => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}
