//! Files below an open directory, and nothing else.
//!
//! Every path is resolved by the kernel below a handle, without following a link anywhere on the way (`openat2` with
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`; where that does not exist, one name at a time with
//! `O_NOFOLLOW`). A path with `..`, a leading `/` or a link in it is refused by the way it is opened, so there is no moment
//! between a check and a use.
//!
//! Errors are those of the system, with its number as the source for a store's own error: `ELOOP` where a link is on the way,
//! `EXDEV` where the path leads out, `EINVAL` where it does not end in a name.
//!
//! Every operation that changes something asks a [`Gate`] first. In production it lets everything pass; crash tests let the
//! n-th operation and all after it fail.

mod beneath;
mod files;
mod lock;
mod mode;
mod removal;
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

/// What is about to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
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

/// Asked before everything that changes something.
pub trait Gate: Send + Sync {
    /// Lets the operation happen, or not.
    ///
    /// # Errors
    /// The one that the operation then fails with.
    fn before(&self, operation: Operation) -> io::Result<()>;
}

/// The gate that is always open.
#[derive(Debug)]
struct Open;

impl Gate for Open {
    fn before(&self, _operation: Operation) -> io::Result<()> {
        Ok(())
    }
}

/// An open directory.
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

/// Whether an operation failed because a link is on the way, or in the place of a directory or a file.
pub fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub OsString);

const READ_DIR: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The longest path, with the byte that ends it.
const MAX_PATH_BYTES: usize = 4096;

impl Dir {
    /// Opens a directory that the program itself names: links on the way to it are followed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_root(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, fs::Mode::empty())?;
        Ok(Self { fd: Arc::new(fd), gate: Arc::new(Open) })
    }

    /// The same directory behind another gate. Every directory opened from it has that gate too.
    #[must_use]
    pub fn gated(&self, gate: Arc<dyn Gate>) -> Self {
        Self { fd: Arc::clone(&self.fd), gate }
    }

    /// Opens a directory below; an empty path is this one.
    ///
    /// # Errors
    /// Those of the system; `ELOOP` where a link is on the way, `EXDEV` where the path leads out.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(self.clone());
        }
        let fd = self.open_beneath(path, READ_DIR, 0)?;
        Ok(Self { fd: Arc::new(fd), gate: Arc::clone(&self.gate) })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Those of the system; it may not exist yet.
    pub fn make_dir(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        self.gate.before(Operation::MakeDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        let mode = permissions(mode);
        fs::mkdirat(&*parent.fd, name, mode)?;
        parent.change_mode(name, mode)
    }

    /// Makes a directory and those above it, where they are not there yet.
    ///
    /// # Errors
    /// Those of the system; `ENOTDIR` or `ELOOP` where something else is in the way.
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

    /// Opens a directory below, and makes it and those above it where they do not exist, for their owner alone. What was made is
    /// on the disk. Says how many were made.
    ///
    /// # Errors
    /// Those of the system, and as [`Dir::open_dir`].
    pub fn open_or_make_dirs(&self, path: impl AsRef<Path>) -> io::Result<(Self, u64)> {
        // As the system refuses a path that it is given in one piece.
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

    /// Makes a directory with the mode that the umask leaves, and says whether it did not exist yet. What exists may be anything.
    ///
    /// # Errors
    /// Those of the system.
    pub fn make_dir_masked(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<bool> {
        self.gate.before(Operation::MakeDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        match fs::mkdirat(&*parent.fd, name, permissions(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What a name stands for; nothing where there is no such name. A link is not followed.
    ///
    /// # Errors
    /// Those of the system, other than that there is none.
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

    /// Where a link points.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<OsString> {
        let (parent, name) = self.parent_of(path.as_ref())?;
        let target = fs::readlinkat(&*parent.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes a link. Where it points is the caller's to have checked.
    ///
    /// # Errors
    /// Those of the system.
    pub fn symlink(&self, target: &str, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Symlink)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::symlinkat(target, &*parent.fd, name)?)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// Those of the system.
    pub fn link(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Link)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        Ok(fs::linkat(&*from_dir.fd, from, &*to_dir.fd, new, AtFlags::empty())?)
    }

    /// Moves something over what is there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn rename(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Rename)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        Ok(fs::renameat(&*from_dir.fd, from, &*to_dir.fd, new)?)
    }

    /// Moves something to a name that does not exist yet.
    ///
    /// # Errors
    /// Those of the system; `EEXIST` where the name exists.
    pub fn rename_new(&self, path: impl AsRef<Path>, to: &Self, new: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Rename)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, new) = to.parent_of(new.as_ref())?;
        match fs::renameat_with(&*from_dir.fd, from, &*to_dir.fd, new, RenameFlags::NOREPLACE) {
            // The file system cannot. For a file, a second name that may not exist yet is as good, and the first one goes.
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

    /// Lets two names change places at once.
    ///
    /// # Errors
    /// Those of the system; `EINVAL` or `ENOSYS` where the file system cannot.
    pub fn exchange(&self, path: impl AsRef<Path>, other: &Self, with: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::Exchange)?;
        let (from_dir, from) = self.parent_of(path.as_ref())?;
        let (to_dir, with) = other.parent_of(with.as_ref())?;
        Ok(fs::renameat_with(&*from_dir.fd, from, &*to_dir.fd, with, RenameFlags::EXCHANGE)?)
    }

    /// Removes a file, a link or anything else that is not a directory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::RemoveFile)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::unlinkat(&*parent.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.gate.before(Operation::RemoveDir)?;
        let (parent, name) = self.parent_of(path.as_ref())?;
        Ok(fs::unlinkat(&*parent.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Whether something else is mounted at a name, so that it cannot be moved.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_mount_point(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        let Some(stat) = self.stat(path.as_ref())? else {
            return Ok(false);
        };
        let (parent, name) = self.parent_of(path.as_ref())?;
        if Stat::from(fs::fstat(&*parent.fd)?).dev != stat.dev {
            return Ok(true);
        }
        // A directory of the same file system can be mounted too, and only this tells.
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

    /// The names in this directory, in byte order, with what they stand for where that is known without asking.
    ///
    /// # Errors
    /// Those of the system.
    pub fn names(&self) -> io::Result<Vec<(Name, Option<Kind>)>> {
        self.names_up_to(usize::MAX)
    }

    /// As [`Dir::names`], of a directory with at most so many names.
    ///
    /// # Errors
    /// Those of the system, and `E2BIG` where there are more.
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

    /// Makes sure that the names in this directory are on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync(&self) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        Ok(fs::fsync(&*self.fd)?)
    }

    /// Makes sure that everything on this file system is on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync_file_system(&self) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        #[cfg(target_os = "linux")]
        fs::syncfs(&*self.fd)?;
        // Where there is no call for one file system, there is one for all.
        #[cfg(not(target_os = "linux"))]
        fs::sync();
        Ok(())
    }
}
