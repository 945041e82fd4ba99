//! Atomic writes of host files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Creates a folder and its parents, owner-only.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file to `beside`, makes it durable, then renames it to `path`. Both must be on the same file system.
pub(crate) fn write_atomically(beside: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    fs::rename(beside, path)?;
    sync_folder_of(path)
}

/// Makes a directory entry durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
