//! Pack archives (`.tar.gz`): bounded reading, deterministic writing.
//!
//! [`Archive::read`] reads the bytes once. It holds the plain files in memory, at most [`Limits::unpacked_bytes`], so a
//! pack is validated completely before anything is written. Links, devices, absolute paths, `..`, duplicate names, and
//! names that differ only in case or Unicode normalization are rejected: packs do not need them, and each has been used
//! in attacks.

mod bounded;
mod read;
mod write;

use crate::path::EntryPath;
pub use read::ArchiveError;
pub use write::{WriteError, write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the archive, in bytes.
    pub packed_bytes: usize,
    /// Unpacked size including headers and padding, in bytes.
    pub unpacked_bytes: usize,
    /// Entries, including folders.
    pub entries: usize,
    /// The maximum compression ratio, not counting the first [`Limits::RATIO_FREE`] bytes.
    pub ratio: usize,
}

impl Limits {
    /// 50 MiB packed and unpacked, 10,000 entries, ratio 200.
    pub const DEFAULT: Self =
        Self { packed_bytes: 50 << 20, unpacked_bytes: 50 << 20, entries: 10_000, ratio: 200 };

    /// Small archives are mostly padding, which compresses well: these bytes do not count for the ratio.
    pub const RATIO_FREE: usize = 4 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: EntryPath,
    /// The executable bit. No other permission is read from an archive.
    pub executable: bool,
    start: usize,
    end: usize,
}

impl Entry {
    pub fn size(&self) -> usize {
        self.end - self.start
    }
}

/// The files of a pack. Folders are implied by file paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    entries: Vec<Entry>,
    contents: Vec<u8>,
}

impl Archive {
    /// The files in path order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn content(&self, entry: &Entry) -> &[u8] {
        self.contents.get(entry.start..entry.end).unwrap_or_default()
    }

    pub fn file(&self, path: &str) -> Option<&[u8]> {
        let path = EntryPath::parse(path).ok()?;
        self.file_at(&path)
    }

    pub fn file_at(&self, path: &EntryPath) -> Option<&[u8]> {
        let place = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        Some(self.content(&self.entries[place]))
    }
}
