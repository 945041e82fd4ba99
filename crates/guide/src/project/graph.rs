//! Draws a run: forks, blocked attempts, checkpoints and the preferred tip.
//!
//! A run is mostly a chain with few branches, so the layout is simple: a row per depth, a column per branch,
//! and the path to the preferred tip in the first column. The same run produces the same bytes.

mod layout;
mod mermaid;
mod svg;

use std::collections::BTreeMap;

use crate::record::{NodeId, NodeKind};
use crate::state::{Node, SessionState};

use super::is_complete;

pub(crate) use mermaid::escape as escape_mermaid;
pub use mermaid::to_mermaid;
pub(crate) use svg::escape as escape_svg;
pub use svg::{to_svg, to_svg_part};

/// The maximum number of nodes drawn. The first ones are drawn, so that no node lacks its parent; the picture
/// says how many are missing.
pub const DRAWN_NODES: usize = 2000;

/// Names of nodes, such as the titles of their steps. A node without a name is shown with the number of its
/// step.
pub type Labels = BTreeMap<NodeId, String>;

/// The maximum number of characters drawn of a name.
const LABEL_CHARACTERS: usize = 24;

/// How a node is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Step,
    Checkpoint,
    Blocked,
    Complete,
}

impl Look {
    fn of(state: &SessionState, node: &Node) -> Self {
        match node.kind {
            NodeKind::Checkpoint => Self::Checkpoint,
            NodeKind::BlockedAttempt => Self::Blocked,
            NodeKind::Step if is_complete(state, node) => Self::Complete,
            NodeKind::Step => Self::Step,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Checkpoint => "checkpoint",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
        }
    }
}

/// The first line of a node: its name, truncated.
fn label(node: &Node, look: Look, labels: &Labels) -> String {
    let Some(name) = labels.get(&node.id) else {
        return match look {
            Look::Step => format!("Step {}", node.step_ordinal),
            Look::Checkpoint => format!("Checkpoint at step {}", node.step_ordinal),
            Look::Blocked => format!("Step {}, blocked", node.step_ordinal),
            Look::Complete => "Complete".to_owned(),
        };
    };
    let clean = name.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut drawn: String = clean.clone().take(LABEL_CHARACTERS).collect();
    if clean.count() > LABEL_CHARACTERS {
        drawn.pop();
        drawn.push('…');
    }
    drawn
}

/// The second line of a node: its kind and the end of its id.
fn caption(node: &Node, look: Look, is_tip: bool) -> String {
    let id = node.id.as_str();
    // Ids are ASCII, so any byte is a boundary.
    let end = &id[id.len().saturating_sub(6)..];
    let tip = if is_tip { " · tip" } else { "" };
    format!("{} · {end}{tip}", look.class())
}

/// The note about nodes that are not drawn.
fn omission(omitted: usize) -> Option<String> {
    (omitted > 0).then(|| format!("{omitted} later nodes are not drawn; the limit is {DRAWN_NODES}"))
}

#[cfg(test)]
mod tests;
