//! One digest for each mount and each slot, gathered from the lines of an index.

use std::collections::BTreeMap;

use super::{Line, LineKind, slot_of};
use crate::slot::Slot;

/// Gathers the digests of an index while its lines pass by.
///
/// The digest of a mount or of a slot is BLAKE3 over `path NUL kind NUL mode NUL hash LF` of its lines
/// in the order of the index, where the mode is four octal digits and the hash that of the line. Equal digests mean
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

/// What is in one mount or slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSummary {
    /// How many files and links.
    pub files: u64,
    /// How many bytes the files have.
    pub bytes: u64,
    /// The digest, 64 hexadecimal digits.
    pub digest: String,
}

/// What is in every mount and slot that has a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// By slot.
    pub slots: BTreeMap<Slot, TreeSummary>,
    /// By mount key.
    pub mounts: BTreeMap<String, TreeSummary>,
}

impl Digests {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line. Lines have to come in the order of the index.
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

    /// What was gathered.
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
