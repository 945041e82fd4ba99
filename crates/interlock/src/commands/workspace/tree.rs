//! Draws the tree of a plan.

use std::collections::BTreeMap;

use workspace::compose::tree::{Node, tree};
use workspace::plan::MountPlan;
use workspace::slot::{Mode, WORKSPACE};

use crate::output::{Cell, DIM, GOOD, Table};

/// The depth limit of the drawing. A plan is shown as composed, and an invalid one may have paths
/// with thousands of segments; deeper paths are shown on one line.
const MAX_DEPTH: usize = 16;

/// A node of the tree with its mounts.
#[derive(Default)]
struct TreeNode {
    children: BTreeMap<String, usize>,
    mounts: Vec<Node>,
}

/// The tree as a table: path, access, source.
pub(super) fn of(plan: &MountPlan) -> Table {
    let mut places = vec![TreeNode::default()];
    for node in tree(plan) {
        let mut place = 0;
        for segment in segments(&node.path) {
            place = match places[place].children.get(segment) {
                Some(known) => *known,
                None => {
                    places.push(TreeNode::default());
                    let new = places.len() - 1;
                    places[place].children.insert(segment.to_owned(), new);
                    new
                }
            };
        }
        places[place].mounts.push(node);
    }
    draw(&places)
}

/// The segments of a path. A folder keeps its `/`, so that it differs from a file of the same name.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.splitn(MAX_DEPTH, '/').filter(|segment| !segment.is_empty())
}

fn draw(places: &[TreeNode]) -> Table {
    let mut table = Table::new(&[WORKSPACE, "mode", "source", "mount"]);
    // Pending nodes, with the lines to their left and whether each is the last of its folder.
    let children = |place: usize, indent: &str| {
        let last = places[place].children.len().saturating_sub(1);
        let in_order = places[place].children.iter().enumerate();
        let mut waiting: Vec<(String, String, bool, usize)> = in_order
            .map(|(number, (name, child))| (name.clone(), indent.to_owned(), number == last, *child))
            .collect();
        waiting.reverse();
        waiting
    };
    let mut waiting = children(0, "");
    while let Some((name, indent, is_last, place)) = waiting.pop() {
        let is_folder = !places[place].children.is_empty() || places[place].mounts.iter().any(is_tree);
        let branch = if is_last { "└── " } else { "├── " };
        let mut label = format!("{indent}{branch}{name}{}", if is_folder { "/" } else { "" });
        if places[place].mounts.is_empty() {
            table.row([label.as_str().into()]);
        }
        for mount in &places[place].mounts {
            table.row(row(&label, mount));
            // Several mounts can fill one folder.
            label = format!("{indent}{}", if is_last { "" } else { "│" });
        }
        let below = format!("{indent}{}", if is_last { "    " } else { "│   " });
        waiting.extend(children(place, &below));
    }
    table
}

fn is_tree(mount: &Node) -> bool {
    mount.path.ends_with('/')
}

fn row(label: &str, mount: &Node) -> Vec<Cell> {
    let mode = match mount.mode {
        Mode::ReadOnly => Cell::from(Mode::ReadOnly.as_str()),
        Mode::ReadWrite => Cell::styled(Mode::ReadWrite.as_str(), GOOD),
    };
    let source = match mount.kind {
        Some(kind) => Cell::from(kind.as_str()),
        None => Cell::styled("empty", DIM),
    };
    let mut row = vec![label.into(), mode, source];
    row.extend(mount.mount_key.as_ref().map(Cell::from));
    row
}
