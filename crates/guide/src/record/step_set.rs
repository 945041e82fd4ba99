//! The set of completed steps, in sorted chunks that snapshots share.
//!
//! Every snapshot of a run contains all steps of the previous one and a few more. If they were copied,
//! compared and written again each time, every step of a long run would cost more than the one before. So a
//! set is a list of small sorted chunks behind [`Arc`]s:
//!
//! ```text
//!   previous snapshot     [ a b c d ] [ e f g h ] [ k l ]
//!                             │            │
//!   next snapshot         [ a b c d ] [ e f g h ] [ k l m ]        one chunk is new
//! ```
//!
//! Cloning copies the list, adding creates one new chunk, comparing skips shared chunks, and each chunk keeps
//! its canonical JSON, so that the digest of a snapshot hashes complete chunks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use canon::canonical;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::StepInstanceKey;

/// The maximum number of keys per chunk. At ten thousand steps the list of chunks is about as long as one
/// chunk.
const CHUNK: usize = 128;

/// A set of step instances, sorted by key in byte order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StepSet {
    /// In order, without empty chunks.
    chunks: Vec<Arc<Chunk>>,
}

#[derive(Debug)]
struct Chunk {
    keys: Vec<StepInstanceKey>,
    /// The keys as canonical JSON, each after a comma.
    json: String,
}

impl Chunk {
    fn new(keys: Vec<StepInstanceKey>) -> Arc<Self> {
        let mut json = String::with_capacity(keys.iter().map(|key| key.as_str().len() + 3).sum());
        for key in &keys {
            json.push(',');
            if is_plain(key) {
                json.push('"');
                json.push_str(key.as_str());
                json.push('"');
            } else {
                // This program never writes such a key, but a key that was read has a digest too.
                json.push_str(&canonical::to_string(key).expect("a text has a canonical form"));
            }
        }
        Arc::new(Self { keys, json })
    }
}

/// Whether a key needs no escapes in JSON.
fn is_plain(key: &StepInstanceKey) -> bool {
    key.as_str().bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
}

impl StepSet {
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.keys.len()).sum()
    }

    pub const fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The keys, in order.
    pub fn iter(&self) -> impl Iterator<Item = &StepInstanceKey> {
        self.chunks.iter().flat_map(|chunk| &chunk.keys)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.chunks.get(self.chunk_for(key)).is_some_and(|chunk| index_in(&chunk.keys, key).is_ok())
    }

    /// Adds a key, unless it is present.
    pub fn insert(&mut self, key: StepInstanceKey) {
        let at = self.chunk_for(key.as_str());
        let Some(chunk) = self.chunks.get(at) else {
            self.chunks.push(Chunk::new(vec![key]));
            return;
        };
        let Err(index) = index_in(&chunk.keys, key.as_str()) else { return };
        let mut keys = Vec::with_capacity(chunk.keys.len() + 1);
        keys.extend_from_slice(&chunk.keys[..index]);
        keys.push(key);
        keys.extend_from_slice(&chunk.keys[index..]);
        let upper = (keys.len() > CHUNK).then(|| keys.split_off(keys.len() / 2));
        self.chunks[at] = Chunk::new(keys);
        if let Some(upper) = upper {
            self.chunks.insert(at + 1, Chunk::new(upper));
        }
    }

    /// The keys that `before` does not have; `None` if `before` has a key that is missing here.
    ///
    /// Shared chunks are skipped: for a set that was created from `before` by adding, the cost is
    /// proportional to what was added.
    pub fn added_since<'s>(&'s self, before: &Self) -> Option<Vec<&'s StepInstanceKey>> {
        let (mut here, mut there) = (Cursor::new(self), Cursor::new(before));
        let mut added = Vec::new();
        loop {
            while here.pass_over(&mut there) {}
            let Some(key) = here.key() else { break };
            if there.key().is_some_and(|known| known.is_same(key)) {
                there.step();
            } else {
                added.push(key);
            }
            here.step();
        }
        there.key().is_none().then_some(added)
    }

    /// The keys as canonical JSON, in pieces that together form `,"a","b","c"`.
    pub(crate) fn canonical_pieces(&self) -> impl Iterator<Item = &str> {
        self.chunks.iter().map(|chunk| chunk.json.as_str())
    }

    /// The index of the chunk that contains a key or should contain it: the last one that does not start
    /// after it, or the first.
    fn chunk_for(&self, key: &str) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.keys.first().is_some_and(|first| first.as_str() <= key))
            .saturating_sub(1)
    }
}

fn index_in(keys: &[StepInstanceKey], key: &str) -> Result<usize, usize> {
    keys.binary_search_by(|other| other.as_str().cmp(key))
}

/// A cursor over a set.
struct Cursor<'s> {
    chunks: std::slice::Iter<'s, Arc<Chunk>>,
    chunk: Option<&'s Arc<Chunk>>,
    index: usize,
}

impl<'s> Cursor<'s> {
    fn new(set: &'s StepSet) -> Self {
        let mut chunks = set.chunks.iter();
        Self { chunk: chunks.next(), chunks, index: 0 }
    }

    fn key(&self) -> Option<&'s StepInstanceKey> {
        self.chunk?.keys.get(self.index)
    }

    fn step(&mut self) {
        self.index += 1;
        if self.chunk.is_some_and(|chunk| self.index == chunk.keys.len()) {
            self.next_chunk();
        }
    }

    fn next_chunk(&mut self) {
        self.chunk = self.chunks.next();
        self.index = 0;
    }

    /// Skips a chunk that both sets share, if both cursors are at its start.
    fn pass_over(&mut self, other: &mut Cursor<'_>) -> bool {
        let (Some(one), Some(two)) = (self.chunk, other.chunk) else { return false };
        let shared = self.index == 0 && other.index == 0 && Arc::ptr_eq(one, two);
        if shared {
            self.next_chunk();
            other.next_chunk();
        }
        shared
    }
}

/// Equality is independent of the division into chunks.
impl PartialEq for StepSet {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StepSet {}

impl FromIterator<StepInstanceKey> for StepSet {
    fn from_iter<I: IntoIterator<Item = StepInstanceKey>>(keys: I) -> Self {
        let mut keys: Vec<StepInstanceKey> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        // Half full, so that the next keys fit.
        Self { chunks: keys.chunks(CHUNK / 2).map(|keys| Chunk::new(keys.to_vec())).collect() }
    }
}

impl Serialize for StepSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for StepSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for StepSet {
    fn inline_schema() -> bool {
        BTreeSet::<StepInstanceKey>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeSet::<StepInstanceKey>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeSet::<StepInstanceKey>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> StepInstanceKey {
        StepInstanceKey::new(text, &[])
    }

    fn numbered(numbers: impl IntoIterator<Item = u32>) -> impl Iterator<Item = StepInstanceKey> {
        numbers.into_iter().map(|number| key(&format!("step-{number}")))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_set_behaves_like_an_ordered_set(
            first in proptest::collection::vec(0..900_u32, 0..400),
            more in proptest::collection::vec(0..900_u32, 0..400),
        ) {
            let mut set: StepSet = numbered(first.clone()).collect();
            let mut model: BTreeSet<_> = numbered(first).collect();
            let (before, model_before) = (set.clone(), model.clone());
            for key in numbered(more) {
                set.insert(key.clone());
                model.insert(key);
            }
            prop_assert!(set.iter().eq(&model));
            prop_assert_eq!(set.len(), model.len());
            prop_assert!(before.iter().eq(&model_before), "a copy does not change");
            prop_assert!(numbered(0..900).all(|key| set.contains(key.as_str()) == model.contains(&key)));
            prop_assert_eq!(&set, &model.iter().cloned().collect(), "equality ignores the construction");
            prop_assert!(set.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.keys.len())));
            let pieces: String = set.canonical_pieces().collect();
            prop_assert_eq!(format!("[{}]", pieces.trim_start_matches(',')), canonical::to_string(&set).unwrap());
            let added: Vec<_> = model.difference(&model_before).collect();
            prop_assert_eq!(set.added_since(&before), Some(added.clone()));
            // The same for sets that share no chunks.
            let apart: StepSet = model_before.iter().cloned().collect();
            prop_assert_eq!(set.added_since(&apart), Some(added));
            prop_assert_eq!(before.added_since(&set).is_some(), model == model_before);
        }
    }

    #[test]
    fn adding_a_step_creates_at_most_two_chunks() {
        let mut set = StepSet::default();
        for key in numbered(0..2_000) {
            let before = set.clone();
            set.insert(key.clone());
            let shared = |chunk: &&Arc<Chunk>| before.chunks.iter().any(|other| Arc::ptr_eq(chunk, other));
            assert!(set.chunks.iter().filter(|chunk| !shared(chunk)).count() <= 2);
            assert_eq!(set.added_since(&before), Some(vec![&key]));
        }
        assert!(set.chunks.len() <= 2 * 2_000 / (CHUNK / 2), "{}", set.chunks.len());
    }
}
