//! Files below an open directory.
//!
//! The kernel resolves every path relative to a handle without following links (`openat2` with `RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`; if that is not available, one name at a time with `O_NOFOLLOW`). A
//! path with `..`, a leading `/` or a link fails when it is opened, so there is no gap between check and use.
//!
//! Errors are system errors with their number as the source: `ELOOP` for a link in the path, `EXDEV` for a path that
//! leads out, `EINVAL` for a path that does not end in a name.
//!
//! Every operation that changes something calls a [`Gate`] first. In production it allows everything; crash tests fail
//! the n-th operation and all later ones.

mod files;
mod lock;
mod mode;
mod removal;
mod resolve;
mod stat;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

pub use self::lock::{FileLock, Sharing};
use self::stat::permissions;
pub use self::stat::{Kind, Stat};

/// A changing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    MakeDir,
    CreateFile,
    WriteFile,
    Rename,
    Exchange,
    Link,
    Symlink,
    SetMode,
    RemoveFile,
    RemoveDir,
    Sync,
}

/// Called before every change.
pub trait Gate: Send + Sync {
    /// Allows or fails the operation.
    ///
    /// # Errors
    /// The error that the operation returns.
    fn before(&self, operation: Operation) -> io::Result<()>;
}

/// Allows everything.
#[derive(Debug)]
struct Open;

impl Gate for Open {
    fn before(&self, _operation: Operation) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    gate: Arc<dyn Gate>,
}

impl fmt::Debug for Dir {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Dir").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// Whether an operation failed because of a link in the path, or in place of a directory or file.
pub fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub OsString);

const READ_DIR: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The maximum path length, including the terminating byte.
const MAX_PATH_BYTES: usize = 4096;

impl Dir {
    /// Opens a directory named by the program: links in the path are followed.
    ///
    /// # Errors
    /// System errors.
    pub fn open_root(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, fs::Mode::empty())?;
        Ok(Self { fd: Arc::new(fd), gate: Arc::new(Open) })
    }

    /// The same directory with another gate, inherited by directories opened from it.
    #[must_use]
    pub fn gated(&self, gate: Arc<dyn Gate>) -> Self {
        Self { fd: Arc::clone(&self.fd), gate }
    }

    /// Opens a subdirectory; an empty path is this directory.
    ///
    /// # Errors
    /// System errors; `ELOOP` for a link in the path, `EXDEV` if the path leads out.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(self.clone());
        }
        let fd = self.open_beneath(path, READ_DIR, 0)?;
        Ok(Self { fd: Arc::new(fd), gate: Arc::clone(&self.gate) })
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// System errors; it must not exist.
    pub fn make_dir(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        self.gate.before(Operation::MakeDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        let mode = permissions(mode);
        fs::mkdirat(&*parent.fd, name, mode)?;
        parent.change_mode(name, mode)
    }

    /// Creates a directory and its parents if they do not exist.
    ///
    /// # Errors
    /// System errors; `ENOTDIR` or `ELOOP` if something else is in the way.
    pub fn make_dirs(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let path = path.as_ref();
        let mut missing = Vec::new();
        for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            match self.stat(ancestor)? {
                Some(stat) if stat.kind == Kind::Dir => break,
                Some(stat) if stat.kind == Kind::Link => return Err(Errno::LOOP.into()),
                Some(_) => return Err(Errno::NOTDIR.into()),
                None => missing.push(ancestor),
            }
        }
        for directory in missing.into_iter().rev() {
            match self.make_dir(directory, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Opens a subdirectory and creates it and its parents, owner-only and durably, if they do not exist. Returns how
    /// many were created.
    ///
    /// # Errors
    /// System errors, and as [`Dir::open_dir`].
    pub fn open_or_make_dirs(&self, path: impl AsRef<Path>) -> io::Result<(Self, u64)> {
        // The same limit as for a path given in one piece.
        if path.as_ref().as_os_str().len() >= MAX_PATH_BYTES {
            return Err(Errno::NAMETOOLONG.into());
        }
        let (mut current, mut made) = (self.clone(), 0);
        for component in path.as_ref().components() {
            let Component::Normal(name) = component else { return Err(Errno::XDEV.into()) };
            if current.make_dir_masked(name, 0o700)? {
                current.sync()?;
                made += 1;
            }
            current = current.open_dir(name)?;
        }
        Ok((current, made))
    }

    /// Creates a directory with the mode after umask. Returns whether it is new; an existing entry may be of any kind.
    ///
    /// # Errors
    /// System errors.
    pub fn make_dir_masked(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<bool> {
        self.gate.before(Operation::MakeDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        match fs::mkdirat(&*parent.fd, name, permissions(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of an entry; `None` if it does not exist. Links are not followed.
    ///
    /// # Errors
    /// System errors other than not found.
    pub fn stat(&self, path: impl AsRef<Path>) -> io::Result<Option<Stat>> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(Some(fs::fstat(&*self.fd)?.into()));
        }
        let (parent, name) = match self.parent_of(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match fs::statat(&*parent.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The target of a link.
    ///
    /// # Errors
    /// System errors.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<OsString> {
        let (parent, name) = self.parent_of(path.as_ref())?;
        let target = fs::readlinkat(&*parent.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Creates a symbolic link. The caller must have checked the target.
    ///
    /// # Errors
    /// System errors.
    pub fn symlink(&self, target: &str, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Symlink)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::symlinkat(target, &*parent.fd, name)?)
    }

    /// Creates a hard link.
    ///
    /// # Errors
    /// System errors.
    pub fn link(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Link)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        Ok(fs::linkat(&*from_dir.fd, from, &*to_dir.fd, new, AtFlags::empty())?)
    }

    /// Moves an entry and replaces an existing one.
    ///
    /// # Errors
    /// System errors.
    pub fn rename(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Rename)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        Ok(fs::renameat(&*from_dir.fd, from, &*to_dir.fd, new)?)
    }

    /// Moves an entry to a new name.
    ///
    /// # Errors
    /// System errors; `EEXIST` if the name exists.
    pub fn rename_new(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Rename)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        match fs::renameat_with(&*from_dir.fd, from, &*to_dir.fd, new, RenameFlags::NOREPLACE) {
            // Not supported by the file system. For a file, a hard link to the new name followed by removing the old
            // one has the same effect.
            Err(error @ (Errno::INVAL | Errno::NOSYS)) => {
                match fs::linkat(&*from_dir.fd, from, &*to_dir.fd, new, AtFlags::empty()) {
                    Err(Errno::PERM) => Err(error.into()),
                    linked => {
                        linked?;
                        Ok(fs::unlinkat(&*from_dir.fd, from, AtFlags::empty())?)
                    }
                }
            }
            renamed => Ok(renamed?),
        }
    }

    /// Atomically exchanges two entries.
    ///
    /// # Errors
    /// System errors; `EINVAL` or `ENOSYS` if the file system does not support it.
    pub fn exchange(&self, path: impl AsRef<Path>, other: &Self, with: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Exchange)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, with) = other.parent_of(with.as_ref())?;
        Ok(fs::renameat_with(&*from_dir.fd, from, &*to_dir.fd, with, RenameFlags::EXCHANGE)?)
    }

    /// Removes anything except a directory.
    ///
    /// # Errors
    /// System errors.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::RemoveFile)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::unlinkat(&*parent.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// System errors.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::RemoveDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::unlinkat(&*parent.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Whether an entry is a mount point, which cannot be moved.
    ///
    /// # Errors
    /// System errors.
    pub fn is_mount_point(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        let Some(stat) = self.stat(path.as_ref())? else {
            return Ok(false);
        };
        let (parent, name) = self.parent_of(path.as_ref())?;
        if Stat::from(fs::fstat(&*parent.fd)?).dev != stat.dev {
            return Ok(true);
        }
        // Detects bind mounts of the same file system.
        #[cfg(target_os = "linux")]
        if let Ok(extended) =
            fs::statx(&*parent.fd, name, AtFlags::SYMLINK_NOFOLLOW, fs::StatxFlags::BASIC_STATS)
        {
            return Ok(extended.stx_attributes.contains(fs::StatxAttributes::MOUNT_ROOT));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = name;
        Ok(false)
    }

    /// The names in this directory in byte order, with their types if known without a system call.
    ///
    /// # Errors
    /// System errors.
    pub fn names(&self) -> io::Result<Vec<(Name, Option<Kind>)>> {
        self.names_up_to(usize::MAX)
    }

    /// As [`Dir::names`], with a maximum number of names.
    ///
    /// # Errors
    /// System errors, and `E2BIG` if there are more.
    pub fn names_up_to(&self, most: usize) -> io::Result<Vec<(Name, Option<Kind>)>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&*self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == most {
                return Err(Errno::TOOBIG.into());
            }
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                known => Some(known.into()),
            };
            names.push((Name(OsStr::from_bytes(name).to_owned()), kind));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    /// Makes the names in this directory durable.
    ///
    /// # Errors
    /// System errors.
    pub fn sync(&self) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        Ok(fs::fsync(&*self.fd)?)
    }

    /// Makes everything on this file system durable.
    ///
    /// # Errors
    /// System errors.
    pub fn sync_file_system(&self) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        #[cfg(target_os = "linux")]
        fs::syncfs(&*self.fd)?;
        // Without a system call for one file system, sync all.
        #[cfg(not(target_os = "linux"))]
        fs::sync();
        Ok(())
    }
}
