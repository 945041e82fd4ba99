//! The file system as the store sees it: a few operations, each a point where a machine can die.
//!
//! Everything the store promises about crashes is a promise about the order of these operations,
//! so they are a port. [`RealDisk`] carries them out; [`MemoryDisk`] keeps files for as long as the
//! process lives. `FaultyDisk`, which only tests are built with (feature `testing`), also keeps files in
//! memory, remembers what was synced, and dies before the n-th write, which lets a test enumerate
//! every crash instead of sampling a few.

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
/// * Paths are relative to the directory and never leave it; no symbolic link is followed.
/// * What is created is readable and writable by its owner alone.
/// * Content survives a power cut once its file was synced, a name once its directory was. Until
///   then each may survive or not, and appended bytes may survive in part or as NULs.
/// * A rename replaces its target in one step.
pub trait Disk: Debug + Send + Sync {
    /// Makes a directory; one that is there already is fine. Its parent must exist.
    ///
    /// # Errors
    /// Those of the system.
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()>;

    /// Writes a file from its start, replacing what it held. It is not synced yet.
    ///
    /// # Errors
    /// Those of the system; the file may then hold a part.
    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Adds to the end of a file, which is created if need be. It is not synced yet.
    ///
    /// # Errors
    /// Those of the system; a part may have been added.
    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Cuts a file to `len` bytes. It is not synced yet.
    ///
    /// # Errors
    /// Those of the system.
    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>>;

    /// Gives a file or a directory another name.
    ///
    /// # Errors
    /// Those of the system; a directory that is not empty is not replaced.
    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()>;

    /// Makes the content of a file durable, whoever wrote it.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_file(&self, file: &DiskPath) -> io::Result<()>;

    /// Makes the names in a directory durable. `None` is the root.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()>;

    /// Removes a file; one that is not there is fine.
    ///
    /// # Errors
    /// Those of the system.
    fn remove_file(&self, file: &DiskPath) -> io::Result<()>;

    /// Removes an empty directory; one that is not there is fine.
    ///
    /// # Errors
    /// Those of the system.
    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()>;

    /// The bytes of a file from `offset` on.
    ///
    /// # Errors
    /// Those of the system, and `FileTooLarge` when there are more than `max` of them.
    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>>;

    /// At most `len` bytes of a file from `offset` on; fewer at its end.
    ///
    /// # Errors
    /// Those of the system.
    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>>;

    /// What is at a path, if anything.
    ///
    /// # Errors
    /// Those of the system.
    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>>;

    /// The names in a directory, in no order; none if there is no such directory. Names that no
    /// [`DiskPath`] can hold are left out: the store never made them.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>>;

    /// Locks a file, which is created if need be, without waiting. `None`: somebody else has it.
    ///
    /// # Errors
    /// Those of the system.
    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>>;

    /// A number that no other live user of the directory has, for the names of temporary files.
    fn unique(&self) -> u64;

    /// Runs both, at the same time if that is worth anything here.
    ///
    /// Waiting for the disk twice at once takes little longer than waiting once.
    fn both(&self, left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
        left();
        right();
    }
}

/// A file whose last change may be lost.
pub trait Unsynced {
    /// Makes the content durable.
    ///
    /// # Errors
    /// Those of the system. The content may then be durable or not.
    fn sync(self: Box<Self>) -> io::Result<()>;
}

/// A held lock; dropping it lets go.
pub trait Lock: Debug + Send + Sync {}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Which sort of thing.
    pub kind: FileKind,
    /// How many bytes.
    pub len: u64,
    /// When it was last changed, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Tells a file from another that later has the same name.
    pub id: u64,
}

/// Which sort of thing is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    /// A directory.
    Dir,
    /// Neither: a link, a socket, and so on. The store never makes one.
    Other,
}

/// The whole of a file of at most `max` bytes; `None` if there is none.
///
/// # Errors
/// Those of [`Disk::read_from`], except that a missing file is none.
pub fn read(disk: &dyn Disk, file: &DiskPath, max: u64) -> io::Result<Option<Vec<u8>>> {
    match disk.read_from(file, 0, max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file so that its name only ever stands for the whole of it: a temporary file, synced,
/// renamed, and the directory synced. `dir` is where both are.
///
/// # Errors
/// Those of the operations; the temporary file is removed if that can still be done.
pub fn publish(disk: &dyn Disk, dir: &DiskPath, temporary: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, file) = (dir.join(temporary), dir.join(name));
    let published =
        disk.create(&temporary, bytes).and_then(Unsynced::sync).and_then(|()| disk.rename(&temporary, &file));
    if let Err(error) = published {
        // What is left of it takes up room on a disk that may be full. If this fails too, the next
        // collection takes it away.
        let _ = disk.remove_file(&temporary);
        return Err(error);
    }
    // Without this a power cut can keep the content and forget the name.
    disk.sync_dir(Some(dir))
}
