//! The picture as SVG, without scripts, fonts or external references.

use std::fmt::Write as _;

use super::{Drawn, Row, head, rows};
use crate::project::graph::escape_svg as escape;
use crate::workflow::compiled::CompiledWorkflow;

const WIDTH: usize = 560;
const MARGIN: usize = 20;
const HEAD: usize = 48;
const INDENT: usize = 28;
const LINE: usize = 16;
const GAP: usize = 26;
const PADDING: usize = 12;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2933}\
.head{font-size:15px;font-weight:600}\
.caption{font-size:11px;fill:#52606d}\
.box{fill:#e8f0fe;stroke:#3b6fb6;stroke-width:1.2}\
.person .box{fill:#fff4e5;stroke:#b26a00}\
.done .box{fill:#e6f4ea;stroke:#2e7d32}\
.conditional .box{stroke-dasharray:5 4}\
.loop{fill:none;stroke:#9aa5b1;stroke-width:1.2}\
.name{paint-order:stroke;stroke:#ffffff;stroke-width:6px}\
.edge{fill:none;stroke:#9aa5b1;stroke-width:1.4}";

/// The workflow as an SVG document.
pub fn to_svg(workflow: &CompiledWorkflow) -> String {
    let mut page =
        Page { body: String::new(), lines: String::new(), y: HEAD, depth: 0, last: None, loops: Vec::new() };
    page.tile("start", "done", &[]);
    for row in rows(workflow) {
        match row {
            Row::Step(step) => page.step(&step),
            Row::LoopBegins(found) => page.begin_loop(&found),
            Row::LoopEnds => page.end_loop(),
        }
    }
    page.tile("complete", "done", &[]);
    let height = page.y - GAP + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>{head}</title>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"head\" x=\"{MARGIN}\" y=\"28\">{head}</text>\n{}{}</svg>\n",
        page.lines,
        page.body,
        head = escape(&head(workflow)),
    )
}

struct Page {
    body: String,
    /// Frames of loops and edges, which are drawn first.
    lines: String,
    /// The y coordinate of the next box.
    y: usize,
    depth: usize,
    /// The middle of the lower edge of the previous box.
    last: Option<(usize, usize)>,
    /// Where the frames of open loops start.
    loops: Vec<usize>,
}

impl Page {
    fn left(&self) -> usize {
        MARGIN + self.depth * INDENT
    }

    /// The width of a box: frames get narrower with depth, and boxes are inside of all frames.
    fn width(&self) -> usize {
        WIDTH.saturating_sub(2 * self.left()).max(2 * INDENT)
    }

    fn step(&mut self, step: &Drawn) {
        let mut class = if step.asks_person { "person" } else { "step" }.to_owned();
        let mut captions = Vec::with_capacity(step.marks.len() + 1);
        if let Some(condition) = &step.condition {
            class.push_str(" conditional");
            captions.push(format!("only if {condition}"));
        }
        captions.extend(step.marks.iter().cloned());
        self.tile(&format!("{} · {}", step.id, step.title), &class, &captions);
    }

    fn tile(&mut self, title: &str, class: &str, captions: &[String]) {
        let (x, y, width) = (self.left(), self.y, self.width());
        let height = 2 * PADDING + LINE * (captions.len() + 1) - 4;
        let middle = x + width / 2;
        if let Some((from_x, from_y)) = self.last {
            let _ = writeln!(self.lines, "<path class=\"edge\" d=\"M{from_x} {from_y}V{y}\"/>");
        }
        let _ = write!(
            self.body,
            "<g class=\"{class}\"><rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
             <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            y + PADDING + 10,
            escape(title),
        );
        for (number, caption) in captions.iter().enumerate() {
            let _ = write!(
                self.body,
                "<text class=\"caption\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                y + PADDING + 10 + LINE * (number + 1),
                escape(caption),
            );
        }
        self.body.push_str("</g>\n");
        self.last = Some((middle, y + height));
        self.y = y + height + GAP;
    }

    fn begin_loop(&mut self, found: &Drawn) {
        // The frame starts in the gap, and its label is where the first box would be.
        let top = self.y - GAP / 2;
        self.loops.push(top);
        let x = self.left() + PADDING;
        let condition = found.condition.as_ref().map(|condition| format!(" · only if {condition}"));
        let words =
            format!("↻ {} · {}{}", found.title, found.marks.join(", "), condition.unwrap_or_default());
        let _ = writeln!(
            self.body,
            "<text class=\"caption name\" x=\"{x}\" y=\"{}\">{}</text>",
            top + LINE,
            escape(&words)
        );
        self.depth += 1;
        self.y += LINE;
    }

    fn end_loop(&mut self) {
        let Some(top) = self.loops.pop() else { return };
        self.depth = self.depth.saturating_sub(1);
        let bottom = self.y - GAP / 2;
        let (x, width) = (self.left(), self.width());
        let height = bottom.saturating_sub(top);
        let frame = format!(
            "<rect class=\"loop\" x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"10\"/>\n"
        );
        self.lines.insert_str(0, &frame);
        self.y += GAP / 2;
    }
}
