//! An in-memory disk, for a data directory that does not exist, and for data that does not have to outlive the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskPath, FileKind, Lock, Sharing, Stat, Unsynced};

/// An empty in-memory disk. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<DiskPath, Entry>,
    locks: BTreeMap<DiskPath, Holders>,
    /// Counts changes. Used for modification times, file ids and [`Disk::unique`].
    ticks: u64,
}

#[derive(Debug)]
enum Entry {
    Dir,
    File { bytes: Vec<u8>, modified: u64, id: u64 },
}

#[derive(Debug)]
enum Holders {
    One,
    Many(usize),
}

impl MemoryDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Checks that every ancestor of a path is a directory.
    fn check_parent(&self, path: &DiskPath) -> io::Result<()> {
        let Some(parent) = parent(path) else { return Ok(()) };
        self.check_parent(&parent)?;
        match self.entries.get(&parent) {
            Some(Entry::Dir) => Ok(()),
            Some(Entry::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// As [`Self::check_parent`], for operations that succeed if nothing exists at the path.
    fn check_parent_if_any(&self, path: &DiskPath) -> io::Result<()> {
        match self.check_parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            checked => checked,
        }
    }

    fn has_children(&self, dir: &DiskPath) -> bool {
        self.entries.keys().any(|path| parent(path).as_ref() == Some(dir))
    }

    /// The content of a file, which is created if it does not exist. Updates its modification time.
    fn changed(&mut self, file: &DiskPath) -> io::Result<&mut Vec<u8>> {
        self.check_parent(file)?;
        let tick = self.tick();
        let fresh = Entry::File { bytes: Vec::new(), modified: tick, id: tick };
        match self.entries.entry(file.clone()).or_insert(fresh) {
            Entry::File { bytes, modified, .. } => {
                *modified = tick;
                Ok(bytes)
            }
            Entry::Dir => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn content(&self, file: &DiskPath) -> io::Result<&[u8]> {
        match self.entries.get(file) {
            Some(Entry::File { bytes, .. }) => Ok(bytes),
            Some(Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => self.check_parent(file).and_then(|()| Err(io::ErrorKind::NotFound.into())),
        }
    }
}

fn parent(path: &DiskPath) -> Option<DiskPath> {
    path.split().0.map(|dir| DiskPath::parse(dir).expect("the directory of a path is a path"))
}

/// A handle whose sync does nothing.
struct Kept;

impl Unsynced for Kept {
    fn sync(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Held {
    disk: MemoryDisk,
    file: DiskPath,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        match state.locks.get_mut(&self.file) {
            Some(Holders::Many(count)) if *count > 1 => *count -= 1,
            Some(Holders::Many(_) | Holders::One) | None => {
                state.locks.remove(&self.file);
            }
        }
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        state.check_parent(dir)?;
        match state.entries.entry(dir.clone()).or_insert(Entry::Dir) {
            Entry::Dir => Ok(()),
            Entry::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        *self.state().changed(file)? = bytes.to_vec();
        Ok(Box::new(Kept))
    }

    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        self.state().changed(file)?.extend_from_slice(bytes);
        Ok(Box::new(Kept))
    }

    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut state = self.state();
        state.content(file)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        state.changed(file)?.resize(len, 0);
        Ok(Box::new(Kept))
    }

    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        let is_dir = matches!(state.entries.get(from).ok_or(io::ErrorKind::NotFound)?, Entry::Dir);
        state.check_parent(to)?;
        if from == to {
            return Ok(());
        }
        match state.entries.get(to) {
            Some(Entry::Dir) if !is_dir => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Entry::Dir) if state.has_children(to) => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            Some(Entry::File { .. }) if is_dir => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        let below = format!("{}/", from.as_str());
        if to.as_str().starts_with(&below) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let moved: Vec<_> =
            state.entries.keys().filter(|path| path.as_str().starts_with(&below)).cloned().collect();
        for path in moved.iter().chain([from]) {
            let rest = &path.as_str()[from.as_str().len()..];
            let renamed = DiskPath::parse(&format!("{to}{rest}")).map_err(io::Error::other)?;
            let entry = state.entries.remove(path).expect("the path was just listed");
            state.entries.insert(renamed, entry);
        }
        Ok(())
    }

    fn sync_file(&self, file: &DiskPath) -> io::Result<()> {
        self.state().content(file).map(drop)
    }

    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()> {
        let Some(dir) = dir else { return Ok(()) };
        match self.state().entries.get(dir) {
            Some(Entry::Dir) => Ok(()),
            Some(Entry::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove_file(&self, file: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        state.check_parent_if_any(file)?;
        if matches!(state.entries.get(file), Some(Entry::Dir)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.entries.remove(file);
        Ok(())
    }

    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        state.check_parent_if_any(dir)?;
        match state.entries.get(dir) {
            Some(Entry::File { .. }) => return Err(io::ErrorKind::NotADirectory.into()),
            Some(Entry::Dir) if state.has_children(dir) => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            Some(Entry::Dir) | None => {}
        }
        state.entries.remove(dir);
        Ok(())
    }

    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        let rest = from(state.content(file)?, offset);
        if rest.len() as u64 > max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(rest.to_vec()) }
    }

    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        let rest = from(state.content(file)?, offset);
        Ok(rest[..usize::try_from(len).map_or(rest.len(), |len| len.min(rest.len()))].to_vec())
    }

    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>> {
        Ok(self.state().entries.get(path).map(|entry| match entry {
            Entry::Dir => Stat { kind: FileKind::Dir, len: 0, modified_ms: 0, id: 0 },
            Entry::File { bytes, modified, id } => {
                Stat { kind: FileKind::File, len: bytes.len() as u64, modified_ms: *modified, id: *id }
            }
        }))
    }

    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_parent_if_any(dir)?;
        if matches!(state.entries.get(dir), Some(Entry::File { .. })) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let children = state.entries.keys().filter(|path| parent(path).as_ref() == Some(dir));
        Ok(children.map(|path| path.split().1.to_owned()).collect())
    }

    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>> {
        let mut state = self.state();
        if state.content(file).is_err() {
            state.changed(file)?;
        }
        match (state.locks.get_mut(file), sharing) {
            (None, Sharing::Exclusive) => drop(state.locks.insert(file.clone(), Holders::One)),
            (None, Sharing::Shared) => drop(state.locks.insert(file.clone(), Holders::Many(1))),
            (Some(Holders::Many(count)), Sharing::Shared) => *count += 1,
            (Some(Holders::One), _) | (Some(Holders::Many(_)), Sharing::Exclusive) => return Ok(None),
        }
        drop(state);
        Ok(Some(Box::new(Held { disk: self.clone(), file: file.clone() })))
    }

    fn unique(&self) -> u64 {
        self.state().tick()
    }
}

fn from(bytes: &[u8], offset: u64) -> &[u8] {
    &bytes[usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()))..]
}
