//! Files below an open directory, and nothing else.
//!
//! Every path is resolved by the kernel below a handle, without following a link anywhere on the
//! way (`openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`; where that does not
//! exist, one name at a time with `O_NOFOLLOW`). A path with `..`, a leading `/` or a link in it is refused by
//! the way it is opened, so there is no moment between a check and a use.
//!
//! Every operation that changes something asks a [`Gate`] first. In production it lets everything
//! pass; crash tests let the n-th operation and all after it fail.

mod removal;
mod stat;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::fs::ResolveFlags;
use rustix::fs::{self, AtFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use self::stat::permissions;
pub use self::stat::{Kind, Stat};
use crate::{Code, Error};

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

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub OsString);

const READ_DIR: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl Dir {
    /// Opens the root of a workspace. The path itself is the caller's: links on the way to it are followed.
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
    /// Those of the system; `ELOOP` or `ENOTDIR` where a link is on the way, `EXDEV` where the path leads out.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(self.clone());
        }
        let fd = self.open_beneath(path, READ_DIR, 0)?;
        Ok(Self { fd: Arc::new(fd), gate: Arc::clone(&self.gate) })
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Those of the system, and `InvalidData` for anything but a regular file.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.open_file_with_stat(path)?.0)
    }

    /// Opens a regular file for reading, and says what the file system knows of it.
    ///
    /// # Errors
    /// As [`Dir::open_file`].
    pub fn open_file_with_stat(&self, path: impl AsRef<Path>) -> io::Result<(File, Stat)> {
        // Without `NONBLOCK`, opening a pipe that somebody put here would wait forever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(path.as_ref(), flags, 0)?);
        let stat = Stat::from(fs::fstat(&file)?);
        if stat.kind != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        Ok((file, stat))
    }

    /// Creates a file that does not exist yet, and opens it for writing. Its mode is as given, whatever the umask.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create_file(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(path.as_ref(), flags, 0o600)?);
        fs::fchmod(&file, permissions(mode))?;
        self.gate.before(Operation::WriteFile)?;
        Ok(file)
    }

    /// Creates a file that does not exist yet. The umask is taken from its mode; the caller, who asks for the
    /// [`Stat`] anyway once the file is written, puts that right with [`Dir::finish_file`]. Two calls to the system
    /// fewer than [`Dir::create_file`], which counts where there are many files.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create_unfinished(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(name.as_ref(), flags, mode)?);
        self.gate.before(Operation::WriteFile)?;
        Ok(file)
    }

    /// Makes sure that a file has the mode, and says what the file system knows of it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish_file(&self, file: &File, mode: u32) -> io::Result<Stat> {
        let stat = Stat::from(fs::fstat(file)?);
        if stat.mode == mode {
            return Ok(stat);
        }
        self.gate.before(Operation::SetMode)?;
        fs::fchmod(file, permissions(mode))?;
        Ok(fs::fstat(file)?.into())
    }

    /// Sets when the content of a file changed, in whole seconds since 1970.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_mtime(&self, file: &File, seconds: i64) -> io::Result<()> {
        self.gate.before(Operation::SetMode)?;
        let at = fs::Timespec { tv_sec: seconds, tv_nsec: 0 };
        Ok(fs::futimens(file, &fs::Timestamps { last_access: at, last_modification: at })?)
    }

    /// Opens, creating it where needed, the file that locks this workspace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_lock(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(self.open_beneath(path.as_ref(), flags, 0o600)?))
    }

    /// Writes over the beginning of a file, which is made where there is none. Whoever reads it meanwhile may see a part of
    /// both; for what can be done without, this is much cheaper than a file that takes the place of another.
    ///
    /// # Errors
    /// Those of the system, and `InvalidData` for anything but a regular file.
    pub fn write_over(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.gate.before(Operation::WriteFile)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(path.as_ref(), flags, 0o600)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0)
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

    /// Sets the permission bits of a file or a directory, never through a link.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        self.gate.before(Operation::SetMode)?;
        let mode = permissions(mode);
        if path.as_ref().as_os_str().is_empty() {
            return Ok(fs::fchmod(&*self.fd, mode)?);
        }
        let (parent, name) = self.parent_of(path.as_ref())?;
        parent.change_mode(name, mode)
    }

    /// Changes the mode of what is opened, and not of what a name may stand for a moment later: the agent may own this
    /// directory, and put a link there.
    fn change_mode(&self, name: &OsStr, mode: fs::Mode) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match fs::openat(&*self.fd, name, flags, fs::Mode::empty()) {
            Ok(fd) => Ok(fs::fchmod(fd, mode)?),
            // Unreadable to its owner, and still the owner's to change.
            Err(Errno::ACCESS) => self.change_unreadable_mode(name, mode),
            Err(error) => Err(error.into()),
        }
    }

    /// A handle that needs no right to read cannot be given to `fchmod`, but the kernel has a name for it.
    #[cfg(target_os = "linux")]
    fn change_unreadable_mode(&self, name: &OsStr, mode: fs::Mode) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&*self.fd, name, flags, fs::Mode::empty())?;
        if Stat::from(fs::fstat(&fd)?).kind == Kind::Link {
            return Err(Errno::LOOP.into());
        }
        Ok(fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn change_unreadable_mode(&self, name: &OsStr, mode: fs::Mode) -> io::Result<()> {
        Ok(fs::chmodat(&*self.fd, name, mode, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Removes a file, a link or anything else that is no directory.
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

    /// Lets a file share the bytes of another in the file system, and says whether that was possible.
    ///
    /// # Errors
    /// Those of the system, other than that it cannot.
    pub fn share_bytes(&self, from: &File, to: &File) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        {
            self.gate.before(Operation::WriteFile)?;
            match fs::ioctl_ficlone(to, from) {
                Ok(()) => Ok(true),
                Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
                Err(_) => Ok(false),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (from, to);
            Ok(false)
        }
    }

    /// The names in this directory, in byte order, with what they stand for where that is known without asking.
    ///
    /// # Errors
    /// Those of the system.
    pub fn names(&self) -> io::Result<Vec<(Name, Option<Kind>)>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&*self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
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

    /// Makes sure that the bytes of a file are on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync_file(&self, file: &File) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        file.sync_all()
    }

    /// The directory that holds the last name of a path, and that name.
    fn parent_of<'p>(&self, path: &'p Path) -> io::Result<(Self, &'p OsStr)> {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(Errno::INVAL.into());
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok((self.open_dir(parent)?, name))
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&*self.fd, path, flags, permissions(mode), resolve) {
            Ok(fd) => Ok(fd),
            // An old kernel, or a filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => self.walk_beneath(path, flags, mode),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        self.walk_beneath(path, flags, mode)
    }

    /// One name at a time. Slower, and as safe.
    fn walk_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                _ => return Err(Errno::XDEV.into()),
            }
        }
        let Some((last, parents)) = names.split_last() else {
            return Err(Errno::INVAL.into());
        };
        let mut current: Option<OwnedFd> = None;
        for name in parents {
            let at = current.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            current = Some(fs::openat(at, *name, READ_DIR, fs::Mode::empty())?);
        }
        let at = current.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
        Ok(fs::openat(at, *last, flags | OFlags::NOFOLLOW, permissions(mode))?)
    }
}

/// The error that a caller is told of.
pub fn refusal(error: &io::Error, doing: &str, path: &Path) -> Error {
    let errno = Errno::from_io_error(error);
    let code = match errno {
        Some(Errno::LOOP | Errno::XDEV) => Code::ApplyUnsafeSymlink,
        Some(Errno::NOSPC | Errno::DQUOT) => Code::ApplyNoSpace,
        _ => Code::ApplyIo,
    };
    let shown = path.display().to_string();
    Error::new(code, format!("{doing} {shown}: {error}")).detail("path", shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a file, a link to it, a link out, and a directory behind a link.
    fn sample() -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::write(root.join("d/file"), "inside").unwrap();
        std::fs::write(temp.path().join("outside"), "outside").unwrap();
        std::os::unix::fs::symlink("file", root.join("d/link")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("out")).unwrap();
        std::os::unix::fs::symlink("d", root.join("through")).unwrap();
        let dir = Dir::open_root(&root).unwrap();
        (temp, dir)
    }

    #[test]
    fn both_ways_of_opening_lead_to_the_same_places_and_to_none_outside() {
        let (_temp, dir) = sample();
        let cases = [
            ("d/file", true),
            ("d/link", false),
            ("out", false),
            ("through/file", false),
            ("../outside", false),
            ("d/../../outside", false),
            ("/etc/passwd", false),
            ("d/file/below", false),
            ("nothing", false),
        ];
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for (path, opens) in cases {
            assert_eq!(dir.open_beneath(Path::new(path), flags, 0).is_ok(), opens, "{path}");
            assert_eq!(dir.walk_beneath(Path::new(path), flags, 0).is_ok(), opens, "{path}, name by name");
        }
    }

    #[test]
    fn nothing_is_changed_through_a_link() {
        let (temp, dir) = sample();
        assert!(dir.create_file("through/new", 0o644).is_err());
        assert!(dir.make_dir("through/new", 0o755).is_err());
        assert!(dir.make_dirs("through/new", 0o755).is_err());
        assert!(dir.write_over("out", b"evil").is_err());
        assert!(dir.set_mode("out", 0o600).is_err());
        assert!(dir.change_unreadable_mode(OsStr::new("out"), permissions(0o600)).is_err());
        dir.open_dir("d").unwrap().change_unreadable_mode(OsStr::new("e"), permissions(0o700)).unwrap();
        assert_eq!(dir.stat("d/e").unwrap().unwrap().mode, 0o700);
        assert!(dir.rename("d/file", &dir, "through/moved").is_err());
        assert!(dir.remove_tree("through/e").is_err());
        dir.remove_tree("out").unwrap();
        dir.remove_tree("through").unwrap();
        assert_eq!(std::fs::read_to_string(temp.path().join("outside")).unwrap(), "outside");
        assert_eq!(
            dir.open_dir("d").unwrap().names().unwrap().len(),
            3,
            "a link is removed, not what it points to"
        );
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let (temp, dir) = sample();
        let pipe = temp.path().join("root/pipe");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        assert!(dir.open_file("pipe").is_err());
        assert!(dir.write_over("pipe", b"x").is_err());
    }
}
