//! The operations on a real directory.
//!
//! Every path is resolved relative to an open handle of the root without following links. A user who can write to the
//! directory therefore cannot redirect writes of the store.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use disk::rooted::{Dir, FileLock, Kind};

use super::{Disk, DiskPath, FileKind, Lock, Sharing, Stat, Unsynced, path};

/// A directory on a file system.
#[derive(Debug)]
pub struct RealDisk {
    root: Dir,
    process: u64,
    counter: AtomicU64,
}

impl RealDisk {
    /// Opens a directory. Creates it and its ancestors if they do not exist.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(root: &Path) -> io::Result<Self> {
        if !root.is_dir() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        }
        Ok(Self::at(Dir::open_root(root)?))
    }

    /// Opens a directory below this one. Creates it and its ancestors if they do not exist. Links are not followed.
    ///
    /// # Errors
    /// I/O errors, and a component of the path that is not a directory.
    pub fn open_below(&self, dir: &DiskPath) -> io::Result<Self> {
        Ok(Self::at(self.root.open_or_make_dirs(dir.as_str())?.0))
    }

    fn at(root: Dir) -> Self {
        // Hashers have random keys in each process: a random number without a dependency.
        let process = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        Self { root, process, counter: AtomicU64::new(0) }
    }
}

struct Synced(File);

impl Unsynced for Synced {
    fn sync(self: Box<Self>) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Lock for FileLock {}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()> {
        match self.root.make_dir_masked(dir.as_str(), 0o700)? {
            true => Ok(()),
            false => self.root.open_dir(dir.as_str()).map(drop),
        }
    }

    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut open = self.root.open_truncated(file.as_str())?;
        open.write_all(bytes)?;
        Ok(Box::new(Synced(open)))
    }

    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut open = self.root.open_appending(file.as_str())?;
        open.write_all(bytes)?;
        Ok(Box::new(Synced(open)))
    }

    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>> {
        let open = self.root.open_writable(file.as_str())?;
        open.set_len(len)?;
        Ok(Box::new(Synced(open)))
    }

    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()> {
        self.root.rename(from.as_str(), &self.root, to.as_str())
    }

    fn sync_file(&self, file: &DiskPath) -> io::Result<()> {
        self.root.open_file(file.as_str())?.sync_all()
    }

    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()> {
        self.root.open_dir(dir.map_or("", DiskPath::as_str))?.sync()
    }

    fn remove_file(&self, file: &DiskPath) -> io::Result<()> {
        missing_is_fine(self.root.remove_file(file.as_str()))
    }

    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()> {
        missing_is_fine(self.root.remove_dir(dir.as_str()))
    }

    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut open = self.root.open_file(file.as_str())?;
        open.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        open.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>> {
        let (mut open, stat) = self.root.open_file_with_stat(file.as_str())?;
        let left = stat.size.saturating_sub(offset);
        if left > max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{left} bytes, and at most {max} are read"),
            ));
        }
        if offset > 0 {
            open.seek(SeekFrom::Start(offset))?;
        }
        // One byte of extra capacity: a read that fills the buffer would cause another read.
        let mut bytes = Vec::with_capacity(usize::try_from(left).unwrap_or_default() + 1);
        // The file may grow during the read. Bytes beyond the limit are read next time.
        open.take(max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>> {
        let found = self.root.stat(path.as_str())?;
        Ok(found.map(|stat| Stat {
            kind: match stat.kind {
                Kind::File => FileKind::File,
                Kind::Dir => FileKind::Dir,
                Kind::Link | Kind::Other => FileKind::Other,
            },
            len: stat.size,
            modified_ms: u64::try_from(stat.mtime_ms()).unwrap_or_default(),
            id: stat.ino,
        }))
    }

    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>> {
        let names = match self.root.open_dir(dir.as_str()).and_then(|dir| dir.names()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let names = names.into_iter().filter_map(|(name, _)| name.0.into_string().ok());
        Ok(names.filter(|name| path::is_name(name)).collect())
    }

    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>> {
        let lock = self.root.try_lock(file.as_str(), sharing)?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn Lock>))
    }

    fn unique(&self) -> u64 {
        self.process.wrapping_add(self.counter.fetch_add(1, Ordering::Relaxed))
    }

    fn both(&self, left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
        let overlapped = thread::scope(|scope| {
            let helper = thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, &mut *left);
            right();
            helper.is_ok()
        });
        // If no thread can be spawned, run them sequentially.
        if !overlapped {
            left();
        }
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
