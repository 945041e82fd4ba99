//! Copies files and folders: owner-only, without following links, skipping files that disappear
//! meanwhile.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;
use storage::files::chain_within;

#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Skipped: not a file, folder or link.
    pub(super) skipped: Vec<String>,
}

/// A copy in progress.
pub(super) struct Tree {
    from: PathBuf,
    to: PathBuf,
    /// The start of the copy. The runs in the copy are from this time.
    began: SystemTime,
    copied: Copied,
}

/// The record written to a session when its run ends it.
const ENDED: &str = "ended.json";
/// How many skipped names are reported.
const MAX_SKIPPED: usize = 100;

impl Tree {
    /// Starts a copy in a new folder.
    pub(super) fn new(from: &Path, to: &Path, began: SystemTime) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(to)?;
        Ok(Self { from: from.to_owned(), to: to.to_owned(), began, copied: Copied::default() })
    }

    /// Counts a file that was copied by other means, and syncs it.
    pub(super) fn count(&mut self, file: &Path) -> io::Result<()> {
        let file = File::open(file)?;
        file.sync_all()?;
        self.copied.files += 1;
        self.copied.bytes += file.metadata()?.len();
        Ok(())
    }

    /// The subfolders of a folder; empty if it does not exist.
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

    /// Copies a session, replacing an earlier attempt. The manifest comes first, because it refers
    /// only to existing files.
    pub(super) fn session(&mut self, session: &Path) -> io::Result<()> {
        match fs::remove_dir_all(self.to.join(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.folder(session)?;
        let (manifest, chain) = (session.join("manifest.jsonl"), session.join("chain.jsonl"));
        self.one(&manifest)?;
        self.one(&chain)?;
        self.cut_chain(&manifest, &chain)?;
        self.below(session, &|relative| {
            let name = relative.file_name().unwrap_or_default();
            name != ".lock" && !is_unfinished(relative) && relative != manifest && relative != chain
        })
    }

    /// Cuts a copied chain to the copied manifest: steps that were recorded between the two copies would look like steps that
    /// were removed.
    fn cut_chain(&self, manifest: &Path, chain: &Path) -> io::Result<()> {
        let (manifest, chain) = (self.to.join(manifest), self.to.join(chain));
        if !chain.try_exists()? {
            return Ok(());
        }
        let manifest = fs::read(manifest)?;
        // The line end of the last record may not have been written yet.
        let ends = |byte: &&u8| **byte == b'\n';
        let records = manifest.iter().filter(ends).count() as u64 + u64::from(manifest.ends_with(b"}"));
        let copied = fs::read(&chain)?;
        let kept = chain_within(&copied, records).len() as u64;
        let file = OpenOptions::new().write(true).open(&chain)?;
        file.set_len(kept)?;
        file.sync_all()
    }

    /// Copies the other files of a tenant.
    pub(super) fn rest(&mut self, root: &Path) -> io::Result<()> {
        let sessions = root.join("sessions");
        let is_default = root.as_os_str().is_empty();
        for name in names(&self.from.join(root))? {
            let relative = root.join(&name);
            let text = name.to_string_lossy();
            let derived = text == "cache" || relative == sessions;
            // SQLite copies the database; locks and addresses belong to a process; tenants are
            // copied one by one.
            let ours = text.starts_with("runs.sqlite3")
                || text == "serve.lock"
                || text == "serve.json"
                || text == "tenants";
            if derived || (is_default && ours) {
                continue;
            }
            // Agents choose their file names freely. SQLite's side files belong to the process that
            // has the database open.
            let is_workspace = is_default && text == "workspaces";
            self.entry(&relative, &|relative| {
                is_workspace || !(is_unfinished(relative) || is_log_of_database(relative))
            })?;
        }
        Ok(())
    }

    /// Syncs everything and returns the totals.
    pub(super) fn finish(self) -> io::Result<Copied> {
        sync_folders(&self.to)?;
        Ok(self.copied)
    }

    /// Copies one file and creates its folder, if the file exists and is not copied yet.
    pub(super) fn file_first(&mut self, relative: &Path) -> io::Result<()> {
        if let Some(folder) = relative.parent().filter(|folder| self.from.join(folder).is_dir()) {
            self.one(folder)?;
        }
        self.one(relative).map(drop)
    }

    /// Copies the contents of a folder iteratively: the depth of a tree is bounded by the disk, not
    /// by the stack.
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

    /// Copies one entry, unless it is copied already. Returns whether it is a folder.
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
            // A run in the copy still waits for this session. If the run was ended before, its
            // record ends the session again.
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

    /// Copies a database that another process may be writing, unless it is copied already.
    fn database(&mut self, relative: &Path) -> io::Result<()> {
        let to = self.to.join(relative);
        if to.try_exists()? {
            return Ok(());
        }
        storage::sqlite::copy_database(&self.from.join(relative), &to).map_err(io::Error::other)?;
        self.count(&to)
    }

    /// Copies a file, unless it is copied already.
    fn file(&mut self, relative: &Path) -> io::Result<()> {
        let (from, to) = (self.from.join(relative), self.to.join(relative));
        // A link or pipe may have replaced the file meanwhile: do not follow it and do not block on
        // it.
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
        // Keep the owner's execute permission; other users get no access.
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

/// Whether a path is a database of the workflow stores. Other files in there are user data,
/// whatever their names.
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

/// The suffix of unfinished files, and the prefix of unfinished sessions.
fn is_unfinished(relative: &Path) -> bool {
    let name = relative.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".tmp") || name.starts_with(".staging-") || name.starts_with(".trash-")
}

/// The sorted names in a folder; empty if it does not exist.
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
