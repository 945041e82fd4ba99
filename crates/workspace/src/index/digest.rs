//! Digests of mounts and slots, computed from the index lines.

use std::collections::BTreeMap;

use super::{Line, LineKind, slot_of};
use crate::slot::Slot;

/// Computes the digests while the lines pass by.
///
/// The digest of a mount or slot is BLAKE3 over `path NUL kind NUL mode NUL hash LF` of its lines
/// in index order, with the mode as four octal digits and the hash of the line. Equal digests mean
/// equal trees; times and inode numbers do not count.
#[derive(Debug, Default)]
pub struct Digests {
    slots: BTreeMap<Slot, Tree>,
    mounts: BTreeMap<String, Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    files: u64,
    bytes: u64,
    hasher: blake3::Hasher,
}

/// The contents of one mount or slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSummary {
    pub files: u64,
    pub bytes: u64,
    /// The digest, 64 hexadecimal digits.
    pub digest: String,
}

/// The contents of every mount and slot with a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub slots: BTreeMap<Slot, TreeSummary>,
    pub mounts: BTreeMap<String, TreeSummary>,
}

impl Digests {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line. Lines must be in index order.
    pub fn add(&mut self, line: &Line) {
        if let Some(slot) = slot_of(&line.path) {
            self.slots.entry(slot).or_default().add(line);
        }
        if let Some(key) = &line.mount_key {
            if let Some(mount) = self.mounts.get_mut(key) {
                mount.add(line);
            } else {
                self.mounts.entry(key.clone()).or_default().add(line);
            }
        }
    }

    pub fn finish(self) -> Summary {
        Summary {
            slots: self.slots.into_iter().map(|(slot, tree)| (slot, tree.finish())).collect(),
            mounts: self.mounts.into_iter().map(|(key, tree)| (key, tree.finish())).collect(),
        }
    }
}

impl Tree {
    fn add(&mut self, line: &Line) {
        if line.kind != LineKind::Dir {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(line.size);
        }
        let Line { path, kind, mode, blake3, .. } = line;
        let kind = kind.as_str();
        self.hasher.update(format!("{path}\0{kind}\0{mode:04o}\0{blake3}\n").as_bytes());
    }

    fn finish(self) -> TreeSummary {
        TreeSummary {
            files: self.files,
            bytes: self.bytes,
            digest: self.hasher.finalize().to_hex().to_string(),
        }
    }
}
