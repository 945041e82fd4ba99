//! Folders of packs and registries: single names below an open directory, no links.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use disk::rooted::{Dir, FileLock, Gate, Sharing};

use crate::path::EntryPath;

#[derive(Debug)]
pub(crate) struct Folder(Dir);

impl Folder {
    /// Opens the folder at a path and creates it and its parents if needed.
    pub(crate) fn open_root(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self(Dir::open_root(path)?))
    }

    /// The same folder with a test gate, inherited by every folder opened from it.
    pub(crate) fn gated(self, gate: Arc<dyn Gate>) -> Self {
        Self(self.0.gated(gate))
    }

    /// Opens a subfolder.
    pub(crate) fn open(&self, name: &str) -> io::Result<Self> {
        Ok(Self(self.0.open_dir(segment(name)?)?))
    }

    /// Opens a subfolder and creates it if needed. Returns whether it was created.
    pub(crate) fn open_or_make(&self, name: &str) -> io::Result<(Self, bool)> {
        let is_made = self.0.make_dir_masked(segment(name)?, 0o755)?;
        Ok((self.open(name)?, is_made))
    }

    /// Creates a new file with this content, without sync.
    pub(crate) fn create(&self, name: &str, content: &[u8], executable: bool) -> io::Result<()> {
        let mode = if executable { 0o755 } else { 0o644 };
        self.0.create_unfinished(segment(name)?, mode)?.write_all(content)
    }

    /// Atomically and durably replaces a file.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{}.new", segment(name)?);
        match self.0.remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.0.create_unfinished(&new, 0o644)?;
        file.write_all(content)?;
        self.0.sync_file(&file)?;
        self.0.rename(&new, &self.0, name)?;
        self.0.sync()
    }

    /// The content of a file of at most `most` bytes, if it exists.
    pub(crate) fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        self.read_below(segment(name)?, most)
    }

    /// The content of a file at a path in a pack.
    pub(crate) fn read_path(&self, path: &EntryPath, most: usize) -> io::Result<Option<Vec<u8>>> {
        self.read_below(path.as_str(), most)
    }

    fn read_below(&self, path: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        match self.0.read(path, most as u64) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            content => content.map(Some),
        }
    }

    /// The names in this folder, sorted. Names that are not UTF-8 are skipped: they were not created here.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.names()?.into_iter().filter_map(|(name, _)| name.0.into_string().ok()).collect())
    }

    /// Whether the name exists.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        Ok(self.0.stat(segment(name)?)?.is_some())
    }

    /// Moves an entry to a new name in another folder.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        self.0.rename_new(segment(name)?, &to.0, segment(new)?)
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.0.remove_file(segment(name)?)
    }

    /// Removes an empty subfolder.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.0.remove_dir(segment(name)?)
    }

    /// Removes a subfolder and its content. Succeeds if it does not exist.
    pub(crate) fn remove_tree(&self, name: &str) -> io::Result<()> {
        self.0.remove_tree(segment(name)?)
    }

    /// Makes the names in this folder durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    /// Makes everything on this file system durable.
    pub(crate) fn sync_file_system(&self) -> io::Result<()> {
        self.0.sync_file_system()
    }

    /// Locks the writer lock file; waits for the process that holds it.
    pub(crate) fn lock(&self, name: &str) -> io::Result<FileLock> {
        self.0.lock(segment(name)?)
    }

    /// As [`Folder::lock`], without waiting.
    pub(crate) fn try_lock(&self, name: &str) -> io::Result<FileLock> {
        let lock = self.0.try_lock(segment(name)?, Sharing::Exclusive)?;
        lock.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process is writing to \
            this folder",
            )
        })
    }
}

/// Checks that a name stays in its folder.
fn segment(name: &str) -> io::Result<&str> {
    if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a valid file name"));
    }
    Ok(name)
}
