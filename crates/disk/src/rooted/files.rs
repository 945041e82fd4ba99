//! Regular files.
//!
//! Everything is opened without blocking, and refused when it is not a regular file: opening a pipe that someone put here would
//! otherwise wait forever.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{self, OFlags};
use rustix::io::Errno;

use super::stat::permissions;
use super::{Dir, Kind, Operation, Stat};

const NEW: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Dir {
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
        self.open_regular(path.as_ref(), OFlags::RDONLY)
    }

    /// The content of a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// As [`Dir::open_file`], and `FileTooLarge`.
    pub fn read(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let (file, stat) = self.open_file_with_stat(path)?;
        let too_large = |size: u64| {
            let message = format!("the file has {size} bytes, and at most {most} are read");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        };
        if stat.size > most {
            return Err(too_large(stat.size));
        }
        // One byte of room more: a read that fills the buffer would be followed by another one.
        let mut content = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default() + 1);
        // The file may grow while it is read.
        file.take(most.saturating_add(1)).read_to_end(&mut content)?;
        match content.len() as u64 {
            size if size > most => Err(too_large(size)),
            _ => Ok(content),
        }
    }

    /// Creates a file that does not exist yet, and opens it for reading and writing. Its mode is as given, whatever the umask.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create_file(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let file = File::from(self.open_beneath(path.as_ref(), NEW, 0o600)?);
        fs::fchmod(&file, permissions(mode))?;
        self.gate.before(Operation::WriteFile)?;
        Ok(file)
    }

    /// Creates a file that does not exist yet, with the mode that the umask leaves. Where the mode has to be exact and the
    /// caller asks for the [`Stat`] anyway, [`Dir::finish_file`] sets it: two calls to the system fewer than
    /// [`Dir::create_file`], which counts where there are many files.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create_unfinished(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let file = File::from(self.open_beneath(path.as_ref(), NEW, mode)?);
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

    /// Opens a file for writing from its start, in the place of what it held. It is created for its owner alone where it does
    /// not exist.
    ///
    /// # Errors
    /// Those of the system, and `InvalidData` for anything but a regular file.
    pub fn open_truncated(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?.0)
    }

    /// Opens a file for adding to its end. It is created for its owner alone where it does not exist.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_appending(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?.0)
    }

    /// Opens a file that exists for writing.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_writable(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY)?.0)
    }

    /// Opens a file to lock it. It is created for its owner alone where it does not exist.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_lock(&self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.open_regular(path.as_ref(), OFlags::RDWR | OFlags::CREATE)?.0)
    }

    /// Writes over the beginning of a file, which is created where it does not exist. A reader may meanwhile see a part of both;
    /// for what can be computed again, this is much cheaper than a new file in the place of the old one.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn write_over(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.gate.before(Operation::WriteFile)?;
        let (file, _) = self.open_regular(path.as_ref(), OFlags::RDWR | OFlags::CREATE)?;
        file.write_all_at(bytes, 0)
    }

    /// Sets when the content of a file changed, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Those of the system, and `InvalidInput` for a time that it cannot hold.
    pub fn set_mtime(&self, file: &File, nanoseconds: i128) -> io::Result<()> {
        const SECOND: i128 = 1_000_000_000;
        self.gate.before(Operation::SetMode)?;
        let (seconds, rest) = (nanoseconds.div_euclid(SECOND), nanoseconds.rem_euclid(SECOND));
        let (Ok(tv_sec), Ok(tv_nsec)) = (seconds.try_into(), rest.try_into()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the time is out of range"));
        };
        let at = fs::Timespec { tv_sec, tv_nsec };
        Ok(fs::futimens(file, &fs::Timestamps { last_access: at, last_modification: at })?)
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

    /// Makes sure that the bytes of a file are on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync_file(&self, file: &File) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        file.sync_all()
    }

    fn open_regular(&self, path: &Path, flags: OFlags) -> io::Result<(File, Stat)> {
        let not_regular = || io::Error::new(io::ErrorKind::InvalidData, "not a regular file");
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // A mode without `CREATE` is an error of `openat2`.
        let mode = if flags.contains(OFlags::CREATE) { 0o600 } else { 0 };
        let file = match self.open_beneath(path, flags, mode) {
            Ok(fd) => File::from(fd),
            // A socket, or a pipe that nobody reads.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => return Err(not_regular()),
            Err(error) => return Err(error),
        };
        let stat = Stat::from(fs::fstat(&file)?);
        if stat.kind != Kind::File {
            return Err(not_regular());
        }
        Ok((file, stat))
    }
}
