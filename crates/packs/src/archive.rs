//! Archives of packs: gzip of tar, read with bounds on everything and written in one way only.
//!
//! [`Archive::read`] goes through the bytes once. It holds the contents of plain files in memory, at most
//! [`Limits::unpacked_bytes`] of them, so that whoever judges a pack has all of it before anything is written anywhere. Links,
//! devices, absolute paths, `..`, names that stand twice, and names that differ only in case or Unicode form
//! are refused: none of them has a place in a pack, and each has been used to write where it should not.

mod bounded;
mod read;
mod write;

use crate::path::EntryPath;
pub use read::ArchiveError;
pub use write::{WriteError, write};

/// What is accepted of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of the archive itself.
    pub packed_bytes: usize,
    /// The most bytes when unpacked, headers and padding included.
    pub unpacked_bytes: usize,
    /// The most entries, folders included.
    pub entries: usize,
    /// How many times larger the unpacked bytes may be than the packed ones, [`Limits::RATIO_FREE`] bytes aside.
    pub ratio: usize,
}

impl Limits {
    /// 50 MiB packed and unpacked, 10,000 entries, 200 to 1.
    pub const DEFAULT: Self =
        Self { packed_bytes: 50 << 20, unpacked_bytes: 50 << 20, entries: 10_000, ratio: 200 };

    /// Small archives are mostly padding, which packs well: so much is free of the ratio.
    pub const RATIO_FREE: usize = 4 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: EntryPath,
    /// Whether somebody may run it. No other right is taken from an archive.
    pub executable: bool,
    start: usize,
    end: usize,
}

impl Entry {
    /// The size of the file.
    pub fn size(&self) -> usize {
        self.end - self.start
    }
}

/// The files of a pack. Folders are those above files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    entries: Vec<Entry>,
    contents: Vec<u8>,
}

impl Archive {
    /// The files, in the order of their paths.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The content of one of them.
    pub fn content(&self, entry: &Entry) -> &[u8] {
        self.contents.get(entry.start..entry.end).unwrap_or_default()
    }

    /// The content of the file at this path.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        let path = EntryPath::parse(path).ok()?;
        self.file_at(&path)
    }

    /// The content of the file at this path.
    pub fn file_at(&self, path: &EntryPath) -> Option<&[u8]> {
        let place = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        Some(self.content(&self.entries[place]))
    }
}
