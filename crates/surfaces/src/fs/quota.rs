//! How much a tenant's folder holds.
//!
//! The files are the truth: they are counted once, when the tenant first writes after a start, and from then on with every change. Nothing is
//! stored that could differ from them after a crash.

use std::io;

use super::Kind;
use super::beneath::Folder;
use super::path::MAX_SEGMENTS;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;

/// What there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Files and folders.
    pub(super) names: u64,
    pub(super) bytes: u64,
}

impl Held {
    /// Counts a folder. What is more than `most` names is not counted on: it is more than any bound allows.
    pub(super) fn count(folder: &Folder, most: u64) -> io::Result<Self> {
        let mut held = Self::default();
        // Paths and not handles: a folder may have more folders than a process may have handles.
        let mut paths = vec![(String::new(), 0)];
        while let Some((path, depth)) = paths.pop() {
            let folder = match folder.folder(&path) {
                // Somebody else removed it meanwhile.
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
                    // Deeper than any path can lead, nothing is looked at.
                    Kind::Folder if depth < MAX_SEGMENTS && path.is_empty() => paths.push((name, depth + 1)),
                    Kind::Folder if depth < MAX_SEGMENTS => paths.push((format!("{path}/{name}"), depth + 1)),
                    Kind::Folder | Kind::Other => {}
                }
            }
        }
        Ok(held)
    }

    /// Refuses a file that is one too many.
    pub(super) fn admit(self, limits: &Limits, names: u64, bytes: u64) -> Result<(), SurfaceError> {
        let fits = self.names.saturating_add(names) <= limits.files
            && self.bytes.saturating_add(bytes) <= limits.fs_bytes;
        if fits {
            return Ok(());
        }
        let (files, most) = (limits.files, limits.fs_bytes);
        let message = format!(
            "a tenant has at most {files} files and folders and {most} bytes of them; delete some first"
        );
        Err(SurfaceError::new(Code::FileTooLarge, message))
    }
}
