//! The operations on a real directory.
//!
//! Every path is walked from an open handle of the root, one name at a time and without following
//! links, so that nobody who can write into the directory can make the store write elsewhere.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::{self, AtFlags, Mode, OFlags};

use super::{Disk, DiskPath, FileKind, Lock, Sharing, Stat, Unsynced, path};

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;
/// How often a lock is tried again because its file was removed meanwhile.
const LOCK_ATTEMPTS: usize = 8;

/// A directory on a file system.
#[derive(Debug)]
pub struct RealDisk {
    root: OwnedFd,
    process: u64,
    counter: AtomicU64,
}

impl RealDisk {
    /// Opens a directory, which is made if it does not exist, together with those above it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(root: &Path) -> io::Result<Self> {
        if !root.is_dir() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        }
        let root = fs::open(root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::at(root))
    }

    /// Opens a directory below this one, which is made if it does not exist, together with those above it. No link is followed.
    ///
    /// # Errors
    /// Those of the system, and something that is no directory on the way.
    pub fn open_below(&self, dir: &DiskPath) -> io::Result<Self> {
        let mut made = String::new();
        for name in dir.as_str().split('/') {
            let parent = (!made.is_empty()).then_some(made.as_str());
            match fs::mkdirat(self.dir(parent)?, name, DIR_MODE) {
                Ok(()) => fs::fsync(self.dir(parent)?)?,
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            made = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"));
        }
        Ok(Self::at(self.dir(Some(dir.as_str()))?))
    }

    fn at(root: OwnedFd) -> Self {
        // Each process has other keys in its hashers: a random number without a dependency.
        let process = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        Self { root, process, counter: AtomicU64::new(0) }
    }

    /// Opens the directory at the end of `names`, and hands over the handle.
    fn dir(&self, names: Option<&str>) -> io::Result<OwnedFd> {
        let mut current: Option<OwnedFd> = None;
        for name in names.into_iter().flat_map(|names| names.split('/')) {
            let at = current.as_ref().map_or(self.root.as_fd(), |fd| fd.as_fd());
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
            current = Some(fs::openat(at, name, flags, Mode::empty())?);
        }
        match current {
            Some(fd) => Ok(fd),
            None => self.root.try_clone(),
        }
    }

    fn open_file(&self, file: &DiskPath, flags: OFlags) -> io::Result<File> {
        let (dir, name) = file.split();
        let dir = self.dir(dir)?;
        let fd = fs::openat(&dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, FILE_MODE)?;
        Ok(File::from(fd))
    }
}

impl RealDisk {
    /// Opens a regular file, and says how long it is.
    fn open_to_read(&self, file: &DiskPath) -> io::Result<(File, u64)> {
        // Without `NONBLOCK`, opening a pipe that somebody put here would wait forever.
        let open = self.open_file(file, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let metadata = open.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        Ok((open, metadata.len()))
    }
}

struct Synced(File);

impl Unsynced for Synced {
    fn sync(self: Box<Self>) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// The file is locked until this is dropped.
#[derive(Debug)]
struct FileLock(File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that another thread is starting has the file open too, for the moment
        // between fork and exec, and would keep it locked. If this fails, closing is all that can be done.
        let _ = self.0.unlock();
    }
}

impl Lock for FileLock {}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let (parent, name) = dir.split();
        match fs::mkdirat(self.dir(parent)?, name, DIR_MODE) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => self.dir(Some(dir.as_str())).map(drop),
            Err(error) => Err(error.into()),
        }
    }

    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut open = self.open_file(file, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        open.write_all(bytes)?;
        Ok(Box::new(Synced(open)))
    }

    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut open = self.open_file(file, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
        open.write_all(bytes)?;
        Ok(Box::new(Synced(open)))
    }

    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>> {
        let open = self.open_file(file, OFlags::WRONLY)?;
        open.set_len(len)?;
        Ok(Box::new(Synced(open)))
    }

    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (from.split(), to.split());
        let source = self.dir(from_dir)?;
        if from_dir == to_dir {
            return Ok(fs::renameat(&source, from, &source, to)?);
        }
        Ok(fs::renameat(&source, from, self.dir(to_dir)?, to)?)
    }

    fn sync_file(&self, file: &DiskPath) -> io::Result<()> {
        self.open_to_read(file)?.0.sync_all()
    }

    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()> {
        File::from(self.dir(dir.map(DiskPath::as_str))?).sync_all()
    }

    fn remove_file(&self, file: &DiskPath) -> io::Result<()> {
        let (dir, name) = file.split();
        missing_is_fine(self.dir(dir).and_then(|dir| Ok(fs::unlinkat(dir, name, AtFlags::empty())?)))
    }

    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let (parent, name) = dir.split();
        missing_is_fine(self.dir(parent).and_then(|dir| Ok(fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)))
    }

    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let (mut open, _) = self.open_to_read(file)?;
        open.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        open.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>> {
        let (mut open, length) = self.open_to_read(file)?;
        let left = length.saturating_sub(offset);
        if left > max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{left} bytes, and at most {max} are read"),
            ));
        }
        if offset > 0 {
            open.seek(SeekFrom::Start(offset))?;
        }
        // One byte of room more: a read that fills the buffer would be followed by another one.
        let mut bytes = Vec::with_capacity(usize::try_from(left).unwrap_or_default() + 1);
        // The file may grow while it is read; what is beyond the bound is left for the next time.
        open.take(max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>> {
        let (dir, name) = path.split();
        let found = self.dir(dir).and_then(|dir| Ok(fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
        match found {
            Ok(stat) => Ok(Some(Stat {
                kind: match fs::FileType::from_raw_mode(stat.st_mode) {
                    fs::FileType::RegularFile => FileKind::File,
                    fs::FileType::Directory => FileKind::Dir,
                    _ => FileKind::Other,
                },
                len: u64::try_from(stat.st_size).unwrap_or_default(),
                modified_ms: milliseconds(i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
                id: stat.st_ino,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>> {
        let open = match self.dir(Some(dir.as_str())) {
            Ok(open) => open,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(open)? {
            match entry?.file_name().to_str() {
                Ok(name) if path::is_name(name) => names.push(name.to_owned()),
                _ => {}
            }
        }
        Ok(names)
    }

    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>> {
        for _ in 0..LOCK_ATTEMPTS {
            let open = self.open_file(file, OFlags::RDWR | OFlags::CREATE)?;
            let locked = match sharing {
                Sharing::Shared => open.try_lock_shared(),
                Sharing::Exclusive => open.try_lock(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Somebody may have removed the file between the opening and the locking. A lock on a file
            // without a name excludes nobody.
            if self.stat(file)?.map(|stat| stat.id) == Some(open.metadata()?.ino()) {
                return Ok(Some(Box::new(FileLock(open))));
            }
        }
        Ok(None)
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
        // No thread to be had: then one after the other.
        if !overlapped {
            left();
        }
    }
}

/// The types of the two parts differ from platform to platform.
fn milliseconds(seconds: i128, nanoseconds: i128) -> u64 {
    u64::try_from(seconds * 1000 + nanoseconds / 1_000_000).unwrap_or_default()
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
