//! The picture as text, for a terminal.

use std::fmt::Write as _;

use super::{Drawn, Row, head, rows};
use crate::workflow::compiled::CompiledWorkflow;

/// The workflow as lines of text.
///
/// ```text
/// project.release · Release
///
/// ● understand  Understand the task
/// │   notes are checked
/// ↻ passes  Work in passes
/// │   until wr.contracts.loop_control says stop, at most 5
/// │ ● work  Do the next part
/// ◆ publish  Publish it
/// │   only if kind is release
/// │   a person approves
/// ■
/// ```
pub fn to_text(workflow: &CompiledWorkflow) -> String {
    let mut text = format!("{}\n\n", head(workflow));
    let mut depth = 0;
    for row in rows(workflow) {
        match row {
            Row::Step(step) => {
                let sign = if step.asks_person { '◆' } else { '●' };
                line(&mut text, depth, sign, &step);
            }
            Row::LoopBegins(found) => {
                line(&mut text, depth, '↻', &found);
                depth += 1;
            }
            Row::LoopEnds => depth = depth.saturating_sub(1),
        }
    }
    text.push_str("■\n");
    text
}

fn line(text: &mut String, depth: usize, sign: char, drawn: &Drawn) {
    let rail = "│ ".repeat(depth);
    let _ = writeln!(text, "{rail}{sign} {}  {}", drawn.id, drawn.title);
    let condition = drawn.condition.iter().map(|condition| format!("only if {condition}"));
    for mark in condition.chain(drawn.marks.iter().cloned()) {
        let _ = writeln!(text, "{rail}│   {mark}");
    }
}
