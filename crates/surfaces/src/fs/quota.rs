//! Usage of a tenant's folder.
//!
//! The files are counted when the tenant first writes after a start, and updated with every change. Nothing is stored
//! that could differ from the files after a crash.

use std::io;

use super::Kind;
use super::path::MAX_SEGMENTS;
use super::tenant_folder::Folder;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderUsage {
    /// Files and folders.
    pub(super) names: u64,
    pub(super) bytes: u64,
}

impl FolderUsage {
    /// Counts a folder, up to `most` names: more exceeds every limit anyway.
    pub(super) fn count(folder: &Folder, most: u64) -> io::Result<Self> {
        let mut held = Self::default();
        // Paths instead of handles: a folder may have more subfolders than a process may open.
        let mut paths = vec![(String::new(), 0)];
        while let Some((path, depth)) = paths.pop() {
            let folder = match folder.folder(&path) {
                // Removed in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                folder => folder?,
            };
            for (name, kind) in folder.names(usize::MAX)? {
                held.names += 1;
                if held.names > most {
                    return Ok(held);
                }
                match kind {
                    Kind::File => held.bytes += folder.stat(&name)?.map_or(0, |stat| stat.size),
                    // Entries deeper than any valid path are not counted.
                    Kind::Folder if depth < MAX_SEGMENTS && path.is_empty() => paths.push((name, depth + 1)),
                    Kind::Folder if depth < MAX_SEGMENTS => paths.push((format!("{path}/{name}"), depth + 1)),
                    Kind::Folder | Kind::Other => {}
                }
            }
        }
        Ok(held)
    }

    /// Checks the quota for more files.
    pub(super) fn admit(self, limits: &Limits, names: u64, bytes: u64) -> Result<(), SurfaceError> {
        let fits = self.names.saturating_add(names) <= limits.files
            && self.bytes.saturating_add(bytes) <= limits.fs_bytes;
        if fits {
            return Ok(());
        }
        let (files, most) = (limits.files, limits.fs_bytes);
        let message = format!(
            "the tenant's quota is {files} files and folders and {most} bytes; delete some files first"
        );
        Err(SurfaceError::new(Code::FileTooLarge, message))
    }
}
