//! An in-memory disk that injects faults.
//!
//! It keeps two versions of everything: what programs see, and what would survive a power failure. Only a sync copies
//! from the first to the second. A test creates a disk with a [`Fault`], runs an operation of the store until the fault
//! occurs, takes the [`surviving`](FaultyDisk::surviving) image, and checks how the store recovers from it. The number of
//! writes of a run without a fault is the number of crash points to enumerate.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskPath, FileKind, Lock, Sharing, Stat, Unsynced};

/// The fault to inject. Writes, syncs, renames and removals count as writes; reads do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The machine stops before this write: it and all later operations fail, including reads.
    CrashBefore(usize),
    /// From this write on, the disk is full: the first write fits half, later ones nothing.
    FullFrom(usize),
    /// This write or sync fails once.
    ErrorAt(usize),
    /// All writes fail.
    ReadOnly,
}

/// What survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Everything that was written, as after a crash of the process only.
    Everything,
    /// Only synced names and synced content.
    OnlySynced,
    /// All names, but only synced content.
    NamesWithoutContent,
    /// All content, but only synced names.
    ContentWithoutNames,
    /// All names, and the first half of unsynced content.
    Torn,
    /// All names. Unsynced content keeps its length but consists of NULs.
    Zeroed,
}

impl Survival {
    pub const ALL: [Self; 6] = [
        Self::Everything,
        Self::OnlySynced,
        Self::NamesWithoutContent,
        Self::ContentWithoutNames,
        Self::Torn,
        Self::Zeroed,
    ];
}

/// An in-memory disk. Clones share their content.
#[derive(Clone, Debug)]
pub struct FaultyDisk(Arc<Mutex<State>>);

type Inode = usize;

#[derive(Debug)]
struct State {
    nodes: Vec<Node>,
    fault: Fault,
    writes: usize,
    clock_ms: u64,
    unique: u64,
    exclusive: BTreeSet<String>,
    shared: BTreeMap<String, usize>,
}

#[derive(Clone, Debug)]
enum Node {
    Dir { names: BTreeMap<String, Inode>, synced: BTreeMap<String, Inode> },
    File { bytes: Vec<u8>, synced: Vec<u8>, modified_ms: u64 },
}

impl Node {
    const fn dir() -> Self {
        Self::Dir { names: BTreeMap::new(), synced: BTreeMap::new() }
    }
}

impl Default for FaultyDisk {
    fn default() -> Self {
        Self::new(Fault::None)
    }
}

impl FaultyDisk {
    /// Creates an empty disk.
    pub fn new(fault: Fault) -> Self {
        let state = State {
            nodes: vec![Node::dir()],
            fault,
            writes: 0,
            clock_ms: 0,
            unique: 0,
            exclusive: BTreeSet::new(),
            shared: BTreeMap::new(),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Creates an independent disk with the same content.
    #[must_use]
    pub fn copy(&self, fault: Fault) -> Self {
        let state = self.state();
        let copy = Self::new(fault);
        copy.state().nodes.clone_from(&state.nodes);
        copy.state().clock_ms = state.clock_ms;
        copy
    }

    /// Creates a healthy disk with what would survive a crash now.
    #[must_use]
    pub fn surviving(&self, survival: Survival) -> Self {
        let mut after = self.copy(Fault::None);
        let state = Arc::get_mut(&mut after.0).expect("the copy is not shared yet");
        let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for node in &mut state.nodes {
            match node {
                Node::Dir { names, synced } => match survival {
                    Survival::OnlySynced | Survival::ContentWithoutNames => names.clone_from(synced),
                    _ => synced.clone_from(names),
                },
                Node::File { bytes, synced, .. } => {
                    match survival {
                        Survival::OnlySynced | Survival::NamesWithoutContent => bytes.clone_from(synced),
                        Survival::Torn if bytes != synced => {
                            let kept = common(bytes, synced);
                            bytes.truncate(kept + (bytes.len() - kept) / 2);
                        }
                        Survival::Zeroed if bytes != synced => {
                            let kept = common(bytes, synced);
                            bytes[kept..].fill(0);
                        }
                        Survival::Everything
                        | Survival::ContentWithoutNames
                        | Survival::Torn
                        | Survival::Zeroed => {}
                    }
                    synced.clone_from(bytes);
                }
            }
        }
        after
    }

    /// The number of writes so far.
    pub fn writes(&self) -> usize {
        self.state().writes
    }

    /// Changes the fault, and restarts the count of writes.
    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = fault;
        state.writes = 0;
    }

    /// Sets the clock for modification times.
    pub fn set_clock(&self, now_ms: u64) {
        self.state().clock_ms = now_ms;
    }

    /// All files with their bytes, sorted by path.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let mut files = BTreeMap::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((path, inode)) = open.pop() {
            match &state.nodes[inode] {
                Node::File { bytes, .. } => {
                    files.insert(path, bytes.clone());
                }
                Node::Dir { names, .. } => open.extend(names.iter().map(|(name, inode)| {
                    (if path.is_empty() { name.clone() } else { format!("{path}/{name}") }, *inode)
                })),
            }
        }
        files
    }

    /// Replaces the bytes of a file without counting as a write, to simulate bit rot.
    ///
    /// # Panics
    /// The file does not exist.
    pub fn overwrite(&self, path: &str, content: Vec<u8>) {
        let mut state = self.state();
        let inode = state.find(path).expect("the file exists");
        let Node::File { bytes, synced, .. } = &mut state.nodes[inode] else {
            panic!("{path} is not a file")
        };
        bytes.clone_from(&content);
        *synced = content;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

fn dead() -> io::Error {
    io::Error::other("the machine has stopped")
}

/// How much of a write succeeds.
enum Permit {
    Whole,
    Half,
}

impl State {
    fn write(&mut self) -> io::Result<Permit> {
        let number = self.writes;
        self.writes += 1;
        self.clock_ms += 1;
        match self.fault {
            Fault::CrashBefore(point) if number >= point => Err(dead()),
            Fault::FullFrom(point) if number == point => Ok(Permit::Half),
            Fault::FullFrom(point) if number > point => Err(io::ErrorKind::StorageFull.into()),
            Fault::ErrorAt(point) if number == point => Err(io::Error::other("the disk reports an error")),
            Fault::ReadOnly => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            _ => Ok(Permit::Whole),
        }
    }

    /// Counts a write that needs no space, so that it succeeds on a full disk.
    fn change(&mut self) -> io::Result<()> {
        if matches!(self.fault, Fault::FullFrom(_)) {
            self.writes += 1;
            return Ok(());
        }
        self.write().map(drop)
    }

    fn alive(&self) -> io::Result<()> {
        match self.fault {
            Fault::CrashBefore(point) if self.writes > point => Err(dead()),
            _ => Ok(()),
        }
    }

    fn find(&self, path: &str) -> io::Result<Inode> {
        let mut inode = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Node::Dir { names, .. } = &self.nodes[inode] else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            inode = *names.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    fn names(&mut self, dir: Option<&str>) -> io::Result<&mut BTreeMap<String, Inode>> {
        let inode = self.find(dir.unwrap_or_default())?;
        match &mut self.nodes[inode] {
            Node::Dir { names, .. } => Ok(names),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn make(&mut self, path: &DiskPath, node: Node) -> io::Result<Inode> {
        let (dir, name) = path.split();
        let inode = self.nodes.len();
        if let Some(existing) = self.names(dir)?.get(name) {
            return Ok(*existing);
        }
        self.names(dir)?.insert(name.to_owned(), inode);
        self.nodes.push(node);
        Ok(inode)
    }

    fn file(&mut self, path: &DiskPath) -> io::Result<(Inode, &mut Vec<u8>, &mut u64)> {
        let fresh = Node::File { bytes: Vec::new(), synced: Vec::new(), modified_ms: 0 };
        let inode = self.make(path, fresh)?;
        match &mut self.nodes[inode] {
            Node::File { bytes, modified_ms, .. } => Ok((inode, bytes, modified_ms)),
            Node::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn put(&mut self, path: &DiskPath, bytes: &[u8], keep: bool) -> io::Result<Inode> {
        let permit = self.write()?;
        let now = self.clock_ms;
        let (inode, content, modified) = self.file(path)?;
        if !keep {
            content.clear();
        }
        *modified = now;
        match permit {
            Permit::Whole => {
                content.extend_from_slice(bytes);
                Ok(inode)
            }
            Permit::Half => {
                content.extend_from_slice(&bytes[..bytes.len() / 2]);
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }
}

struct Pending<'d> {
    disk: &'d FaultyDisk,
    inode: Inode,
}

impl Unsynced for Pending<'_> {
    fn sync(self: Box<Self>) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        if let Node::File { bytes, synced, .. } = &mut state.nodes[self.inode] {
            synced.clone_from(bytes);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Held {
    disk: FaultyDisk,
    path: String,
    sharing: Sharing,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        match self.sharing {
            Sharing::Exclusive => {
                state.exclusive.remove(&self.path);
            }
            Sharing::Shared => {
                let holders = state.shared.get_mut(&self.path).expect("the lock is held");
                *holders -= 1;
                if *holders == 0 {
                    state.shared.remove(&self.path);
                }
            }
        }
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        if let Ok(inode) = state.find(dir.as_str()) {
            state.alive()?;
            return match &state.nodes[inode] {
                Node::Dir { .. } => Ok(()),
                Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
            };
        }
        match state.write()? {
            Permit::Whole => state.make(dir, Node::dir()).map(drop),
            Permit::Half => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn create(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let inode = self.state().put(file, bytes, false)?;
        Ok(Box::new(Pending { disk: self, inode }))
    }

    fn append(&self, file: &DiskPath, bytes: &[u8]) -> io::Result<Box<dyn Unsynced + '_>> {
        let inode = self.state().put(file, bytes, true)?;
        Ok(Box::new(Pending { disk: self, inode }))
    }

    fn truncate(&self, file: &DiskPath, len: u64) -> io::Result<Box<dyn Unsynced + '_>> {
        let mut state = self.state();
        state.find(file.as_str())?;
        state.change()?;
        let (inode, bytes, _) = state.file(file)?;
        bytes.resize(usize::try_from(len).expect("files in memory are small"), 0);
        Ok(Box::new(Pending { disk: self, inode }))
    }

    fn rename(&self, from: &DiskPath, to: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.find(from.as_str())?;
        if let Ok(target) = state.find(to.as_str())
            && let Node::Dir { names, .. } = &state.nodes[target]
            && !names.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change()?;
        let ((from_dir, from), (to_dir, to)) = (from.split(), to.split());
        state.names(to_dir)?.insert(to.to_owned(), inode);
        state.names(from_dir)?.remove(from);
        Ok(())
    }

    fn sync_file(&self, file: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.find(file.as_str())?;
        state.change()?;
        match &mut state.nodes[inode] {
            Node::File { bytes, synced, .. } => synced.clone_from(bytes),
            Node::Dir { .. } => return Err(io::ErrorKind::IsADirectory.into()),
        }
        Ok(())
    }

    fn sync_dir(&self, dir: Option<&DiskPath>) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.find(dir.map_or("", DiskPath::as_str))?;
        state.change()?;
        match &mut state.nodes[inode] {
            Node::Dir { names, synced } => synced.clone_from(names),
            Node::File { .. } => return Err(io::ErrorKind::NotADirectory.into()),
        }
        Ok(())
    }

    fn remove_file(&self, file: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        if state.find(file.as_str()).is_err() {
            return state.alive();
        }
        state.change()?;
        let (dir, name) = file.split();
        state.names(dir)?.remove(name);
        Ok(())
    }

    fn remove_dir(&self, dir: &DiskPath) -> io::Result<()> {
        let mut state = self.state();
        let Ok(inode) = state.find(dir.as_str()) else { return state.alive() };
        match &state.nodes[inode] {
            Node::Dir { names, .. } if names.is_empty() => {}
            Node::Dir { .. } => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Node::File { .. } => return Err(io::ErrorKind::NotADirectory.into()),
        }
        state.change()?;
        let (parent, name) = dir.split();
        state.names(parent)?.remove(name);
        Ok(())
    }

    fn read_from(&self, file: &DiskPath, offset: u64, max: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        state.alive()?;
        let inode = state.find(file.as_str())?;
        let Node::File { bytes, .. } = &state.nodes[inode] else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let offset = usize::try_from(offset).expect("files in memory are small").min(bytes.len());
        let rest = &bytes[offset..];
        if rest.len() as u64 > max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(rest.to_vec())
    }

    fn read_range(&self, file: &DiskPath, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = self.read_from(file, offset, u64::MAX)?;
        bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn stat(&self, path: &DiskPath) -> io::Result<Option<Stat>> {
        let state = self.state();
        state.alive()?;
        let Ok(inode) = state.find(path.as_str()) else { return Ok(None) };
        let (kind, len, modified_ms) = match &state.nodes[inode] {
            Node::Dir { names, .. } => (FileKind::Dir, names.len() as u64, 0),
            Node::File { bytes, modified_ms, .. } => (FileKind::File, bytes.len() as u64, *modified_ms),
        };
        Ok(Some(Stat { kind, len, modified_ms, id: inode as u64 }))
    }

    fn list(&self, dir: &DiskPath) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.alive()?;
        match state.names(Some(dir.as_str())) {
            Ok(names) => Ok(names.keys().cloned().collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn try_lock(&self, file: &DiskPath, sharing: Sharing) -> io::Result<Option<Box<dyn Lock>>> {
        let mut state = self.state();
        if state.find(file.as_str()).is_err() {
            // A lock file has no durable meaning, so creating it is not a crash point.
            state.alive()?;
            if state.fault == Fault::ReadOnly {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            state.file(file)?;
        }
        let path = file.as_str().to_owned();
        let free = match sharing {
            Sharing::Exclusive => !state.shared.contains_key(&path) && state.exclusive.insert(path.clone()),
            Sharing::Shared if state.exclusive.contains(&path) => false,
            Sharing::Shared => {
                *state.shared.entry(path.clone()).or_default() += 1;
                true
            }
        };
        drop(state);
        Ok(free.then(|| Box::new(Held { disk: self.clone(), path, sharing }) as Box<dyn Lock>))
    }

    fn unique(&self) -> u64 {
        let mut state = self.state();
        state.unique += 1;
        state.unique
    }
}
