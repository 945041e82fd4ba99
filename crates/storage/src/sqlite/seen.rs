//! Which idempotency keys may have been used: a Bloom filter with one hash function.
//!
//! Nearly every key is new, and a query without a result costs as much as one with a result. If the bit of a key is not
//! set, the key was never used; if it is set, the database is queried. The writer sets the bit of each key before it
//! commits it. Once another process has written to the file, the database is always queried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;

use super::memory::Memory;

/// The number of bits, as a power of two: 8 MiB. Ten million keys set one bit in seven.
const BITS: u32 = 26;

pub(super) struct SeenKeys {
    words: Box<[AtomicU64]>,
    /// Whether the keys of the file are loaded. Until then, any key may have been used.
    complete: AtomicBool,
    /// SQLite's `data_version`, which changes when another connection writes. Zero before the first read.
    version: AtomicI64,
    /// Whether another process wrote to the file. Its keys are not in the filter.
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

    /// Adds a key.
    pub(super) fn note(&self, hash: i64) {
        let (word, bit) = self.place(hash);
        word.fetch_or(bit, Ordering::Release);
    }

    /// Whether a key may have been used, so that the database must be queried.
    pub(super) fn maybe(&self, hash: i64) -> bool {
        let (word, bit) = self.place(hash);
        let is_sure = self.complete.load(Ordering::Acquire) && !self.foreign.load(Ordering::Acquire);
        !is_sure || word.load(Ordering::Acquire) & bit != 0
    }

    /// Checks whether another process wrote to the file since the last call. Only called with the writer's connection: before the
    /// keys are loaded, and in each transaction.
    pub(super) fn notice_others(&self, writer: &Connection) -> rusqlite::Result<()> {
        let version = writer.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let before = self.version.swap(version, Ordering::AcqRel);
        if before != 0 && before != version {
            self.foreign.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Adds every key of the file, until `stop`. The writer adds the keys that are committed in the meantime.
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

/// The thread that loads the keys of the file, which may be millions. Dropping it stops the thread.
pub(super) struct Loading {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Loading {
    pub(super) fn start(memory: &Arc<Memory>, connection: Connection) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (memory, stopped) = (Arc::clone(memory), Arc::clone(&stop));
        let load = move || {
            // Without the keys, every lookup queries the database, which is slower but correct.
            if let Err(error) = memory.seen.load(&connection, &stopped) {
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
