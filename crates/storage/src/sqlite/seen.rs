//! Which idempotency keys may have been used.
//!
//! Nearly every key is new, and to find nothing in the file costs as much as to find something. So there is a bit for each hash of a
//! key, a little of the hash for each place: where the bit is not set the key was never seen, where it is set the file is asked.
//! The writer notes each key before it commits it; once another process wrote to the file, the file is always asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::memory::Memory;

/// How many bits there are, as a power of two: eight mebibytes. Ten million keys set one bit in seven.
const BITS: u32 = 26;

/// The bits.
pub(super) struct SeenKeys {
    words: Box<[AtomicU64]>,
    /// Whether the keys that were in the file before are noted. Until then any key may have been used.
    complete: AtomicBool,
    /// What SQLite calls the contents of the file, as others leave it. Zero before it was asked.
    version: AtomicI64,
    /// Whether somebody else wrote to the file: their keys are not noted.
    foreign: AtomicBool,
}

impl Default for SeenKeys {
    fn default() -> Self {
        let words = (0..1_usize << (BITS - 6)).map(|_| AtomicU64::new(0)).collect();
        let (complete, foreign) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { words, complete, version: AtomicI64::new(0), foreign }
    }
}

impl SeenKeys {
    fn place(&self, hash: i64) -> (&AtomicU64, u64) {
        let bit = hash.cast_unsigned() & ((1 << BITS) - 1);
        let word = usize::try_from(bit >> 6).unwrap_or_default();
        (&self.words[word], 1 << (bit & 63))
    }

    /// Notes a key.
    pub(super) fn note(&self, hash: i64) {
        let (word, bit) = self.place(hash);
        word.fetch_or(bit, Ordering::Release);
    }

    /// Whether the file has to be asked.
    pub(super) fn maybe(&self, hash: i64) -> bool {
        let (word, bit) = self.place(hash);
        let is_sure = self.complete.load(Ordering::Acquire) && !self.foreign.load(Ordering::Acquire);
        !is_sure || word.load(Ordering::Acquire) & bit != 0
    }

    /// Notices whether anybody else wrote to the file since this was last asked. Called with the writer's connection alone: before
    /// the keys are loaded, and in each transaction.
    pub(super) fn notice_others(&self, writer: &Connection) -> rusqlite::Result<()> {
        let version = writer.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let before = self.version.swap(version, Ordering::AcqRel);
        if before != 0 && before != version {
            self.foreign.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Notes every key of the file, until told to stop. What is committed meanwhile, the writer notes.
    fn load(&self, connection: &Connection, stop: &AtomicBool) -> rusqlite::Result<()> {
        let mut statement = connection.prepare("SELECT hash FROM answer_keys")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.note(row.get(0)?);
        }
        self.complete.store(true, Ordering::Release);
        Ok(())
    }
}

/// The keys of the file being noted, beside everything else: there may be millions. Dropping it ends that.
pub(super) struct Loading {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Loading {
    pub(super) fn start(memory: &Arc<Memory>, connection: Connection) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (memory, told) = (Arc::clone(memory), Arc::clone(&stop));
        let load = move || {
            // Without them every key is looked up in the file, which is slower and just as correct.
            if let Err(error) = memory.seen.load(&connection, &told) {
                tracing::warn!(%error, "the recorded idempotency keys could not be loaded into memory");
            }
        };
        let thread = Builder::new().name("runs-keys".into()).spawn(load)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_noted_may_have_been_used_and_others_were_not() {
        let seen = SeenKeys::default();
        assert!(seen.maybe(7), "nothing is known yet");
        seen.complete.store(true, Ordering::Release);
        for hash in [0, 7, -1, i64::MIN, i64::MAX, 1 << 40] {
            seen.note(hash);
            assert!(seen.maybe(hash), "{hash}");
        }
        assert!(!seen.maybe(8));
    }
}
