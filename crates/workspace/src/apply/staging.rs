//! Writers: they count, hash and store the output of resolvers in the staging folder.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use sha2::{Digest as _, Sha256};

use super::attempt::{Attempt, Event, Work};
use super::limits::{Count, Limits, Meter, SMALL};
use super::queue::Queue;
use super::records::{Record, Sorter};
use super::state;
use super::store::Store;
use crate::index::{Line, LineKind};
use crate::resolve::{Content, Item};
use crate::rooted::{Dir, Stat, refusal};
use crate::slot::Mode;
use crate::{Code, Error};

/// State shared by all writers of an apply.
pub(super) struct Shared<'a> {
    pub(super) staging: &'a Dir,
    pub(super) queue: Arc<Queue<Work>>,
    pub(super) limits: &'a Limits,
    pub(super) all: Count,
    pub(super) runs: Arc<AtomicU64>,
    /// The content store, if hard links are allowed.
    pub(super) store: Option<Store>,
    /// The access mode of each mount's slot.
    pub(super) granted: Vec<Mode>,
    /// Whether the file system may support sharing bytes; false after the first failure.
    pub(super) shares: AtomicBool,
}

pub(super) struct Writer<'a> {
    shared: &'a Shared<'a>,
    events: Sender<Event>,
    sorter: Sorter,
    /// The last used directory, which is usually the next one too.
    last: Option<(Arc<Attempt>, String, Dir)>,
    buffer: Vec<u8>,
    compared: Vec<u8>,
}

/// Facts about a written file.
struct Written {
    stat: Stat,
    blake3: blake3::Hash,
    size: u64,
    linked: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, events: Sender<Event>) -> Self {
        let sorter = Sorter::new(shared.staging, &shared.runs);
        Self { shared, events, sorter, last: None, buffer: vec![0; SMALL + 1], compared: Vec::new() }
    }

    /// Writes until the queue is closed, and returns the records.
    pub(super) fn run(mut self) -> Sorter {
        while let Some((attempt, batch)) = self.shared.queue.pop() {
            for item in batch {
                if attempt.ended().is_some() {
                    break;
                }
                if let Err(error) = self.write(&attempt, item) {
                    attempt.end(error);
                    self.shared.queue.wake();
                }
            }
            if attempt.written() {
                // The coordinator is gone only if the result no longer matters.
                let _ = self.events.send(Event::Drained(attempt));
            }
        }
        self.sorter
    }

    fn write(&mut self, attempt: &Arc<Attempt>, item: Item) -> Result<(), Error> {
        let shared = self.shared;
        let meter =
            Meter { limits: shared.limits, kind: attempt.kind(), mount: &attempt.count, all: &shared.all };
        meter.item()?;
        let entry = attempt.entry();
        let full = join([entry.slot.relative(), &entry.rel_path, &item.rel_path]);
        let (directory, name) = self.directory(attempt, &item.rel_path)?;
        let writable = entry.mode == Mode::ReadWrite && shared.granted[attempt.mount] == Mode::ReadWrite;
        let line = match item.content {
            Content::Directory => {
                directory.make_dirs(&name, 0o755).map_err(|error| self.failed(attempt, &full, &error))?;
                Line::directory(full, Some(entry.mount_key.clone()), if writable { 0o755 } else { 0o555 })
            }
            Content::Link(target) => {
                let made = directory.symlink(&target, &name).and_then(|()| directory.stat(&name));
                let stat = made.map_err(|error| self.failed(attempt, &full, &error))?;
                let stat =
                    stat.ok_or_else(|| self.failed(attempt, &full, &io::ErrorKind::NotFound.into()))?;
                Line {
                    kind: LineKind::Link,
                    blake3: blake3::hash(target.as_bytes()).to_hex().to_string(),
                    target: Some(target),
                    ..line_of(full, entry.mount_key.clone(), stat)
                }
            }
            content @ (Content::Bytes(_) | Content::File(_)) => {
                let mode = mode_of(writable, item.executable);
                let store = shared.store.as_ref().filter(|_| shared.granted[attempt.mount] == Mode::ReadOnly);
                let written = match content {
                    Content::Bytes(bytes) => {
                        meter.bytes(bytes.len() as u64, bytes.len() as u64)?;
                        let buffer = &mut self.compared;
                        write_whole(&directory, &name, &bytes, mode, item.executable, store, buffer)
                    }
                    Content::File(file) => {
                        self.write_file(&directory, &name, &file, mode, item.executable, store, &meter)?
                    }
                    Content::Link(_) | Content::Directory => return Ok(()),
                };
                let written = written.map_err(|error| self.failed(attempt, &full, &error))?;
                Line {
                    size: written.size,
                    mode,
                    blake3: written.blake3.to_hex().to_string(),
                    linked: written.linked,
                    ..line_of(full, entry.mount_key.clone(), written.stat)
                }
            }
        };
        let mount = u32::try_from(attempt.mount).unwrap_or(Record::NONE);
        self.sorter.push(Record { mount, attempt: attempt.number, line })
    }

    /// The open directory for a path of a mount, and the file name in it.
    fn directory(&mut self, attempt: &Arc<Attempt>, rel_path: &str) -> Result<(Dir, String), Error> {
        let top = attempt.name();
        if rel_path.is_empty() {
            return Ok((self.shared.staging.clone(), top));
        }
        let (parent, name) = rel_path.rsplit_once('/').unwrap_or(("", rel_path));
        if let Some((last, path, directory)) = &self.last
            && Arc::ptr_eq(last, attempt)
            && path == parent
        {
            return Ok((directory.clone(), name.to_owned()));
        }
        let path = join([&top, parent, ""]);
        let opened = match self.shared.staging.open_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.shared.staging.make_dirs(&path, 0o755).and_then(|()| self.shared.staging.open_dir(&path))
            }
            opened => opened,
        };
        let directory = opened.map_err(|error| self.failed(attempt, rel_path, &error))?;
        self.last = Some((Arc::clone(attempt), parent.to_owned(), directory.clone()));
        Ok((directory, name.to_owned()))
    }

    /// A file of any size. Small files are read as a whole; large files share their bytes if the
    /// file system supports that, and are read in chunks otherwise.
    #[expect(clippy::too_many_arguments, reason = "the parts of one call, each of another kind")]
    fn write_file(
        &mut self,
        directory: &Dir,
        name: &str,
        file: &File,
        mode: u32,
        executable: bool,
        store: Option<&Store>,
        meter: &Meter<'_>,
    ) -> Result<io::Result<Written>, Error> {
        let first = match read_at(file, &mut self.buffer, 0) {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        if first <= SMALL {
            meter.bytes(first as u64, first as u64)?;
            let bytes = &self.buffer[..first];
            return Ok(write_whole(directory, name, bytes, mode, executable, store, &mut self.compared));
        }
        let output = match directory.create_unfinished(name, mode) {
            Ok(output) => output,
            Err(error) => return Ok(Err(error)),
        };
        let shared = self.shared.shares.load(Ordering::Relaxed)
            && match directory.share_bytes(file, &output) {
                Ok(shared) => shared,
                Err(error) => return Ok(Err(error)),
            };
        if !shared {
            self.shared.shares.store(false, Ordering::Relaxed);
        }
        // Read shared bytes from this copy: the other file may be changing.
        let input = if shared { &output } else { file };
        let (mut blake, mut sha) = (blake3::Hasher::new(), Sha256::new());
        let mut size = 0_u64;
        loop {
            let read = match read_at(input, &mut self.buffer, size) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => return Ok(Err(error)),
            };
            size += read as u64;
            meter.bytes(read as u64, size)?;
            let bytes = &self.buffer[..read];
            blake.update(bytes);
            if store.is_some() {
                sha.update(bytes);
            }
            if !shared && let Err(error) = (&output).write_all(bytes) {
                return Ok(Err(error));
            }
        }
        Ok(finish(
            directory,
            name,
            &output,
            mode,
            executable,
            store.map(|store| (store, sha.finalize().to_vec())),
        )
        .map(|(stat, linked)| Written { stat, blake3: blake.finalize(), size, linked }))
    }

    fn failed(&self, attempt: &Attempt, path: &str, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                attempt.bad(&format!("{path} occurs twice, or as a file and as a directory"))
            }
            // The file of the resolver cannot be read from its beginning.
            io::ErrorKind::NotSeekable | io::ErrorKind::IsADirectory => {
                attempt.bad(&format!("{path} is not a regular file"))
            }
            _ => refusal(error, "stage", Path::new(path))
                .detail("mountKey", attempt.entry().mount_key.as_str()),
        }
    }
}

/// Writes a file from memory, or links it if the store has it.
fn write_whole(
    directory: &Dir,
    name: &str,
    bytes: &[u8],
    mode: u32,
    executable: bool,
    store: Option<&Store>,
    buffer: &mut Vec<u8>,
) -> io::Result<Written> {
    let blake3 = blake3::hash(bytes);
    let size = bytes.len() as u64;
    let store = store.map(|store| (store, Sha256::digest(bytes).to_vec()));
    if let Some((store, sha256)) = &store
        && bytes.len() <= SMALL
        && let Some(stat) = store.link(sha256, bytes, executable, buffer, (directory, name))?
    {
        return Ok(Written { stat, blake3, size, linked: true });
    }
    let mut file = directory.create_unfinished(name, mode)?;
    file.write_all(bytes)?;
    let (stat, linked) = finish(directory, name, &file, mode, executable, store)?;
    Ok(Written { stat, blake3, size, linked })
}

/// Sets the mode of a written file, and adds it to the store if it belongs there.
fn finish(
    directory: &Dir,
    name: &str,
    file: &File,
    mode: u32,
    executable: bool,
    store: Option<(&Store, Vec<u8>)>,
) -> io::Result<(Stat, bool)> {
    let stat = directory.finish_file(file, mode)?;
    let shared = match store {
        Some((store, sha256)) => store.adopt(&sha256, executable, directory, name)?,
        None => None,
    };
    Ok(shared.map_or((stat, false), |stat| (stat, true)))
}

/// Fills the buffer up to the end of the file. A single read may return less.
fn read_at(file: &File, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The permission bits of a file.
pub(super) const fn mode_of(writable: bool, executable: bool) -> u32 {
    match (writable, executable) {
        (false, false) => 0o444,
        (false, true) => 0o555,
        (true, false) => 0o644,
        (true, true) => 0o755,
    }
}

/// The non-empty segments of a path.
pub(super) fn join(parts: [&str; 3]) -> String {
    let mut path = String::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(part);
    }
    path
}

/// An index line from file metadata, without content.
pub(super) fn line_of(path: String, mount_key: String, stat: Stat) -> Line {
    let mut line = Line {
        path,
        mount_key: Some(mount_key),
        kind: LineKind::File,
        size: 0,
        mode: stat.mode,
        blake3: String::new(),
        mtime_ns: 0,
        ctime_ns: 0,
        ino: 0,
        linked: false,
        target: None,
    };
    look(&mut line, stat);
    line
}

/// Records times and inode number.
pub(super) fn look(line: &mut Line, stat: Stat) {
    line.mtime_ns = i64::try_from(stat.mtime_ns).unwrap_or(i64::MAX);
    line.ctime_ns = i64::try_from(stat.ctime_ns).unwrap_or(i64::MAX);
    line.ino = stat.ino;
}

/// The staging folder of an apply, new and empty.
pub(super) fn open(state: &Dir, apply_id: &str) -> Result<(String, Dir), Error> {
    let path = format!("{}/{apply_id}", state::STAGING);
    let io = state::failed("make", &path);
    state.make_dirs(state::STAGING, 0o700).map_err(&io)?;
    state.make_dir(&path, 0o700).map_err(&io)?;
    let staging = state.open_dir(&path).map_err(&io)?;
    if staging.stat("").map_err(&io)?.map(|stat| stat.dev)
        != state.stat("").map_err(&io)?.map(|stat| stat.dev)
    {
        return Err(Error::new(Code::ApplyStateDirOtherFs, "the staging folder is on another file system"));
    }
    staging.make_dir("mounts", 0o700).map_err(&io)?;
    staging.make_dir("slots", 0o700).map_err(io)?;
    Ok((path, staging))
}
