//! An index to find sessions without reading them. It is derived and can be deleted at any time.
//!
//! It answers two questions: which sessions can be resumed, and which position a short token identifies. Queries are
//! answered from memory; the file in `cache/` only saves a new process from reading every log.
//!
//! The file is a list of checksummed lines, one for each append, written without a sync. A lost or damaged line only
//! costs some work. Each line states how much of the manifest it covers and where it continues. If the lines of a session
//! do not reach the end of its manifest, the session is read from its log and its entry is written again. The log is
//! always authoritative.

mod line;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use guide::project::resume::RankingInput;
use guide::record::{EventIndex, SessionId};
use ports::sessions::StoreError;
pub use ports::sessions::{PositionKey, Projection};

use self::line::{HEADER, Key, Line, RunChange};
use crate::disk::{self, DiskPath, Sharing, Unsynced};
use crate::files::{Cursor, Loaded, SessionFiles, layout};

/// How much of the file is read at once, in bytes.
const CHUNK: u64 = 1 << 20;
/// The maximum length of a line that is read, in bytes. A session with a longer line is read from its log.
const LINE_BYTES: usize = 8 << 20;
/// The file is rewritten if its lines exceed the number of sessions by this many.
const SPARE_LINES: usize = 4096;

/// Creates the [`Projection`] of a session whose index entry is missing or outdated.
pub trait Projector {
    /// The projection of all events of a session. `None` if there is nothing to index.
    fn project(&self, session: &Loaded) -> Option<Projection>;
}

impl<F: Fn(&Loaded) -> Option<Projection>> Projector for F {
    fn project(&self, session: &Loaded) -> Option<Projection> {
        self(session)
    }
}

/// Statistics of the index, for logging and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// The number of lines that were discarded because they were damaged or did not continue the preceding lines.
    pub discarded_lines: usize,
    /// The number of sessions that were read from their logs.
    pub projected_sessions: usize,
    /// Whether the file was rewritten.
    pub compacted: bool,
}

/// The index of one data directory.
#[derive(Debug)]
pub struct Index {
    files: SessionFiles,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    loaded: bool,
    /// The id of the file that was read. `offset` is how far.
    file: u64,
    offset: u64,
    lines: usize,
    sessions: HashMap<SessionId, Entry>,
    /// Session ids by number, so that positions do not repeat the id.
    numbers: Vec<SessionId>,
    positions: HashMap<PositionKey, (u32, EventIndex)>,
    /// The manifest lengths of sessions that cannot be indexed.
    unusable: HashMap<SessionId, u64>,
    report: IndexReport,
}

#[derive(Debug)]
struct Entry {
    number: u32,
    /// How much of the manifest is covered, in bytes.
    end: u64,
    /// The length of the manifest at the last comparison.
    compared: u64,
    /// Whether a line is missing, so that later lines cannot be applied.
    broken: bool,
    runs: Vec<RankingInput>,
}

impl Index {
    /// Creates the index of these files. Nothing is read before the first query.
    pub fn new(files: SessionFiles) -> Self {
        Self { files, state: Mutex::default() }
    }

    /// Records the changes of an append. `before` is the previous end of the session, `None` for a new one. The
    /// projection has all runs, and the new positions.
    ///
    /// The append is durable even if this fails: the session is then read again by the next search.
    ///
    /// # Errors
    /// Disk errors.
    pub fn record(
        &self,
        before: Option<&Cursor>,
        after: &Cursor,
        projection: Projection,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        self.load(&mut state)?;
        let id = after.session_id().clone();
        let end = after.manifest_bytes();
        let runs: Vec<_> = projection.runs.into_iter().map(without_recap).collect();
        let positions: BTreeMap<_, _> =
            projection.positions.into_iter().map(|(key, index)| (Key(key), index)).collect();
        let known = state.sessions.get(&id).filter(|entry| !entry.broken);
        let line = match (before, known) {
            (Some(before), Some(entry)) if entry.end == before.manifest_bytes() => {
                // Even if all runs are written, the line continues the preceding lines, because the positions are spread
                // over all of them.
                let (changes, all) = match changes(&entry.runs, &runs) {
                    Some(changes) => (changes, None),
                    None => (Vec::new(), Some(runs)),
                };
                Line::Append { id, from: entry.end, end, runs: changes, all, positions }
            }
            (None, _) => Line::Session { id, end, runs, positions },
            // This process lacks a part of the session. The next search reads it.
            (Some(_), _) => return Ok(()),
        };
        let bytes = line.encode();
        state.apply(line);
        let path = path();
        if state.offset == 0 {
            self.files.prepare()?;
            self.write_header(&mut state)?;
        }
        self.files.disk().append(&path, &bytes).map_err(StoreError::disk("write", &path))?;
        // Concurrent writes of other processes are detected by the next read. Reading our own line again changes nothing.
        Ok(())
    }

    /// Records that sessions were deleted.
    ///
    /// # Errors
    /// Disk errors.
    pub fn forget(&self, sessions: &[SessionId]) -> Result<(), StoreError> {
        let mut state = self.state();
        self.load(&mut state)?;
        let path = path();
        for id in sessions {
            let line = Line::Deleted { id: id.clone() };
            let bytes = line.encode();
            state.apply(line);
            self.files.disk().append(&path, &bytes).map_err(StoreError::disk("write", &path))?;
        }
        Ok(())
    }

    /// Returns the session of a position, and the event that created its node.
    ///
    /// An unknown position may have been created by another process, or its line may be lost. Before this returns `None`,
    /// it reads the file again and, if necessary, compares every manifest.
    ///
    /// # Errors
    /// Disk errors.
    pub fn position(
        &self,
        key: &PositionKey,
        projector: &dyn Projector,
    ) -> Result<Option<(SessionId, EventIndex)>, StoreError> {
        let mut state = self.state();
        let cold = !state.loaded;
        self.load(&mut state)?;
        if let Some(found) = state.position(key) {
            return Ok(Some(found));
        }
        if !cold {
            self.catch_up(&mut state)?;
            if let Some(found) = state.position(key) {
                return Ok(Some(found));
            }
        }
        self.reconcile(&mut state, projector)?;
        Ok(state.position(key))
    }

    /// As [`Index::position`], from memory only. Does not block.
    pub fn position_in_memory(&self, key: &PositionKey) -> Option<(SessionId, EventIndex)> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            // Another thread is reading files.
            Err(TryLockError::WouldBlock) => return None,
        };
        state.position(key)
    }

    /// Calls `look` with the ranking inputs of every session, in no particular order.
    ///
    /// # Errors
    /// Disk errors.
    pub fn with_inputs<R>(
        &self,
        projector: &dyn Projector,
        look: impl FnOnce(&mut dyn Iterator<Item = &RankingInput>) -> R,
    ) -> Result<R, StoreError> {
        let mut state = self.state();
        let cold = !state.loaded;
        self.load(&mut state)?;
        if cold {
            self.reconcile(&mut state, projector)?;
        } else {
            self.catch_up(&mut state)?;
            if state.sessions.values().any(|entry| entry.broken) {
                self.reconcile(&mut state, projector)?;
            }
        }
        Ok(look(&mut state.sessions.values().flat_map(|entry| entry.runs.iter())))
    }

    /// Compares every session with its manifest, and reads those that differ.
    ///
    /// # Errors
    /// Disk errors.
    pub fn refresh(&self, projector: &dyn Projector) -> Result<IndexReport, StoreError> {
        let mut state = self.state();
        self.load(&mut state)?;
        self.catch_up(&mut state)?;
        self.reconcile(&mut state, projector)?;
        Ok(state.report)
    }

    /// The damaged sessions that cannot be indexed, sorted.
    pub fn unusable(&self) -> Vec<SessionId> {
        let mut ids: Vec<_> = self.state().unusable.keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    /// The statistics so far.
    pub fn report(&self) -> IndexReport {
        self.state().report
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file on first use.
    fn load(&self, state: &mut State) -> Result<(), StoreError> {
        if !state.loaded {
            *state = State { report: state.report, ..State::default() };
            self.catch_up(state)?;
            state.loaded = true;
        }
        Ok(())
    }

    /// Reads new lines of the file.
    fn catch_up(&self, state: &mut State) -> Result<(), StoreError> {
        let path = path();
        let disk = self.files.disk();
        let failed = || StoreError::disk("read", &path);
        let Some(stat) = disk.stat(&path).map_err(failed())? else {
            // The file was deleted. The data in memory stays valid, and the next comparison writes it again.
            state.offset = 0;
            return Ok(());
        };
        if state.offset > 0 && (stat.id != state.file || stat.len < state.offset) {
            // Another process rewrote it.
            state.offset = 0;
        }
        if state.offset == 0 {
            let header = disk.read_range(&path, 0, HEADER.len() as u64).map_err(failed())?;
            if header != HEADER {
                // The file has another version or is damaged. It is not used.
                state.report.discarded_lines += 1;
                return Ok(());
            }
            state.file = stat.id;
            state.offset = HEADER.len() as u64;
            state.lines = 0;
        }
        let mut rest = Vec::new();
        loop {
            let at = state.offset + rest.len() as u64;
            let chunk = match disk.read_range(&path, at, CHUNK) {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed()(error)),
            };
            if chunk.is_empty() {
                return Ok(());
            }
            rest.extend_from_slice(&chunk);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
                if rest.len() > LINE_BYTES {
                    // Not a valid line. It is skipped, and a session that depends on it is detected as incomplete.
                    state.offset += rest.len() as u64;
                    state.report.discarded_lines += 1;
                    rest.clear();
                }
                continue;
            };
            for line in rest[..end].split(|byte| *byte == b'\n') {
                state.lines += 1;
                match Line::decode(line) {
                    Some(line) => state.apply(line),
                    None => state.report.discarded_lines += 1,
                }
            }
            state.offset += end as u64 + 1;
            rest.drain(..=end);
        }
    }

    /// Compares every session with its manifest.
    fn reconcile(&self, state: &mut State, projector: &dyn Projector) -> Result<(), StoreError> {
        let ids = self.files.sessions()?;
        let known: std::collections::HashSet<_> = ids.iter().collect();
        state.sessions.retain(|id, _| known.contains(id));
        state.unusable.retain(|id, _| known.contains(id));
        let mut lines = Vec::new();
        for id in &ids {
            let Some(stat) = self.files.manifest_stat(id)? else { continue };
            let current = state.sessions.get(id).is_some_and(|entry| {
                // The line end is not covered. If the length is unchanged since the last comparison, there is nothing
                // new.
                !entry.broken && (stat.len == entry.end + 1 || stat.len == entry.compared)
            });
            if current || state.unusable.get(id) == Some(&stat.len) {
                continue;
            }
            let loaded = match self.files.load_unsettled(&Cursor::start(id.clone())) {
                Ok(loaded) => loaded,
                Err(StoreError::NotHealthy { .. } | StoreError::Unknown { .. }) => {
                    state.sessions.remove(id);
                    state.unusable.insert(id.clone(), stat.len);
                    continue;
                }
                Err(error) => return Err(error),
            };
            state.report.projected_sessions += 1;
            let Some(projection) = projector.project(&loaded) else {
                state.sessions.remove(id);
                state.unusable.insert(id.clone(), stat.len);
                continue;
            };
            let line = Line::Session {
                id: id.clone(),
                end: loaded.cursor.manifest_bytes(),
                runs: projection.runs.into_iter().map(without_recap).collect(),
                positions: projection.positions.into_iter().map(|(key, index)| (Key(key), index)).collect(),
            };
            lines.extend_from_slice(&line.encode());
            state.apply(line);
            if let Some(entry) = state.sessions.get_mut(id) {
                entry.compared = stat.len;
            }
        }
        // Searching works on a read-only directory too. It only takes longer for the next process.
        let _ = self.save(state, &lines);
        Ok(())
    }

    /// Appends lines to the file. Rewrites the file if it has grown too long or cannot be used.
    fn save(&self, state: &mut State, lines: &[u8]) -> Result<(), StoreError> {
        let path = path();
        let grown = state.lines > 4 * state.sessions.len() + SPARE_LINES;
        if state.offset > 0 && !grown {
            if !lines.is_empty() {
                let appended = self.files.disk().append(&path, lines);
                appended.map_err(StoreError::disk("write", &path))?;
            }
            return Ok(());
        }
        if state.sessions.is_empty() && state.offset == 0 {
            return Ok(());
        }
        self.compact(state)
    }

    /// Rewrites the file with one line for each session.
    fn compact(&self, state: &mut State) -> Result<(), StoreError> {
        self.files.prepare()?;
        let (dir, disk) = (layout::cache(), self.files.disk());
        let lock = dir.join("index.lock");
        let locked = disk.try_lock(&lock, Sharing::Exclusive).map_err(StoreError::disk("lock", &lock))?;
        // Another process is rewriting it.
        let Some(_lock) = locked else { return Ok(()) };
        let mut positions: HashMap<u32, BTreeMap<Key, EventIndex>> = HashMap::new();
        for (key, (number, index)) in &state.positions {
            positions.entry(*number).or_default().insert(Key(*key), *index);
        }
        let mut ids: Vec<_> = state.sessions.keys().cloned().collect();
        ids.sort_unstable();
        let mut bytes = HEADER.to_vec();
        for id in ids {
            let entry = &state.sessions[&id];
            let positions = positions.remove(&entry.number).unwrap_or_default();
            let line = Line::Session { id, end: entry.end, runs: entry.runs.clone(), positions };
            bytes.extend_from_slice(&line.encode());
        }
        let temporary = format!("sessions-{:x}.tmp", disk.unique());
        disk::publish(disk.as_ref(), &dir, &temporary, NAME, &bytes)
            .map_err(StoreError::disk("write", &path()))?;
        let stat = disk.stat(&path()).map_err(StoreError::disk("look at", &path()))?;
        state.file = stat.map_or(0, |stat| stat.id);
        state.offset = bytes.len() as u64;
        state.lines = state.sessions.len();
        state.report.compacted = true;
        Ok(())
    }

    fn write_header(&self, state: &mut State) -> Result<(), StoreError> {
        let (path, disk) = (path(), self.files.disk());
        let failed = || StoreError::disk("write", &path);
        if disk.stat(&path).map_err(failed())?.is_none_or(|stat| stat.len == 0) {
            disk.append(&path, HEADER).and_then(Unsynced::sync).map_err(failed())?;
            let stat = disk.stat(&path).map_err(failed())?;
            state.file = stat.map_or(0, |stat| stat.id);
            state.offset = HEADER.len() as u64;
        }
        Ok(())
    }
}

const NAME: &str = "sessions.index";

fn path() -> DiskPath {
    layout::cache().join(NAME)
}

fn without_recap(mut input: RankingInput) -> RankingInput {
    input.recap.clear();
    input
}

/// The changes from one list of runs to another. `None` if the difference cannot be expressed as changes.
fn changes(before: &[RankingInput], after: &[RankingInput]) -> Option<Vec<RunChange>> {
    if before.len() != after.len() {
        return None;
    }
    let pairs = before.iter().zip(after).filter(|(before, after)| before != after);
    pairs.map(|(before, after)| RunChange::between(before, after)).collect()
}

impl State {
    fn position(&self, key: &PositionKey) -> Option<(SessionId, EventIndex)> {
        let (number, index) = self.positions.get(key)?;
        let id = &self.numbers[*number as usize];
        // The positions of deleted sessions are not removed individually, so check that the session exists.
        self.sessions.contains_key(id).then(|| (id.clone(), *index))
    }

    fn number(&mut self, id: &SessionId) -> u32 {
        if let Some(entry) = self.sessions.get(id) {
            return entry.number;
        }
        let number = u32::try_from(self.numbers.len()).expect("four billion sessions do not fit on a disk");
        self.numbers.push(id.clone());
        number
    }

    fn apply(&mut self, line: Line) {
        let (number, positions) = match line {
            Line::Deleted { id } => {
                self.sessions.remove(&id);
                return;
            }
            Line::Session { id, end, runs, positions } => {
                let number = self.number(&id);
                // A line that is read late must not overwrite newer data.
                if self.sessions.get(&id).is_none_or(|entry| entry.broken || entry.end <= end) {
                    self.sessions.insert(id, Entry { number, end, compared: end + 1, broken: false, runs });
                }
                (number, positions)
            }
            Line::Append { id, from, end, runs, all, positions } => {
                let Some(entry) = self.sessions.get_mut(&id) else {
                    self.report.discarded_lines += 1;
                    return;
                };
                let number = entry.number;
                if entry.end == from && !entry.broken {
                    if let Some(all) = all {
                        entry.runs = all;
                    }
                    let fits = runs.iter().all(|change| entry.runs.iter_mut().any(|run| change.apply(run)));
                    entry.broken = !fits;
                    entry.end = end;
                    entry.compared = end + 1;
                } else if entry.end < end {
                    entry.broken = true;
                    self.report.discarded_lines += 1;
                }
                (number, positions)
            }
        };
        self.positions.extend(positions.into_iter().map(|(Key(key), index)| (key, (number, index))));
    }
}
