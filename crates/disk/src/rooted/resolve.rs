//! Path resolution: the only place where a name becomes a handle.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

#[cfg(target_os = "linux")]
use rustix::fs::ResolveFlags;
use rustix::fs::{self, AtFlags, FileType, OFlags};
use rustix::io::Errno;

use super::stat::permissions;
use super::{Dir, READ_DIR};

impl Dir {
    /// The parent directory of a path, and its last name.
    pub(super) fn parent_of<'p>(&self, path: &'p Path) -> io::Result<(Self, &'p OsStr)> {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(Errno::INVAL.into());
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok((self.open_dir(parent)?, name))
    }

    pub(super) fn open_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        // `..` below the root could stay inside, but is not needed.
        if path.components().any(leads_out) {
            return Err(Errno::XDEV.into());
        }
        #[cfg(target_os = "linux")]
        return self.resolve_beneath(path, flags, mode);
        #[cfg(not(target_os = "linux"))]
        self.walk_beneath(path, flags, mode)
    }

    #[cfg(target_os = "linux")]
    fn resolve_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&*self.fd, path, flags, permissions(mode), resolve) {
            Ok(fd) => Ok(fd),
            // An old kernel or a seccomp filter; or a link or file in place of a directory, which the fallback
            // distinguishes.
            Err(Errno::NOSYS | Errno::PERM | Errno::NOTDIR) => self.walk_beneath(path, flags, mode),
            Err(error) => Err(error.into()),
        }
    }

    /// One name at a time. Slower, but equally safe.
    fn walk_beneath(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
        let mut current: Option<OwnedFd> = None;
        let mut names = path.components().peekable();
        while let Some(component) = names.next() {
            if leads_out(component) {
                return Err(Errno::XDEV.into());
            }
            let at = current.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            let (flags, mode) =
                if names.peek().is_some() { (READ_DIR, 0) } else { (flags | OFlags::NOFOLLOW, mode) };
            current = Some(open_name(at, component.as_os_str(), flags, mode)?);
        }
        current.ok_or_else(|| Errno::INVAL.into())
    }
}

fn leads_out(component: Component<'_>) -> bool {
    match component {
        Component::Prefix(_) | Component::RootDir | Component::ParentDir => true,
        Component::CurDir | Component::Normal(_) => false,
    }
}

/// Opens one name. A link in place of a directory is `ELOOP`, as with `openat2`, not `ENOTDIR`.
fn open_name(at: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    match fs::openat(at, name, flags, permissions(mode)) {
        Err(Errno::NOTDIR) => {
            let found = fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
            Err(if is_link { Errno::LOOP } else { Errno::NOTDIR }.into())
        }
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openat2_and_fallback_agree() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::write(root.join("d/file"), "inside").unwrap();
        std::fs::write(temp.path().join("outside"), "outside").unwrap();
        std::os::unix::fs::symlink("file", root.join("d/link")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("out")).unwrap();
        std::os::unix::fs::symlink("d", root.join("through")).unwrap();
        let dir = Dir::open_root(&root).unwrap();
        let long = "n".repeat(256);
        let file = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let cases = [
            ("d/file", file, None),
            ("d//file", file, None),
            ("d/link", file, Some(Errno::LOOP)),
            ("out", file, Some(Errno::LOOP)),
            ("through/file", file, Some(Errno::LOOP)),
            ("through/nothing", file, Some(Errno::LOOP)),
            ("d/..", READ_DIR, Some(Errno::XDEV)),
            ("d/../d/file", file, Some(Errno::XDEV)),
            (".", READ_DIR, None),
            ("./d/file", file, None),
            ("..", file, Some(Errno::XDEV)),
            ("../outside", file, Some(Errno::XDEV)),
            ("d/../../outside", file, Some(Errno::XDEV)),
            ("/etc/passwd", file, Some(Errno::XDEV)),
            ("d/file/below", file, Some(Errno::NOTDIR)),
            ("nothing", file, Some(Errno::NOENT)),
            ("nothing/below", file, Some(Errno::NOENT)),
            ("d/a\0b", file, Some(Errno::INVAL)),
            (long.as_str(), file, Some(Errno::NAMETOOLONG)),
            ("d", READ_DIR, None),
            ("d/e", READ_DIR, None),
            ("through", READ_DIR, Some(Errno::LOOP)),
            ("through/e", READ_DIR, Some(Errno::LOOP)),
            ("d/file", READ_DIR, Some(Errno::NOTDIR)),
        ];
        for (path, flags, expected) in cases {
            let ways =
                [dir.open_beneath(Path::new(path), flags, 0), dir.walk_beneath(Path::new(path), flags, 0)];
            for opened in ways {
                let errno = opened.err().and_then(|error| Errno::from_io_error(&error));
                assert_eq!(errno, expected, "{path:?}");
            }
        }
    }
}
