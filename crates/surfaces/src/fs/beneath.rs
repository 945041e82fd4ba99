//! Files below an open folder, and nothing else.
//!
//! Every path is resolved by the kernel below a handle, without following a link anywhere on the way (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`; where that does not exist, one name at a time with `O_NOFOLLOW`). There is no moment between a check and a use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::ResolveFlags;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Kind, Stat};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder of the host's own. Links on the way to it are followed.
    pub(super) fn open_root(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a folder below; an empty path is this one.
    pub(super) fn folder(&self, path: &str) -> io::Result<Self> {
        match path {
            "" => Ok(Self(self.0.try_clone()?)),
            path => Ok(Self(self.open_beneath(path, FOLDER, Mode::empty())?)),
        }
    }

    /// Opens a folder below, making it and those above it where they are not there. Says how many were made.
    pub(super) fn make_folders(&self, path: &str) -> io::Result<(Self, u64)> {
        let (mut current, mut made) = (self.folder("")?, 0);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match fs::mkdirat(&current.0, name, Mode::RWXU) {
                Ok(()) => {
                    current.sync()?;
                    made += 1;
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            current = current.folder(name)?;
        }
        Ok((current, made))
    }

    /// Opens a regular file for reading.
    pub(super) fn open_file(&self, path: &str) -> io::Result<(File, Stat)> {
        // Without `NONBLOCK`, opening a pipe that somebody put here would wait forever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(path, flags, Mode::empty())?);
        let stat = stat_of(&fs::fstat(&file)?);
        match stat.kind {
            Kind::File => Ok((file, stat)),
            Kind::Folder => Err(Errno::ISDIR.into()),
            Kind::Other => Err(Errno::ACCESS.into()),
        }
    }

    /// Makes a file, owner-only, in the place of one that was left there.
    pub(super) fn make_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(self.open_beneath(name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// What a name of this folder stands for. A link is not followed.
    pub(super) fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        if name.is_empty() {
            return Ok(Some(stat_of(&fs::fstat(&self.0)?)));
        }
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat_of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a name of this folder to a name of another, over what is there.
    pub(super) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, name, &to.0, new)?)
    }

    /// Moves a name of this folder to a name of another, where nothing is.
    pub(super) fn rename_new(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        match fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            // The file system cannot; a second name that may not be there yet is as good, and the first one goes.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::linkat(&self.0, name, &to.0, new, AtFlags::empty())?;
                Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
            }
            done => Ok(done?),
        }
    }

    /// Removes a file, or an empty folder.
    pub(super) fn remove(&self, name: &str, kind: Kind) -> io::Result<()> {
        let flags = if kind == Kind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(fs::unlinkat(&self.0, name, flags)?)
    }

    /// Every name that is UTF-8, with what it stands for, in no order, up to a bound.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<(String, Kind)>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            // What is not UTF-8 was put there by somebody else, and no path of a call can name it.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.stat(name)?.map_or(Kind::Other, |stat| stat.kind),
                known => kind_of(known),
            };
            names.push((name.to_owned(), kind));
            if names.len() > most {
                return Err(Errno::TOOBIG.into());
            }
        }
        Ok(names)
    }

    /// Makes sure that the names in this folder are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&self.0, path, flags, mode, resolve) {
            Ok(fd) => Ok(fd),
            // An old kernel, or a filter that does not know the call; or a link or a file in the place of a folder, which the other way
            // tells apart.
            Err(Errno::NOSYS | Errno::PERM | Errno::NOTDIR) => self.walk_beneath(path, flags, mode),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_beneath(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        self.walk_beneath(path, flags, mode)
    }

    /// One name at a time. Slower, and as safe.
    fn walk_beneath(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let mut current = self.0.try_clone()?;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            if matches!(name, "" | "." | "..") {
                return Err(Errno::XDEV.into());
            }
            let (flags, mode) = if names.peek().is_some() {
                (FOLDER, Mode::empty())
            } else {
                (flags | OFlags::NOFOLLOW, mode)
            };
            current = match fs::openat(current.as_fd(), name, flags, mode) {
                Ok(fd) => fd,
                // A link and a file are told apart, as the other way of opening does.
                Err(Errno::NOTDIR) => {
                    let found = fs::statat(current.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
                    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
                    return Err(if is_link { Errno::LOOP } else { Errno::NOTDIR }.into());
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(current)
    }
}

/// Sets when the content of a file changed.
pub(super) fn set_mtime(file: &File, ms: i64) -> io::Result<()> {
    let at = fs::Timespec { tv_sec: ms.div_euclid(1000), tv_nsec: ms.rem_euclid(1000) * 1_000_000 };
    Ok(fs::futimens(file, &fs::Timestamps { last_access: at, last_modification: at })?)
}

fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    }
}

fn stat_of(stat: &fs::Stat) -> Stat {
    #[allow(clippy::allow_attributes, clippy::unnecessary_cast, reason = "the widths differ by system")]
    let ms =
        (stat.st_mtime as i64).saturating_mul(1000).saturating_add(stat.st_mtime_nsec as i64 / 1_000_000);
    let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
    // What a folder says its size is depends on the file system, and is nothing that a tenant wrote.
    let size = if kind == Kind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
    Stat { size, kind, mtime_ms: ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_opening_lead_to_the_same_places_and_to_none_outside() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::write(root.join("d/file"), "inside").unwrap();
        std::fs::write(temp.path().join("outside"), "outside").unwrap();
        std::os::unix::fs::symlink("file", root.join("d/link")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("out")).unwrap();
        std::os::unix::fs::symlink("d", root.join("through")).unwrap();
        let folder = Folder::open_root(&root).unwrap();
        let cases = [
            ("d/file", None),
            ("d/link", Some(Errno::LOOP)),
            ("out", Some(Errno::LOOP)),
            ("through/file", Some(Errno::LOOP)),
            ("d/../../outside", Some(Errno::XDEV)),
            ("d/file/below", Some(Errno::NOTDIR)),
            ("nothing", Some(Errno::NOENT)),
        ];
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folders = [("d", None), ("through", Some(Errno::LOOP)), ("d/file", Some(Errno::NOTDIR))];
        let cases = cases.map(|case| (case, flags)).into_iter().chain(folders.map(|case| (case, FOLDER)));
        for ((path, expected), flags) in cases {
            for opened in [
                folder.open_beneath(path, flags, Mode::empty()),
                folder.walk_beneath(path, flags, Mode::empty()),
            ] {
                let errno = opened.err().and_then(|error| Errno::from_io_error(&error));
                assert_eq!(errno, expected, "{path}");
            }
        }
    }
}
