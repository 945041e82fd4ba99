//! The file system operations that the store uses. Each is a point where the machine can crash.
//!
//! The store's crash guarantees depend on the order of these operations, so they are a port. [`RealDisk`] uses the file
//! system. [`MemoryDisk`] keeps files in memory until the process exits. `FaultyDisk` (feature `testing`, only for tests)
//! also keeps files in memory, tracks what was synced, and crashes before the n-th write. A test can therefore enumerate
//! every crash point instead of sampling a few.

#[cfg(feature = "testing")]
mod faulty;
mod memory;
mod path;
mod real;

use std::fmt::Debug;
use std::io;

pub use disk::rooted::Sharing;
#[cfg(feature = "testing")]
pub use faulty::{Fault, FaultyDisk, Survival};
pub use memory::MemoryDisk;
pub use path::{DiskPath, DiskPathError};
pub use real::RealDisk;

/// A directory that the store owns, and the operations on it.
///
/// # Contract
/// * Paths are relative to the directory and never leave it. Symbolic links are not followed.
/// * Created files and directories are readable and writable by their owner alone.
/// * Content survives a power failure once its file was synced, a name once its directory was synced. Before that, each
///   may or may not survive, and appended bytes may survive in part or as NULs.
/// * A rename replaces its target atomically.
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory if it does not exist. Its parent must exist.
    ///
    /// # Errors
    /// I/O errors.
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()>;

    /// Creates a file, or replaces its content. The result is not synced yet.
    ///
    /// # Errors
    /// I/O errors. The file may then have partial content.
    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Appends to a file, which is created if it does not exist. The result is not synced yet.
    ///
    /// # Errors
    /// I/O errors. Some of the bytes may then have been appended.
    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Truncates a file to `len` bytes. The result is not synced yet.
    ///
    /// # Errors
    /// I/O errors.
    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Renames a file or a directory.
    ///
    /// # Errors
    /// I/O errors. A directory that is not empty is not replaced.
    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()>;

    /// Makes the content of a file durable, even if another process wrote it.
    ///
    /// # Errors
    /// I/O errors.
    fn sync_file(&self, file: &DiskPath) -> io::Result<()>;

    /// Makes the names in a directory durable. `None` is the root.
    ///
    /// # Errors
    /// I/O errors.
    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()>;

    /// Removes a file if it exists.
    ///
    /// # Errors
    /// I/O errors.
    fn remove_file(&self, file: &DiskPath) -> io::Result<()>;

    /// Removes an empty directory if it exists.
    ///
    /// # Errors
    /// I/O errors.
    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()>;

    /// Reads a file from `offset` to its end.
    ///
    /// # Errors
    /// I/O errors, and `FileTooLarge` if there are more than `max` bytes.
    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>>;

    /// Reads at most `len` bytes of a file from `offset`. Returns fewer at the end of the file.
    ///
    /// # Errors
    /// I/O errors.
    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>>;

    /// The metadata of a path. `None` if nothing exists there.
    ///
    /// # Errors
    /// I/O errors.
    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>>;

    /// The names in a directory, in no particular order. Empty if the directory does not exist. Names that are not valid
    /// in a [`DiskPath`] are left out, because the store never creates them.
    ///
    /// # Errors
    /// I/O errors.
    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>>;

    /// Locks a file without waiting. The file is created if it does not exist. Returns `None` if another holder has the
    /// lock.
    ///
    /// # Errors
    /// I/O errors.
    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>>;

    /// A number that no other live user of the directory has, for the names of temporary files.
    fn unique(&self) -> u64;

    /// Runs both closures, concurrently if that is faster.
    ///
    /// Two concurrent disk syncs take little longer than one.
    fn both(&self, left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
        left();
        right();
    }
}

/// A file whose last change is not durable yet.
pub trait Unsynced {
    /// Makes the content durable.
    ///
    /// # Errors
    /// I/O errors. The content may or may not be durable then.
    fn sync(self: Box<Self>) -> io::Result<()>;
}

/// A held lock. Dropping it releases the lock.
pub trait Lock: Debug + Send + Sync {}

/// The metadata of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub kind: FileKind,
    /// The size in bytes.
    pub len: u64,
    /// When it was last changed, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Distinguishes a file from a later file with the same name.
    pub id: u64,
}

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Dir,
    /// Anything else, such as a link or a socket. The store never creates these.
    Other,
}

/// Reads a whole file of at most `max` bytes. `None` if it does not exist.
///
/// # Errors
/// As [`Disk::read_from`], except for a missing file.
pub fn read(disk: &dyn Disk, file: &DiskPath, max: u64) -> io::Result<Option<Vec<u8>>> {
    match disk.read_from(file, 0, max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file atomically: writes and syncs a temporary file, renames it, and syncs the directory. Both files are in
/// `dir`.
///
/// # Errors
/// Those of the operations. The temporary file is removed if possible.
pub fn publish(disk: &dyn Disk, dir: &DiskPath, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, file) = (dir.join(temporary), dir.join(name));
    let published =
        disk.create(&temporary, bytes).and_then(Unsynced::sync).and_then(|()| disk.rename(&temporary, &file));
    if let Err(error) = published {
        // The temporary file uses space on a disk that may be full. If this fails too, the next garbage collection
        // removes it.
        let _ = disk.remove_file(&temporary);
        return Err(error);
    }
    // Without this sync, a power failure can keep the content and lose the name.
    disk.sync_dir(Some(dir))
}
