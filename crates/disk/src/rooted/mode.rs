//! Permission bits.

use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::path::Path;

#[cfg(not(target_os = "linux"))]
use rustix::fs::AtFlags;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;

use super::stat::permissions;
use super::{Dir, Operation};
#[cfg(target_os = "linux")]
use super::{Kind, Stat};

impl Dir {
    /// Sets the permission bits of a file or directory, never through a link.
    ///
    /// # Errors
    /// System errors.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        self.gate.before(Operation::SetMode)?;
        let mode = permissions(mode);
        if path.as_ref().as_os_str().is_empty() {
            return Ok(fs::fchmod(&*self.fd, mode)?);
        }
        let (parent, name) = self.parent_of(path.as_ref())?;
        parent.change_mode(name, mode)
    }

    /// Changes the mode of the opened file rather than of a name: an agent may own this directory and replace the name
    /// with a link.
    pub(super) fn change_mode(&self, name: &OsStr, mode: fs::Mode) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match fs::openat(&*self.fd, name, flags, fs::Mode::empty()) {
            Ok(fd) => Ok(fs::fchmod(fd, mode)?),
            // Unreadable, but the owner can still change it.
            Err(Errno::ACCESS) => self.change_unreadable_mode(name, mode),
            Err(error) => Err(error.into()),
        }
    }

    /// `fchmod` does not accept a handle without read permission, but its path in `/proc` works.
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
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn changes_unreadable_modes_without_following_links() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("d")).unwrap();
        std::fs::write(temp.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", temp.path().join("link")).unwrap();
        let dir = Dir::open_root(temp.path()).unwrap();
        assert!(dir.change_unreadable_mode(OsStr::new("link"), permissions(0o600)).is_err());
        dir.change_unreadable_mode(OsStr::new("d"), permissions(0o700)).unwrap();
        assert_eq!(dir.stat("d").unwrap().unwrap().mode, 0o700);
    }
}
