//! Removal of whole trees.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{Dir, Kind, Name};

/// A directory being removed.
struct Emptying {
    directory: Dir,
    /// Its remaining entries.
    names: Vec<(Name, Option<Kind>)>,
    /// Its name in the parent directory.
    name: OsString,
}

/// The maximum number of directories open at once, far below the usual limit of 1,024 handles.
const MAX_OPEN: usize = 64;

impl Dir {
    /// Removes an entry and everything below it. Succeeds if it does not exist.
    ///
    /// Read-only directories are made writable first. Memory and open handles do not grow with the depth: levels below
    /// 64 are moved up next to `path` and removed from there.
    ///
    /// # Errors
    /// System errors. The remaining entries still exist.
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (top, name) = match self.parent_of(path.as_ref()) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut waiting = vec![name.to_owned()];
        let mut moved = 0_u64;
        while let Some(name) = waiting.pop() {
            if let Some(deep) = top.remove_to_depth(&name, &mut moved)? {
                waiting.push(name);
                waiting.push(deep);
            }
        }
        Ok(())
    }

    /// Removes an entry down to [`MAX_OPEN`] levels. Deeper content is moved to the returned name, which must be
    /// removed before this is tried again.
    fn remove_to_depth(&self, name: &OsStr, moved: &mut u64) -> io::Result<Option<OsString>> {
        match self.remove_file(name) {
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => match self.stat(name)? {
                Some(stat) if stat.kind == Kind::Dir => {}
                _ => return Err(error),
            },
        }
        let mut open = vec![self.open_to_empty(name)?];
        loop {
            let depth = open.len();
            let Some(Emptying { directory, names, name }) = open.last_mut() else {
                return Ok(None);
            };
            let Some((child, kind)) = names.pop() else {
                let name = std::mem::take(name);
                open.pop();
                let parent = open.last().map_or(self, |above| &above.directory);
                gone(parent.remove_dir(&name))?;
                continue;
            };
            let is_dir = match kind {
                Some(kind) => kind == Kind::Dir,
                None => directory.stat(&child.0)?.is_some_and(|stat| stat.kind == Kind::Dir),
            };
            if !is_dir {
                gone(directory.remove_file(&child.0))?;
            } else if depth < MAX_OPEN {
                match directory.open_to_empty(&child.0) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => open.push(opened?),
                }
            } else {
                // Moving a directory requires write permission in it.
                directory.open_to_empty(&child.0)?;
                let shallow = loop {
                    *moved += 1;
                    let name = OsString::from(format!(".deep-{moved}"));
                    if self.stat(&name)?.is_none() {
                        break name;
                    }
                };
                directory.rename(&child.0, self, &shallow)?;
                return Ok(Some(shallow));
            }
        }
    }

    /// Opens a directory for removal and makes it writable if needed.
    fn open_to_empty(&self, name: &OsStr) -> io::Result<Emptying> {
        let directory = match self.open_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.set_mode(name, 0o700)?;
                self.open_dir(name)?
            }
            opened => opened?,
        };
        if directory.stat("")?.is_some_and(|stat| stat.mode & 0o700 != 0o700) {
            directory.set_mode("", 0o700)?;
        }
        let names = directory.names()?;
        Ok(Emptying { directory, names, name: name.to_owned() })
    }
}

/// A concurrent removal of the same tree is fine.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
