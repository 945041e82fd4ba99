//! A run as SVG: no script, no font to load, nothing from outside.

use std::fmt::Write as _;
use std::ops::Range;

use super::layout::{Layout, Place};
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
/// A page is wide enough for its head, however narrow the run is.
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

/// The run as an SVG document; nothing for a run that is not there.
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
    // Edges first: boxes lie over them.
    for place in &layout.places {
        if let Some(parent) = place.parent {
            edge(&mut svg, &layout.places[parent], place, HEAD);
        }
    }
    for place in &layout.places {
        node(&mut svg, state, place, labels, HEAD);
    }
    if let Some(note) = note {
        let y = height - ROW / 2;
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", escape(&note));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Some nodes of a run as SVG for a page: those whose places in the order of making are in `window`, each a link to
/// where `address` says. It has no style and no background of its own, because the page has both; a node whose
/// parent is not drawn hangs on a short line. Nothing for a run that is not there.
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
    for place in &layout.places {
        match place.parent {
            Some(parent) => edge(&mut svg, &layout.places[parent], place, MARGIN),
            None if place.node.parent.is_some() => {
                let (x, y) = corner(place, MARGIN);
                let middle = x + BOX_WIDTH / 2;
                let _ = writeln!(svg, "<path class=\"edge earlier\" d=\"M{middle} {}V{y}\"/>", y - MARGIN);
            }
            None => {}
        }
    }
    for place in &layout.places {
        let _ = write!(svg, "<a href=\"{}\">", escape(&address(&place.node.id)));
        node(&mut svg, state, place, labels, MARGIN);
        svg.push_str("</a>");
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn corner(place: &Place<'_>, head: usize) -> (usize, usize) {
    (MARGIN + place.column * COLUMN, head + place.row * ROW)
}

fn edge(svg: &mut String, parent: &Place<'_>, place: &Place<'_>, head: usize) {
    let (from_x, from_y) = corner(parent, head);
    let (to_x, to_y) = corner(place, head);
    let (from_x, from_y, to_x) = (from_x + BOX_WIDTH / 2, from_y + BOX_HEIGHT, to_x + BOX_WIDTH / 2);
    let half = from_y.midpoint(to_y);
    let preferred = if place.preferred { " preferred" } else { "" };
    let fork = if place.node.is_fork() { " fork" } else { "" };
    let _ = writeln!(
        svg,
        "<path class=\"edge{preferred}{fork}\" d=\"M{from_x} {from_y}C{from_x} {half} {to_x} {half} {to_x} {to_y}\"/>"
    );
}

fn node(svg: &mut String, state: &SessionState, place: &Place<'_>, labels: &Labels, head: usize) {
    let look = Look::of(state, place.node);
    let (x, y) = corner(place, head);
    let radius = match look {
        Look::Checkpoint => BOX_HEIGHT / 2,
        Look::Step | Look::Blocked | Look::Complete => 6,
    };
    let tip = if place.is_tip { " tip" } else { "" };
    let middle = x + BOX_WIDTH / 2;
    let _ = writeln!(
        svg,
        "<g class=\"{class}{tip}\"><title>{id}</title>\
         <rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\"/>\
         <text x=\"{middle}\" y=\"{first}\" text-anchor=\"middle\">{label}</text>\
         <text class=\"caption\" x=\"{middle}\" y=\"{second}\" text-anchor=\"middle\">{caption}</text></g>",
        class = look.class(),
        id = escape(place.node.id.as_str()),
        first = y + 20,
        second = y + 36,
        label = escape(&label(place.node, look, labels)),
        caption = escape(&caption(place.node, look, place.is_tip)),
    );
}

/// Text that is text in XML: markup is escaped, and what XML cannot hold is replaced.
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
