//! The tree of a plan, for display.

use crate::plan::{MountPlan, SourceKind};
use crate::slot::{Mode, Slot, WORKSPACE};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The path below the workspace; a folder of unknown content ends with `/`.
    pub path: String,
    pub mode: Mode,
    /// The source; `None` for an empty slot.
    pub kind: Option<SourceKind>,
    /// The mount key; `None` for an empty slot.
    pub mount_key: Option<String>,
}

/// All mounts and empty slots of a plan, by path.
///
/// The plan is shown as composed, including invalid parts.
pub fn tree(plan: &MountPlan) -> Vec<Node> {
    let mut nodes: Vec<Node> = plan
        .entries
        .iter()
        .map(|entry| {
            let slot = entry.slot.strip_prefix(WORKSPACE).unwrap_or(&entry.slot).trim_start_matches('/');
            let kind = entry.source.kind();
            let mut path = slot.to_owned();
            if !entry.rel_path.is_empty() {
                path = path + "/" + &entry.rel_path;
            }
            if kind.is_tree() {
                path.push('/');
            }
            Node { path, mode: entry.mode, kind: Some(kind), mount_key: Some(entry.mount_key.clone()) }
        })
        .collect();
    for (slot, mode) in granted(plan) {
        if !plan.entries.iter().any(|entry| Slot::from_path(&entry.slot) == Some(slot)) {
            let path = format!("{}/", slot.relative());
            nodes.push(Node { path, mode, kind: None, mount_key: None });
        }
    }
    nodes.sort();
    nodes
}

fn granted(plan: &MountPlan) -> impl Iterator<Item = (Slot, Mode)> {
    let params = plan.entries.iter().find_map(|entry| match &entry.source {
        crate::plan::Source::RenderedAgentsMd(params) => Some(params),
        _ => None,
    });
    let mounts = params.map_or(&[][..], |params| params.mounts.as_slice());
    mounts.iter().filter_map(|mount| Some((Slot::from_path(&mount.mount)?, mount.mode)))
}
