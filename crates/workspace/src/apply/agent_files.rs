//! The agent's side of a merged read-write slot: the entries on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};

use super::report::{Listed, Preserved, Why};
use crate::Error;
use crate::index::{Line, LineKind};
use crate::rooted::{Dir, Kind, Stat};

/// The time in which a second write may not change the timestamps: the coarsest file system clock.
const COARSE_NS: i64 = 2_000_000_000;

/// The entry at a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiskEntry {
    Nothing,
    /// Unknown: there is a link or file on the way. It belongs to the agent.
    Hidden,
    There(Stat),
}

/// Inspects a path without following links.
pub(super) fn look(root: &Dir, path: &str) -> DiskEntry {
    match root.stat(path) {
        Ok(Some(stat)) => DiskEntry::There(stat),
        Ok(None) => DiskEntry::Nothing,
        Err(_) => DiskEntry::Hidden,
    }
}

/// Whether the entry on disk matches a line: bytes, kind and mode. `written_at` is when the line
/// was last verified; `None` for a new line, whose times do not describe this file.
pub(super) fn is_same(root: &Dir, line: &Line, stat: Stat, written_at: Option<i64>) -> bool {
    let kind = match stat.kind {
        Kind::File => LineKind::File,
        Kind::Dir => LineKind::Dir,
        Kind::Link => LineKind::Link,
        Kind::Other => return false,
    };
    if kind != line.kind {
        return false;
    }
    match kind {
        LineKind::Dir => true,
        LineKind::Link => {
            let target = root.read_link(&line.path);
            target.is_ok_and(|target| target.to_str() == line.target.as_deref())
        }
        LineKind::File => {
            if stat.mode != line.mode || stat.size != line.size {
                return false;
            }
            let untouched = written_at.is_some_and(|written_at| {
                line.ino == stat.ino
                    && i128::from(line.mtime_ns) == stat.mtime_ns
                    && i128::from(line.ctime_ns) == stat.ctime_ns
                    && line.ctime_ns.max(line.mtime_ns) < written_at.saturating_sub(COARSE_NS)
            });
            // An unreadable file cannot be verified.
            untouched || hash(root, &line.path).is_ok_and(|hash| hash.to_hex().as_str() == line.blake3)
        }
    }
}

fn hash(root: &Dir, path: &str) -> io::Result<blake3::Hash> {
    let mut file = root.open_file(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(read) => {
                hasher.update(&buffer[..read]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writable repositories: kept or replaced as a whole, because half a checkout is useless.
#[derive(Debug, Default)]
pub(super) struct Repositories {
    /// By mount key: its path, the number of its base lines, and whether the agent changed it.
    found: BTreeMap<String, Repository>,
}

#[derive(Debug, Default)]
struct Repository {
    path: String,
    lines: u64,
    touched: bool,
}

impl Repositories {
    /// Adds a repository of the new plan.
    pub(super) fn expect(&mut self, mount_key: &str, path: &str) {
        let repository = Repository { path: path.to_owned(), ..Repository::default() };
        self.found.insert(mount_key.to_owned(), repository);
    }

    /// Learns from a base line which mounts were repositories.
    pub(super) fn learn(&mut self, line: &Line) {
        if let Some(key) = &line.mount_key
            && let Some(path) = line.path.strip_suffix("/.git/HEAD")
        {
            self.found
                .entry(key.clone())
                .or_insert_with(|| Repository { path: path.to_owned(), ..Repository::default() });
        }
    }

    /// Compares a base line with the disk.
    pub(super) fn compare(&mut self, root: &Dir, line: &Line, written_at: i64) {
        let Some(repository) = line.mount_key.as_ref().and_then(|key| self.found.get_mut(key)) else {
            return;
        };
        repository.lines += 1;
        repository.touched = repository.touched
            || match look(root, &line.path) {
                DiskEntry::There(stat) => !is_same(root, line, stat, Some(written_at)),
                DiskEntry::Nothing | DiskEntry::Hidden => true,
            };
    }

    /// The repositories to keep. A repository counts as changed if a file differs from the base,
    /// including `.git`, or if there is an additional file, even one that git ignores.
    pub(super) fn touched(self, root: &Dir, preserved: &mut Listed<Preserved>) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        for (key, repository) in self.found {
            let there = match root.open_dir(&repository.path) {
                // The directory itself has a line too.
                Ok(directory) => 1 + count_names(&directory, repository.lines),
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                // A link or file is in its place.
                Err(_) => u64::MAX,
            };
            let is_new = repository.lines == 0;
            let keep = if is_new { there > 1 } else { repository.touched || there != repository.lines };
            if keep && there > 0 {
                let why = if is_new { Why::Local } else { Why::Modified };
                preserved.push(Preserved { path: repository.path, why });
                touched.insert(key);
            } else if keep {
                preserved.push(Preserved { path: repository.path, why: Why::Deleted });
                touched.insert(key);
            }
        }
        touched
    }
}

/// Counts the names below a directory, up to `enough`.
fn count_names(directory: &Dir, enough: u64) -> u64 {
    let mut count = 0;
    let mut waiting = vec![String::new()];
    while let Some(path) = waiting.pop() {
        let names = directory.open_dir(&path).and_then(|directory| directory.names());
        // An unreadable entry counts as changed.
        let Ok(names) = names else { return u64::MAX - 1 };
        for (name, kind) in names {
            count += 1;
            if count > enough {
                return count;
            }
            let Some(name) = name.0.to_str() else { return u64::MAX - 1 };
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let is_dir = match kind {
                Some(kind) => kind == Kind::Dir,
                None => matches!(look(directory, &below), DiskEntry::There(stat) if stat.kind == Kind::Dir),
            };
            if is_dir {
                waiting.push(below);
            }
        }
    }
    count
}

/// An index that was read completely once, so that it can be relied on.
pub(super) fn read_base(state: &Dir, mut each: impl FnMut(&Line, i64)) -> Result<bool, Error> {
    let Some(mut reader) = open_base(state) else { return Ok(false) };
    let written_at = reader.header().written_at_ns;
    loop {
        match reader.next_line() {
            Ok(Some(line)) => each(&line, written_at),
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}

/// The previous index; `None` if there is none that can be read.
pub(super) fn open_base(state: &Dir) -> Option<crate::index::Reader<std::fs::File>> {
    let file = state.open_file(crate::index::FILE_NAME).ok()?;
    crate::index::Reader::new(file).ok()
}
