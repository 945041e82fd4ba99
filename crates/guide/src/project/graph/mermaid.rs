//! A run as Mermaid text, for documents that render it.

use std::fmt::Write as _;

use super::layout::Layout;
use super::{DRAWN_NODES, Labels, Look, caption, label, omission};
use crate::record::RunId;
use crate::state::SessionState;

const CLASSES: [&str; 5] = [
    "step fill:#e8f0fe,stroke:#3b6fb6,color:#1f2933",
    "checkpoint fill:#f3f4f6,stroke:#6b7280,color:#1f2933,stroke-dasharray:4 3",
    "blocked fill:#fdecea,stroke:#c0392b,color:#1f2933",
    "complete fill:#e6f4ea,stroke:#2e7d32,color:#1f2933",
    "tip stroke-width:3px",
];

/// The run as a Mermaid flowchart; `None` if the run does not exist.
pub fn to_mermaid(state: &SessionState, run_id: &RunId, labels: &Labels) -> Option<String> {
    let run = state.run(run_id)?;
    let layout = Layout::new(state, run, 0..DRAWN_NODES);
    let mut text = String::from("flowchart TD\n");
    for (at, position) in layout.positions.iter().enumerate() {
        let look = Look::of(state, position.node);
        let name = escape(&label(position.node, look, labels));
        let caption = escape(&caption(position.node, look, position.is_tip));
        let (open, close) = match look {
            Look::Step => ("[", "]"),
            Look::Checkpoint => ("([", "])"),
            Look::Blocked => ("{{", "}}"),
            Look::Complete => ("[[", "]]"),
        };
        let _ = writeln!(text, "    n{at}{open}\"{name}<br/>{caption}\"{close}:::{}", look.class());
        if let Some(parent) = position.parent {
            let arrow = match (look, position.node.is_fork()) {
                (Look::Checkpoint, _) => "-. checkpoint .->",
                (Look::Blocked, _) => "-. blocked .->",
                (_, true) => "-- fork -->",
                (_, false) if position.preferred => "==>",
                (_, false) => "-->",
            };
            let _ = writeln!(text, "    n{parent} {arrow} n{at}");
        }
        if position.is_tip {
            let _ = writeln!(text, "    class n{at} tip");
        }
    }
    if let Some(note) = omission(layout.omitted) {
        let _ = writeln!(text, "    note[\"{}\"]", escape(&note));
    }
    for class in CLASSES {
        let _ = writeln!(text, "    classDef {class}");
    }
    Some(text)
}

/// Escapes everything that could end the label or be read as markup, with Mermaid's own entities.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | ',' | '.' | '-' | '_' | '·' | '…' => {
                escaped.push(character);
            }
            character if character.is_alphabetic() => escaped.push(character),
            character => {
                let _ = write!(escaped, "#{};", u32::from(character));
            }
        }
    }
    escaped
}
