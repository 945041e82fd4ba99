//! Copying files and folders: owner-only, no link followed, whatever vanishes meanwhile left out.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// What is neither a file nor a folder nor a link.
    pub(super) skipped: Vec<String>,
}

/// A copy under way.
pub(super) struct Tree {
    from: PathBuf,
    to: PathBuf,
    /// Since when the copy is under way. The runs of the copy are those of then.
    began: SystemTime,
    copied: Copied,
}

/// What is written down of a session when its run ends it.
const ENDED: &str = "ended.json";
/// How many names that were left out are told.
const MAX_SKIPPED: usize = 100;

impl Tree {
    /// Begins a copy in a folder, which is made.
    pub(super) fn new(from: &Path, to: &Path, began: SystemTime) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(to)?;
        Ok(Self { from: from.to_owned(), to: to.to_owned(), began, copied: Copied::default() })
    }

    /// Counts a file that somebody else copied, and makes it durable.
    pub(super) fn count(&mut self, file: &Path) -> io::Result<()> {
        let file = File::open(file)?;
        file.sync_all()?;
        self.copied.files += 1;
        self.copied.bytes += file.metadata()?.len();
        Ok(())
    }

    /// The folders in a folder; none where it is not there.
    pub(super) fn folders(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut found = Vec::new();
        for name in names(&self.from.join(folder))? {
            let metadata = fs::symlink_metadata(self.from.join(folder).join(&name));
            if metadata.is_ok_and(|metadata| metadata.is_dir()) {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Copies a session, in place of what an earlier attempt left: its manifest first, which names nothing that is not there.
    pub(super) fn session(&mut self, session: &Path) -> io::Result<()> {
        match fs::remove_dir_all(self.to.join(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.folder(session)?;
        let manifest = session.join("manifest.jsonl");
        self.one(&manifest)?;
        self.below(session, &|relative| {
            let name = relative.file_name().unwrap_or_default();
            name != ".lock" && !is_unfinished(relative) && relative != manifest
        })
    }

    /// Copies whatever else a tenant has.
    pub(super) fn rest(&mut self, root: &Path) -> io::Result<()> {
        let sessions = root.join("sessions");
        let is_default = root.as_os_str().is_empty();
        for name in names(&self.from.join(root))? {
            let relative = root.join(&name);
            let text = name.to_string_lossy();
            let derived = text == "cache" || relative == sessions;
            // The database is copied by SQLite; locks and addresses are those of a process; tenants are copied one by one.
            let ours = text.starts_with("runs.sqlite3")
                || text == "serve.lock"
                || text == "serve.json"
                || text == "tenants";
            if derived || (is_default && ours) {
                continue;
            }
            // An agent names its files as it likes. What SQLite keeps beside a database belongs to the process that has it open.
            let is_workspace = is_default && text == "workspaces";
            self.entry(&relative, &|relative| {
                is_workspace || !(is_unfinished(relative) || is_log_of_database(relative))
            })?;
        }
        Ok(())
    }

    /// Makes all of it durable, and says what it is.
    pub(super) fn finish(self) -> io::Result<Copied> {
        sync_folders(&self.to)?;
        Ok(self.copied)
    }

    /// Copies one file together with its folder, where it is there. What is there is not copied again.
    pub(super) fn file_first(&mut self, relative: &Path) -> io::Result<()> {
        if let Some(folder) = relative.parent().filter(|folder| self.from.join(folder).is_dir()) {
            self.one(folder)?;
        }
        self.one(relative).map(drop)
    }

    /// Copies what is in a folder, without going into itself: the depth of a tree is bounded by the disk, not by the stack.
    fn below(&mut self, folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            for name in names(&self.from.join(&folder))? {
                let relative = folder.join(name);
                if is_wanted(&relative) && self.one(&relative)? {
                    open.push(relative);
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, relative: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        if is_wanted(relative) && self.one(relative)? {
            self.below(relative, is_wanted)?;
        }
        Ok(())
    }

    /// Copies one thing, unless it is there. Whether it is a folder.
    fn one(&mut self, relative: &Path) -> io::Result<bool> {
        let from = self.from.join(relative);
        let metadata = match fs::symlink_metadata(&from) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.folder(relative)?;
        } else if kind.is_symlink() {
            match symlink(fs::read_link(&from)?, self.to.join(relative)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => self.copied.files += 1,
            }
        } else if !kind.is_file() {
            if self.copied.skipped.len() < MAX_SKIPPED {
                self.copied.skipped.push(relative.display().to_string());
            }
        } else if relative.file_name().is_some_and(|name| name == ENDED)
            && metadata.modified().is_ok_and(|at| at >= self.began)
        {
            // A run of the copy still waits for it. Where the run was ended before, its own record ends the session again.
        } else if is_database(relative) {
            self.database(relative)?;
        } else {
            self.file(relative)?;
        }
        Ok(kind.is_dir())
    }

    fn folder(&self, relative: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.to.join(relative))
    }

    /// Copies a database that somebody may be writing to, unless it is there.
    fn database(&mut self, relative: &Path) -> io::Result<()> {
        let to = self.to.join(relative);
        if to.try_exists()? {
            return Ok(());
        }
        storage::sqlite::copy_database(&self.from.join(relative), &to).map_err(io::Error::other)?;
        self.count(&to)
    }

    /// Copies a file, unless it is there.
    fn file(&mut self, relative: &Path) -> io::Result<()> {
        let (from, to) = (self.from.join(relative), self.to.join(relative));
        // Should a link or a pipe have taken its place meanwhile, nothing is followed, and nobody waits.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&from);
        let mut source = match opened {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Ok(()),
            Err(error) => return Err(error),
        };
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Ok(());
        }
        // What a program is allowed to its owner it stays; nobody else is allowed anything.
        let mode = (metadata.permissions().mode() & 0o700) | 0o600;
        let mut target = match OpenOptions::new().write(true).create_new(true).mode(mode).open(&to) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        };
        self.copied.bytes += io::copy(&mut source, &mut target)?;
        self.copied.files += 1;
        target.set_modified(metadata.modified()?)?;
        target.sync_all()
    }
}

/// Whether a path is a database of the stores that workflows use. Files and blobs in there are theirs, whatever they are named.
fn is_database(relative: &Path) -> bool {
    in_stores(relative) && relative.extension().is_some_and(|ending| ending == "sqlite3")
}

fn is_log_of_database(relative: &Path) -> bool {
    let name = relative.file_name().unwrap_or_default().to_string_lossy();
    in_stores(relative) && (name.ends_with(".sqlite3-wal") || name.ends_with(".sqlite3-shm"))
}

fn in_stores(relative: &Path) -> bool {
    relative.starts_with("surfaces")
        && !relative.starts_with("surfaces/files")
        && !relative.starts_with("surfaces/blobs")
}

/// What the names of unfinished files end with, and what those of unfinished sessions begin with.
fn is_unfinished(relative: &Path) -> bool {
    let name = relative.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".tmp") || name.starts_with(".staging-") || name.starts_with(".trash-")
}

/// The names in a folder, in order; none where it is not there.
fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

fn sync_folders(root: &Path) -> io::Result<()> {
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for name in names(&folder)? {
            let path = folder.join(name);
            if fs::symlink_metadata(&path)?.is_dir() {
                open.push(path);
            }
        }
        File::open(&folder)?.sync_all()?;
    }
    Ok(())
}
