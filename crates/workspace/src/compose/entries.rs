//! The list of mounts of a plan.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Error;
use crate::plan::validate::MAX_ENTRIES;
use crate::plan::{Entry, Source};
use crate::slot::{Mode, Slot, WORKSPACE};

/// Entries in plan order.
#[derive(Debug)]
pub(super) struct Entries {
    list: Vec<Entry>,
}

impl Entries {
    /// An empty list with a capacity.
    pub(super) fn with_room_for(expected: usize) -> Self {
        Self { list: Vec::with_capacity(expected.min(MAX_ENTRIES)) }
    }

    /// Adds a mount.
    ///
    /// # Errors
    /// If there are more than a valid plan may have. This bounds the memory that a request can use.
    pub(super) fn add(
        &mut self,
        slot: Slot,
        rel_path: impl Into<String>,
        mode: Mode,
        mount_key: impl Into<String>,
        source: Source,
    ) -> Result<(), Error> {
        if self.list.len() == MAX_ENTRIES {
            return Err(Error::limit("entries of a plan", MAX_ENTRIES as u64, MAX_ENTRIES as u64 + 1));
        }
        let slot = [WORKSPACE, "/", slot.relative()].concat();
        self.list.push(Entry { mount_key: mount_key.into(), slot, rel_path: rel_path.into(), mode, source });
        Ok(())
    }

    pub(super) fn into_list(self) -> Vec<Entry> {
        self.list
    }
}

/// A literal source in base64.
pub(super) fn literal(path_within_workspace: impl Into<String>, bytes: impl Into<String>) -> Source {
    Source::StaticLiteral { path_within_workspace: path_within_workspace.into(), bytes: bytes.into() }
}

/// Padded base64 of a string.
pub(super) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Unique strings in order of first occurrence.
pub(super) fn first_occurrences<'a>(mut texts: Vec<&'a str>) -> Vec<&'a str> {
    // Most lists are short, and comparing a few strings is faster than hashing them.
    const FEW: usize = 8;
    if texts.len() <= FEW {
        let mut kept = 0;
        for index in 0..texts.len() {
            if !texts[..kept].contains(&texts[index]) {
                texts[kept] = texts[index];
                kept += 1;
            }
        }
        texts.truncate(kept);
        return texts;
    }
    let mut seen: HashSet<&'a str> = HashSet::with_capacity(texts.len());
    texts.retain(|text| seen.insert(text));
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_occurrences_keep_their_order() {
        for repeats in [1, 2, 10] {
            let texts: Vec<&str> = ["b", "a", "b", "c", "a"].repeat(repeats);
            assert_eq!(first_occurrences(texts), ["b", "a", "c"], "{repeats} times");
        }
        assert_eq!(first_occurrences(Vec::new()), [""; 0]);
    }
}
