//! Regular files.
//!
//! Everything is opened without blocking, and anything except a regular file is an error: opening a foreign pipe could
//! otherwise block forever.

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
    /// System errors, and `InvalidData` for anything except a regular file.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.open_file_with_stat(path)?.0)
    }

    /// Opens a regular file for reading and returns its metadata.
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
            let message = format!("the file is {size} bytes; the limit is {most}");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        };
        if stat.size > most {
            return Err(too_large(stat.size));
        }
        // One extra byte: a full buffer would cause another read.
        let mut content = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default() + 1);
        // The file may grow while it is read.
        file.take(most.saturating_add(1)).read_to_end(&mut content)?;
        match content.len() as u64 {
            size if size > most => Err(too_large(size)),
            _ => Ok(content),
        }
    }

    /// Creates a new file for reading and writing with exactly this mode, regardless of the umask.
    ///
    /// # Errors
    /// System errors.
    pub fn create_file(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let file = File::from(self.open_beneath(path.as_ref(), NEW, 0o600)?);
        fs::fchmod(&file, permissions(mode))?;
        self.gate.before(Operation::WriteFile)?;
        Ok(file)
    }

    /// Creates a new file with the mode after umask. If the mode must be exact and the caller needs the [`Stat`]
    /// anyway, [`Dir::finish_file`] sets it: two system calls fewer than [`Dir::create_file`], which matters for many
    /// files.
    ///
    /// # Errors
    /// System errors.
    pub fn create_unfinished(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        self.gate.before(Operation::CreateFile)?;
        let file = File::from(self.open_beneath(path.as_ref(), NEW, mode)?);
        self.gate.before(Operation::WriteFile)?;
        Ok(file)
    }

    /// Sets the mode of a file if needed and returns its metadata.
    ///
    /// # Errors
    /// System errors.
    pub fn finish_file(&self, file: &File, mode: u32) -> io::Result<Stat> {
        let stat = Stat::from(fs::fstat(file)?);
        if stat.mode == mode {
            return Ok(stat);
        }
        self.gate.before(Operation::SetMode)?;
        fs::fchmod(file, permissions(mode))?;
        Ok(fs::fstat(file)?.into())
    }

    /// Opens a file for writing and truncates it. Created owner-only if it does not exist.
    ///
    /// # Errors
    /// System errors, and `InvalidData` for anything except a regular file.
    pub fn open_truncated(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?.0)
    }

    /// Opens a file for appending. Created owner-only if it does not exist.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_appending(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?.0)
    }

    /// Opens an existing file for writing.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_writable(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.gate.before(Operation::WriteFile)?;
        Ok(self.open_regular(path.as_ref(), OFlags::WRONLY)?.0)
    }

    /// Opens a lock file. Created owner-only if it does not exist.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn open_lock(&self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.open_regular(path.as_ref(), OFlags::RDWR | OFlags::CREATE)?.0)
    }

    /// Overwrites the beginning of a file, or creates it. A concurrent reader may see a mix of old and new; for data
    /// that can be recomputed, this is much cheaper than an atomic replacement.
    ///
    /// # Errors
    /// As [`Dir::open_truncated`].
    pub fn write_over(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.gate.before(Operation::WriteFile)?;
        let (file, _) = self.open_regular(path.as_ref(), OFlags::RDWR | OFlags::CREATE)?;
        file.write_all_at(bytes, 0)
    }

    /// Sets the modification time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// System errors, and `InvalidInput` for a time out of range.
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

    /// Shares the content of another file (reflink), and returns whether that was possible.
    ///
    /// # Errors
    /// System errors other than not supported.
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

    /// Makes the content of a file durable.
    ///
    /// # Errors
    /// System errors.
    pub fn sync_file(&self, file: &File) -> io::Result<()> {
        self.gate.before(Operation::Sync)?;
        file.sync_all()
    }

    fn open_regular(&self, path: &Path, flags: OFlags) -> io::Result<(File, Stat)> {
        let not_regular = || io::Error::new(io::ErrorKind::InvalidData, "not a regular file");
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // `openat2` rejects a mode without `CREATE`.
        let mode = if flags.contains(OFlags::CREATE) { 0o600 } else { 0 };
        let file = match self.open_beneath(path, flags, mode) {
            Ok(fd) => File::from(fd),
            // A socket, or a pipe without a reader.
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
