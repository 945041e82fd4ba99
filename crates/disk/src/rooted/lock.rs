//! Operating system locks that end with their holder.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use rustix::fs;

use super::{Dir, Stat};

/// How often a lock is retried because its file was removed.
const ATTEMPTS: usize = 8;

/// Whether others may hold the same lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Others may share it.
    Shared,
    Exclusive,
}

/// A locked file. Dropping it unlocks it.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// The file, for a holder that writes its identity there.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child process between fork and exec also has the file open and would keep it locked.
        // If unlocking fails, closing is all that can be done.
        let _ = self.0.unlock();
    }
}

impl Dir {
    /// Locks a file exclusively; waits for the current holder. Created owner-only if it does not exist.
    ///
    /// # Errors
    /// Those of [`Dir::open_lock`], and `ResourceBusy` if the file is repeatedly removed.
    pub fn lock(&self, path: impl AsRef<Path>) -> io::Result<FileLock> {
        let path = path.as_ref();
        for _ in 0..ATTEMPTS {
            let file = self.open_lock(path)?;
            file.lock()?;
            if let Some(lock) = self.named(path, file)? {
                return Ok(lock);
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the lock file was removed repeatedly"))
    }

    /// Locks a file without waiting. `None` if another holder has it.
    ///
    /// # Errors
    /// Those of [`Dir::open_lock`].
    pub fn try_lock(&self, path: impl AsRef<Path>, sharing: Sharing) -> io::Result<Option<FileLock>> {
        let path = path.as_ref();
        for _ in 0..ATTEMPTS {
            let file = self.open_lock(path)?;
            let locked = match sharing {
                Sharing::Shared => file.try_lock_shared(),
                Sharing::Exclusive => file.try_lock(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if let Some(lock) = self.named(path, file)? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// The lock, if its file still has its name. It may have been removed between opening and locking, and a lock on an
    /// unlinked file excludes no one.
    fn named(&self, path: &Path, file: File) -> io::Result<Option<FileLock>> {
        let (locked, named) = (Stat::from(fs::fstat(&file)?), self.stat(path)?);
        let is_named = named.is_some_and(|named| (named.dev, named.ino) == (locked.dev, locked.ino));
        Ok(is_named.then(|| FileLock(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_holder_despite_a_child() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let lock = dir.lock("lock").unwrap();
        assert!(dir.try_lock("lock", Sharing::Shared).unwrap().is_none());
        // Like a child between fork and exec: another handle of the same open file.
        let _inherited = lock.file().try_clone().unwrap();
        drop(lock);
        let shared = dir.try_lock("lock", Sharing::Shared).unwrap().unwrap();
        assert!(dir.try_lock("lock", Sharing::Shared).unwrap().is_some());
        assert!(dir.try_lock("lock", Sharing::Exclusive).unwrap().is_none());
        drop(shared);
        assert!(dir.try_lock("lock", Sharing::Exclusive).unwrap().is_some());
    }

    #[test]
    fn a_lock_on_an_unlinked_file_is_invalid() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        let removed = dir.open_lock("lock").unwrap();
        dir.remove_file("lock").unwrap();
        assert!(dir.named(Path::new("lock"), removed.try_clone().unwrap()).unwrap().is_none());
        let _other = dir.lock("lock").unwrap();
        assert!(dir.named(Path::new("lock"), removed).unwrap().is_none());
    }
}
