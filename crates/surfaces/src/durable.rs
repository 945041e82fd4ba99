//! Files of the host's own, written so that they are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a folder and those above it, owner-only.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file beside its place, and moves it there once its bytes are on the disk. `beside` is a path of the same file system.
pub(crate) fn write_whole(beside: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    fs::rename(beside, path)?;
    sync_folder_of(path)
}

/// Makes sure that a name is on the disk.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
