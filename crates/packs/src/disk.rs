//! Files below an open folder, and nothing else.
//!
//! Every name is one segment and is looked up below a handle, without following a link. Paths of archives arrive as
//! [`EntryPath`], whose segments are such names.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::gate::{Gate, Operation, Watched};
use crate::path::EntryPath;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    gate: Watched,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl Folder {
    /// Opens the folder at a path of the caller's, and makes it and those above it where they are not there.
    pub(crate) fn open_root(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let fd = fs::open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd, gate: None })
    }

    /// The same folder behind a gate. Every folder that is opened from it has that gate too.
    pub(crate) fn gated(self, gate: Arc<dyn Gate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    fn before(&self, operation: Operation) -> io::Result<()> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.before(operation))
    }

    /// Opens a folder in this one.
    pub(crate) fn open(&self, name: &str) -> io::Result<Self> {
        let fd = fs::openat(&self.fd, segment(name)?, FOLDER, Mode::empty())?;
        Ok(Self { fd, gate: self.gate.clone() })
    }

    /// Opens a folder in this one, and makes it where it is not there. Says whether it was made.
    pub(crate) fn open_or_make(&self, name: &str) -> io::Result<(Self, bool)> {
        self.before(Operation::MakeFolder)?;
        match fs::mkdirat(&self.fd, segment(name)?, Mode::from(0o755)) {
            Ok(()) => Ok((self.open(name)?, true)),
            Err(Errno::EXIST) => Ok((self.open(name)?, false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file that is not there yet, with this content. Nothing is synced.
    pub(crate) fn create(&self, name: &str, content: &[u8], executable: bool) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from(if executable { 0o755 } else { 0o644 });
        self.before(Operation::CreateFile)?;
        let mut file = File::from(fs::openat(&self.fd, segment(name)?, flags, mode)?);
        self.before(Operation::WriteFile)?;
        file.write_all(content)
    }

    /// Lets a file have this content, whole or not at all, and durable: a new file takes its place.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        match self.remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.before(Operation::CreateFile)?;
        let mut file = File::from(fs::openat(&self.fd, segment(&new)?, flags, Mode::from(0o644))?);
        self.before(Operation::WriteFile)?;
        file.write_all(content)?;
        self.before(Operation::Sync)?;
        file.sync_all()?;
        self.before(Operation::Rename)?;
        fs::renameat(&self.fd, new.as_str(), &self.fd, segment(name)?)?;
        self.sync()
    }

    /// The content of a file, if it is there and has at most so many bytes.
    pub(crate) fn read(&self, name: &str, most: usize) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.fd, segment(name)?, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        let mut content = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut content)?;
        if content.len() > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {most} bytes")));
        }
        Ok(Some(content))
    }

    /// The content of a file at a path inside a pack.
    pub(crate) fn read_path(&self, path: &EntryPath, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut segments: Vec<&str> = path.segments().collect();
        let Some(name) = segments.pop() else { return Ok(None) };
        let mut inner: Option<Self> = None;
        for segment in segments {
            let next = match &inner {
                Some(folder) => folder.open(segment),
                None => self.open(segment),
            };
            inner = match next {
                Ok(folder) => Some(folder),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        inner.as_ref().unwrap_or(self).read(name, most)
    }

    /// The names in this folder, sorted. Those that are no text are left out: nothing here made them.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether there is something of that name.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match fs::statat(&self.fd, segment(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves something from this folder to a name in another that is not there yet.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> io::Result<()> {
        self.before(Operation::Rename)?;
        Ok(fs::renameat_with(&self.fd, segment(name)?, &to.fd, segment(new)?, fs::RenameFlags::NOREPLACE)?)
    }

    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        self.before(Operation::RemoveFile)?;
        Ok(fs::unlinkat(&self.fd, segment(name)?, AtFlags::empty())?)
    }

    /// Removes an empty folder in this one.
    pub(crate) fn remove_folder(&self, name: &str) -> io::Result<()> {
        self.before(Operation::RemoveFolder)?;
        Ok(fs::unlinkat(&self.fd, segment(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Removes a folder and all that is in it, without recursion and without following a link. It is fine if it is not there.
    pub(crate) fn remove_tree(&self, name: &str) -> io::Result<()> {
        let root = match self.open(name) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => return self.remove_file(name),
        };
        let mut way = vec![(name.to_owned(), root.names()?, root)];
        while let Some((_, waiting, folder)) = way.last_mut() {
            match waiting.pop() {
                Some(child) => {
                    if folder.remove_file(&child).is_err() {
                        let inner = folder.open(&child)?;
                        let names = inner.names()?;
                        way.push((child, names, inner));
                    }
                }
                None => {
                    let Some((done, _, _)) = way.pop() else { break };
                    match way.last() {
                        Some((_, _, above)) => above.remove_folder(&done)?,
                        None => self.remove_folder(&done)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the names in this folder durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.before(Operation::Sync)?;
        Ok(fs::fsync(&self.fd)?)
    }

    /// Makes everything on this file system durable.
    #[cfg(target_os = "linux")]
    pub(crate) fn sync_file_system(&self) -> io::Result<()> {
        self.before(Operation::Sync)?;
        Ok(fs::syncfs(&self.fd)?)
    }

    /// Where there is no call for one file system, there is one for all.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync_file_system(&self) -> io::Result<()> {
        self.before(Operation::Sync)?;
        fs::sync();
        Ok(())
    }

    /// Takes the file that says who writes here, and waits for whoever has it. The lock ends with the file.
    pub(crate) fn lock(&self, name: &str) -> io::Result<File> {
        let file = self.lock_file(name)?;
        file.lock()?;
        Ok(file)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(fs::openat(&self.fd, segment(name)?, flags, Mode::from(0o644))?))
    }

    /// As [`Folder::lock`], without waiting.
    pub(crate) fn try_lock(&self, name: &str) -> io::Result<File> {
        let file = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing here"))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A name that stays in its folder.
fn segment(name: &str) -> io::Result<&str> {
    if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    Ok(name)
}
