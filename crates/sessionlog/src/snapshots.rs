//! Snapshots: named after the digest of the complete snapshot, stored as differences.
//!
//! A snapshot contains every completed step, and each advance creates one. Stored completely, a run of `n` steps would
//! take `n²` bytes. A file therefore contains only the keys that were added since an earlier snapshot, its *base*, and
//! the small rest. The base is chosen as in a Fenwick tree: the snapshot of generation `g` is based on that of generation
//! `g` with its lowest set bit cleared. The number of files to read is then the number of set bits of `g`, at most 11 for
//! 2,000 steps, and a step costs six or seven keys on average.
//!
//! The name is the digest of the complete canonical snapshot. Reading assembles the chain and verifies that digest, so
//! damage anywhere in the chain is detected.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use canon::digest::Digest;
use canon::json;
use guide::record::{
    CompletedSteps, DecodeError, EngineState, ExecutionSnapshot, SnapshotRef, StepInstanceKey,
};
use guide::snapshot_digest::{self, NamedSnapshot};
use ports::sessions::{ObjectKind, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum number of files that make up one snapshot: the number of bits of a generation, plus one.
pub const CHAIN: usize = 65;
/// The maximum size of a snapshot file, in bytes: more than a hundred thousand completed steps.
pub const SNAPSHOT_BYTES: u64 = 16 << 20;
/// The maximum number of keys in the cache. It limits the memory to a few megabytes.
const CACHED_KEYS: usize = 32_768;
/// The maximum number of snapshots in the cache.
const CACHED_SNAPSHOTS: usize = 64;
/// The version of the file format.
const VERSION: u8 = 1;

/// The stored files of snapshots.
pub trait SnapshotFiles {
    /// Whether there is a file of this name. It need not be valid.
    ///
    /// # Errors
    /// The store failed.
    fn has(&self, reference: SnapshotRef) -> Result<bool, StoreError>;

    /// The bytes of a file, at most [`SNAPSHOT_BYTES`]; `None` if there is none.
    ///
    /// # Errors
    /// The store failed, or the file is too large.
    fn read(&self, reference: SnapshotRef) -> Result<Option<Vec<u8>>, StoreError>;
}

/// A snapshot of an append.
#[derive(Clone, Copy, Debug)]
pub struct NewSnapshot<'a> {
    /// The snapshot, with its reference.
    pub named: &'a NamedSnapshot,
    /// The snapshot of the parent node. Only a hint for efficient storage.
    pub parent: Option<SnapshotRef>,
}

/// The content of a file: the version, the generation, the base without its prefix, the added keys, and the snapshot
/// without its keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'s> {
    v: u8,
    generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Digest>,
    added: Vec<Cow<'s, StepInstanceKey>>,
    rest: Value,
}

/// A snapshot that was read, with the data for storing a difference to it.
#[derive(Debug)]
struct Whole {
    snapshot: Arc<ExecutionSnapshot>,
    /// Its own file and its bases, nearest first.
    chain: Vec<Link>,
}

/// One file of a chain.
#[derive(Clone, Debug)]
struct Link {
    reference: SnapshotRef,
    generation: u64,
    /// The keys that the file adds. Shared by every snapshot that is based on it.
    added: Arc<Vec<StepInstanceKey>>,
}

impl Link {
    fn new(reference: SnapshotRef, generation: u64, added: Vec<Cow<'_, StepInstanceKey>>) -> Self {
        let added = Arc::new(added.into_iter().map(Cow::into_owned).collect());
        Self { reference, generation, added }
    }
}

impl Whole {
    fn keys(&self) -> usize {
        self.snapshot.state().progress().map_or(0, |(completed, _)| completed.values.len())
    }
}

/// Reads and encodes snapshots, with a cache of recent ones.
#[derive(Debug, Default)]
pub struct Snapshots {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    entries: HashMap<SnapshotRef, Arc<Whole>>,
    order: VecDeque<SnapshotRef>,
    keys: usize,
}

impl Cache {
    fn insert(&mut self, reference: SnapshotRef, whole: Arc<Whole>) {
        let keys = whole.keys();
        if self.entries.insert(reference, whole).is_some() {
            return;
        }
        self.keys += keys;
        self.order.push_back(reference);
        while self.order.len() > 1 && (self.keys > CACHED_KEYS || self.order.len() > CACHED_SNAPSHOTS) {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(whole) = self.entries.remove(&oldest) {
                self.keys -= whole.keys();
            }
        }
    }
}

/// A snapshot that is ready to be written.
#[derive(Debug)]
pub struct Prepared {
    reference: SnapshotRef,
    /// The file to write. `None` if the snapshot is already stored.
    new: Option<Encoded>,
}

#[derive(Debug)]
struct Encoded {
    whole: Arc<Whole>,
    bytes: Vec<u8>,
}

impl Prepared {
    pub const fn reference(&self) -> SnapshotRef {
        self.reference
    }

    /// The file to write. `None` if the snapshot is already stored.
    pub fn file(&self) -> Option<&[u8]> {
        self.new.as_ref().map(|new| &*new.bytes)
    }

    /// The snapshots that the new file is based on, nearest first.
    pub fn bases(&self) -> impl Iterator<Item = SnapshotRef> + '_ {
        self.new.iter().flat_map(|new| new.whole.chain[1..].iter().map(|link| link.reference))
    }
}

impl Snapshots {
    pub fn get(
        &self,
        files: &dyn SnapshotFiles,
        reference: SnapshotRef,
    ) -> Result<Arc<ExecutionSnapshot>, StoreError> {
        self.whole(files, reference).map(|whole| Arc::clone(&whole.snapshot))
    }

    /// A cached snapshot.
    pub fn in_memory(&self, reference: SnapshotRef) -> Option<Arc<ExecutionSnapshot>> {
        self.cached(reference).map(|whole| Arc::clone(&whole.snapshot))
    }

    /// Decides how to store a snapshot. Writes nothing.
    pub fn prepare(&self, files: &dyn SnapshotFiles, new: NewSnapshot<'_>) -> Result<Prepared, StoreError> {
        let (reference, snapshot) = (new.named.reference(), new.named.snapshot());
        // The file may exist from an interrupted append or from another session. It is used only if it can be read and
        // verified; otherwise it is written again.
        if files.has(reference)? {
            match self.whole(files, reference) {
                Ok(_) => return Ok(Prepared { reference, new: None }),
                // A file of a newer version must not be overwritten.
                Err(newer @ StoreError::NewerFile { .. }) => return Err(newer),
                Err(_) => {}
            }
        }
        // The parent is a hint. If it cannot be read, or has steps that this snapshot lacks, the snapshot is stored
        // completely.
        let parent = new.parent.and_then(|parent| self.whole(files, parent).ok());
        let generation = parent.as_ref().map_or(0, |whole| whole.chain[0].generation.saturating_add(1));
        let (rest, keys) = take_keys(snapshot);
        let empty = CompletedSteps::default();
        let keys = keys.unwrap_or(&empty);
        let on_parent = parent.as_ref().and_then(|parent| {
            let known = parent.snapshot.state().progress().map_or(&empty, |(completed, _)| completed);
            Some((parent, keys.values.added_since(&known.values)?))
        });
        let (bases, added) = match on_parent {
            Some((parent, mut added)) => {
                // The keys that the files between the parent and the base added are included again, so no file has to be
                // read.
                let wanted = generation & generation.wrapping_sub(1);
                let skipped = parent.chain.iter().take_while(|link| link.generation > wanted).count();
                let between = parent.chain[..skipped].iter().flat_map(|link| link.added.iter());
                added.extend(between);
                added.sort_unstable();
                (parent.chain[skipped..].to_vec(), added)
            }
            None => (Vec::new(), keys.values.iter().collect()),
        };
        let base = bases.first().map(|link| link.reference.0);
        let rest = serde_json::to_value(&rest).expect("a snapshot is plain data, which always serialises");
        let own = Link { reference, generation, added: Arc::new(added.iter().copied().cloned().collect()) };
        let added = added.into_iter().map(Cow::Borrowed).collect();
        let stored = Stored { v: VERSION, generation, base, added, rest };
        let mut bytes =
            serde_json::to_vec(&stored).expect("a snapshot is plain data, which always serialises");
        bytes.push(b'\n');
        if bytes.len() as u64 > SNAPSHOT_BYTES {
            return Err(StoreError::TooLarge {
                what: format!("the snapshot {reference}"),
                measured: bytes.len() as u64,
                maximum: SNAPSHOT_BYTES,
            });
        }
        let chain = std::iter::once(own).chain(bases).collect();
        let whole = Arc::new(Whole { snapshot: Arc::clone(snapshot), chain });
        Ok(Prepared { reference, new: Some(Encoded { whole, bytes }) })
    }

    /// Caches a written snapshot, because the next advance usually starts from it.
    pub fn keep(&self, prepared: &Prepared) {
        if let Some(new) = &prepared.new {
            self.remember(prepared.reference, &new.whole);
        }
    }

    /// The base snapshots of a stored snapshot, nearest first.
    pub fn bases(
        &self,
        files: &dyn SnapshotFiles,
        reference: SnapshotRef,
    ) -> Result<Vec<SnapshotRef>, StoreError> {
        self.whole(files, reference).map(|whole| whole.chain[1..].iter().map(|link| link.reference).collect())
    }

    /// Clears the cache, so that the next read uses the store.
    pub fn forget(&self) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Cache::default();
    }

    fn cached(&self, reference: SnapshotRef) -> Option<Arc<Whole>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.entries.get(&reference).map(Arc::clone)
    }

    fn remember(&self, reference: SnapshotRef, whole: &Arc<Whole>) {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(reference, Arc::clone(whole));
    }

    fn whole(&self, files: &dyn SnapshotFiles, reference: SnapshotRef) -> Result<Arc<Whole>, StoreError> {
        if let Some(whole) = self.cached(reference) {
            return Ok(whole);
        }
        let damaged = |problem: String| StoreError::ObjectDamaged {
            kind: ObjectKind::Snapshot,
            digest: reference.0,
            problem,
        };
        let top = read(files, reference)?;
        let rest = top.rest;
        let mut chain = vec![Link::new(reference, top.generation, top.added)];
        let mut base = top.base;
        while let Some(next) = base {
            if chain.len() == CHAIN {
                return Err(damaged(format!("it is made of more than {CHAIN} files")));
            }
            let next = SnapshotRef(next);
            let file = read(files, next).map_err(|error| match error {
                newer @ StoreError::NewerFile { .. } => newer,
                error => damaged(format!("it builds on {next}, which cannot be read: {error}")),
            })?;
            // This also stops at a forged cycle.
            if chain.last().is_some_and(|link| file.generation >= link.generation) {
                return Err(damaged(format!("it builds on {next}, which is not older")));
            }
            chain.push(Link::new(next, file.generation, file.added));
            base = file.base;
        }
        let keys = chain.iter().flat_map(|link| link.added.iter().cloned()).collect();
        let mut snapshot = ExecutionSnapshot::from_value(rest).map_err(|error| match error {
            DecodeError::UnknownVersion { version, known } if version > u64::from(known) => {
                newer(reference, version, known)
            }
            error => damaged(error.to_string()),
        })?;
        put_keys(&mut snapshot, keys)
            .map_err(|()| damaged("it has steps and no place for them".to_owned()))?;
        if snapshot_digest::snapshot_ref(&snapshot) != reference {
            return Err(damaged("its content does not match the digest in its name".to_owned()));
        }
        let whole = Arc::new(Whole { snapshot: Arc::new(snapshot), chain });
        self.remember(reference, &whole);
        Ok(whole)
    }
}

fn read(files: &dyn SnapshotFiles, reference: SnapshotRef) -> Result<Stored<'static>, StoreError> {
    let damaged = |problem: String| StoreError::ObjectDamaged {
        kind: ObjectKind::Snapshot,
        digest: reference.0,
        problem,
    };
    let missing = || StoreError::ObjectMissing { kind: ObjectKind::Snapshot, digest: reference.0 };
    let bytes = files.read(reference)?.ok_or_else(missing)?;
    let value = json::read(&bytes, &json::Limits::default()).map_err(|error| damaged(error.to_string()))?;
    // The version is checked first, because a newer file may have unknown fields.
    match value.get("v").and_then(Value::as_u64) {
        Some(version) if version > u64::from(VERSION) => return Err(newer(reference, version, VERSION)),
        Some(version) if version == u64::from(VERSION) => {}
        _ => return Err(damaged(format!("`v` should be a number from 1 to {VERSION}"))),
    }
    serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
}

fn newer(reference: SnapshotRef, found: u64, known: u8) -> StoreError {
    StoreError::NewerFile {
        path: format!("snapshots/{}.json", reference.0.to_hex()),
        found,
        known: known.into(),
    }
}

/// Splits a snapshot into the snapshot without its keys, and the keys.
fn take_keys(snapshot: &ExecutionSnapshot) -> (ExecutionSnapshot, Option<&CompletedSteps>) {
    let state = match snapshot.state() {
        EngineState::Init => EngineState::Init,
        EngineState::Complete => EngineState::Complete,
        EngineState::Running(running) => EngineState::Running(guide::record::Running {
            completed: CompletedSteps::default(),
            loop_stack: running.loop_stack.clone(),
            pending: running.pending.clone(),
        }),
        EngineState::Blocked(blocked) => EngineState::Blocked(guide::record::Blocked {
            completed: CompletedSteps::default(),
            loop_stack: blocked.loop_stack.clone(),
            pending: blocked.pending.clone(),
            blocked: blocked.blocked.clone(),
        }),
    };
    let mut rest = ExecutionSnapshot::new(state);
    rest.v = snapshot.v;
    rest.engine_payload.v = snapshot.engine_payload.v;
    (rest, snapshot.state().progress().map(|(completed, _)| completed))
}

fn put_keys(snapshot: &mut ExecutionSnapshot, keys: Vec<StepInstanceKey>) -> Result<(), ()> {
    match &mut snapshot.engine_payload.engine_state {
        EngineState::Running(running) => extend(&mut running.completed, keys),
        EngineState::Blocked(blocked) => extend(&mut blocked.completed, keys),
        EngineState::Init | EngineState::Complete if keys.is_empty() => {}
        EngineState::Init | EngineState::Complete => return Err(()),
    }
    Ok(())
}

/// Adds keys. The stored rest of a snapshot normally has no keys; if it has some, they are kept.
fn extend(completed: &mut CompletedSteps, keys: Vec<StepInstanceKey>) {
    let all = completed.values.iter().cloned().chain(keys).collect();
    completed.values = all;
}
