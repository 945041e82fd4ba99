//! `sources.toml`: the attached folders, and the git repositories that the user listed.
//!
//! ```toml
//! [[directory]]
//! path = "/home/me/team/workflows"
//!
//! [[repository]]
//! location = "https://example.org/team/workflows.git"
//! branch = "main"
//! ```
//!
//! People edit this file too, so changes preserve comments and order. Repositories can only be added by hand: a caller
//! that could add a URL could make this machine fetch from it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use canon::error::Envelope;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use super::{error, read};

/// The maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 262_144;
/// The maximum number of attached folders.
pub(super) const MAX_DIRECTORIES: usize = 100;
/// The maximum number of repositories that are read.
pub(super) const MAX_REPOSITORIES: usize = 20;
/// How many times a lock is tried, and the pause between two attempts.
const LOCK_ATTEMPTS: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

const DIRECTORIES: &str = "directory";
const REPOSITORIES: &str = "repository";

/// The content of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Managed {
    pub(super) directories: Vec<Directory>,
    pub(super) repositories: Vec<Repository>,
    /// Messages about entries that could not be parsed.
    pub(super) troubles: Vec<String>,
}

/// An attached folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) added_at_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    /// A local path or a URL.
    pub(super) location: String,
    /// The branch. `None` means the default branch of the repository.
    pub(super) branch: Option<String>,
}

/// Reads the file. A missing file is treated as empty.
pub(super) fn read(file: &Path) -> Managed {
    let document = match load(file) {
        Ok(document) => document,
        Err(why) => {
            let troubles = vec![format!("{}: {why}", file.display())];
            return Managed { troubles, ..Managed::default() };
        }
    };
    let mut managed = Managed::default();
    let mut trouble = |what: String| managed.troubles.push(format!("{}: {what}", file.display()));
    for (key, item) in document.iter() {
        if !matches!(key, DIRECTORIES | REPOSITORIES) {
            trouble(format!("unknown key {key:?}; use `[[directory]]` or `[[repository]]`"));
        } else if !item.is_array_of_tables() {
            trouble(format!("`{key}` must be written as `[[{key}]]`"));
        }
    }
    for (index, table) in tables(&document, DIRECTORIES).enumerate() {
        if index == MAX_DIRECTORIES {
            trouble(format!("only the first {MAX_DIRECTORIES} of `[[directory]]` are read"));
            break;
        }
        match table.get("path").and_then(Item::as_str) {
            Some(path) if Path::new(path).is_absolute() => managed.directories.push(Directory {
                path: PathBuf::from(path),
                added_at_ms: table
                    .get("added_at_ms")
                    .and_then(Item::as_integer)
                    .and_then(|ms| u64::try_from(ms).ok()),
            }),
            _ => trouble(format!("`[[directory]]` number {} needs an absolute `path`", index + 1)),
        }
    }
    for (index, table) in tables(&document, REPOSITORIES).enumerate() {
        if index == MAX_REPOSITORIES {
            trouble(format!("only the first {MAX_REPOSITORIES} of `[[repository]]` are read"));
            break;
        }
        match table.get("location").and_then(Item::as_str) {
            Some(location) => managed.repositories.push(Repository {
                location: location.to_owned(),
                branch: table.get("branch").and_then(Item::as_str).map(str::to_owned),
            }),
            None => trouble(format!("`[[repository]]` number {} needs a `location`", index + 1)),
        }
    }
    managed
}

/// Adds a folder. Does nothing if it is already attached.
pub(super) fn attach(file: &Path, path: &str, now: SystemTime) -> Result<String, Envelope> {
    let path = normalised(path)?;
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(error::invalid_path(
                &path,
                "it is not a folder",
                "Give the folder that contains the files.",
            ));
        }
        Err(cause) => {
            let why = format!("it cannot be read ({cause})");
            return Err(error::invalid_path(&path, &why, "Create the folder first, or correct the path."));
        }
    }
    change(file, |document| {
        let item = document.entry(DIRECTORIES).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(directories) = item.as_array_of_tables_mut() else {
            return Err(error::unreadable_store(file, "`directory` is not written as `[[directory]]`"));
        };
        if directories.iter().any(|table| is_path(table, &path)) {
            return Ok(false);
        }
        if directories.len() >= MAX_DIRECTORIES {
            let why = format!("{MAX_DIRECTORIES} folders are attached, which is the limit");
            return Err(error::invalid_path(&path, &why, "Detach one that is no longer used."));
        }
        let mut table = Table::new();
        table.insert("path", value(path.as_str()));
        let added = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        table.insert("added_at_ms", value(i64::try_from(added).unwrap_or(i64::MAX)));
        directories.push(table);
        Ok(true)
    })?;
    Ok(path)
}

/// Removes a folder. Does nothing if it is not attached.
pub(super) fn detach(file: &Path, path: &str) -> Result<String, Envelope> {
    let path = normalised(path)?;
    if !file.try_exists().unwrap_or(true) {
        return Ok(path);
    }
    change(file, |document| {
        let Some(directories) = document.get_mut(DIRECTORIES).and_then(Item::as_array_of_tables_mut) else {
            return Ok(false);
        };
        let before = directories.len();
        directories.retain(|table| !is_path(table, &path));
        Ok(directories.len() != before)
    })?;
    Ok(path)
}

/// Normalizes an absolute path: removes `.` components and trailing slashes.
fn normalised(path: &str) -> Result<String, Envelope> {
    let refuse = |why: &str, fix: &str| Err(error::invalid_path(path, why, fix));
    if path.contains("://") || path.starts_with("git@") {
        return refuse(
            "it is a URL, and only the user decides where this machine fetches from",
            "Ask the user to write it under [[repository]] in sources.toml, or give a local folder.",
        );
    }
    if !path.starts_with('/') {
        return refuse("it is not absolute", "Give the absolute path.");
    }
    if path.len() > 4096 || path.chars().any(char::is_control) {
        return refuse(
            "it is too long, or contains control characters",
            "Give the path of an existing folder.",
        );
    }
    let mut clean = String::with_capacity(path.len());
    for component in Path::new(path).components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                clean.push('/');
                clean.push_str(&name.to_string_lossy());
            }
            // With symbolic links, the meaning of `..` depends on the disk, so a later detach could name a different
            // folder.
            Component::ParentDir | Component::Prefix(_) => {
                return refuse("it contains `..`", "Give the path without `..`.");
            }
        }
    }
    Ok(if clean.is_empty() { "/".to_owned() } else { clean })
}

fn tables<'a>(document: &'a DocumentMut, key: &str) -> impl Iterator<Item = &'a Table> {
    document.get(key).and_then(Item::as_array_of_tables).into_iter().flat_map(ArrayOfTables::iter)
}

/// Whether an entry has this path, however it was written by hand.
fn is_path(table: &Table, path: &str) -> bool {
    let written = table.get("path").and_then(Item::as_str);
    written.is_some_and(|written| written == path || normalised(written).is_ok_and(|written| written == path))
}

fn load(file: &Path) -> Result<DocumentMut, String> {
    let bytes = match read::regular(file, MAX_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DocumentMut::new()),
        Err(error) => return Err(error.to_string()),
    };
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    text.parse().map_err(|error: toml_edit::TomlError| format!("it is not TOML: {}", error.message()))
}

/// Changes the file atomically, under a lock. `edit` returns whether there is anything to write.
fn change(
    file: &Path,
    edit: impl FnOnce(&mut DocumentMut) -> Result<bool, Envelope>,
) -> Result<(), Envelope> {
    let unwritable = |cause: io::Error| error::unwritable_store(file, &cause);
    let parent = file.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(parent).map_err(unwritable)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let _lock =
        lock(&parent.join(format!(".{name}.lock"))).map_err(unwritable)?.ok_or_else(|| error::busy(file))?;
    let mut document = load(file).map_err(|why| error::unreadable_store(file, &why))?;
    if !edit(&mut document)? {
        return Ok(());
    }
    let temporary = parent.join(format!(".{name}.new"));
    write_synced(&temporary, document.to_string().as_bytes())
        .and_then(|()| fs::rename(&temporary, file))
        // Without this sync, a power failure could undo the rename.
        .and_then(|()| File::open(parent)?.sync_all())
        .map_err(unwritable)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Replaces the remains of a crash. Only the holder of the lock gets here.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Takes the lock, or returns `None` if another process holds it for a second.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}
