//! A short-lived cache of API keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use tokio::sync::watch;

use super::ApiKey;

/// How long a cached key is used without reading the store. This is short because another process may revoke a key.
const BELIEVED_MS: u64 = 500;
/// How many keys are cached.
const REMEMBERED: usize = 10_000;

/// The cached API keys. The cache is cleared when this process stores a key. Unknown keys are not cached, so that a new key is
/// valid immediately.
#[derive(Default)]
pub(super) struct KnownKeys {
    known: Mutex<Known>,
    /// Changes whenever this process stores a key.
    recorded: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<Digest, (Arc<ApiKey>, Timestamp)>,
    /// The number of changes. A key that was read before a change is not cached after it.
    changes: u64,
}

impl KnownKeys {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, hash: &Digest, now: Timestamp) -> Option<Arc<ApiKey>> {
        let known = self.known();
        let (key, read_at) = known.keys.get(hash)?;
        // If the clock was set back, the entry is not used.
        (read_at.0..read_at.0 + BELIEVED_MS).contains(&now.0).then(|| Arc::clone(key))
    }

    pub(super) fn changes(&self) -> u64 {
        self.known().changes
    }

    pub(super) fn keep(&self, hash: Digest, key: &Arc<ApiKey>, now: Timestamp, changes: u64) {
        let mut known = self.known();
        if known.changes != changes {
            return;
        }
        if known.keys.len() >= REMEMBERED {
            // Evicted keys are read again when they are needed.
            known.keys.clear();
        }
        known.keys.insert(hash, (Arc::clone(key), now));
    }

    /// Clears the cache, because a key was stored.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.keys.clear();
        drop(known);
        self.recorded.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Notifies when this process stores a key.
    pub(super) fn recorded(&self) -> watch::Receiver<u64> {
        self.recorded.subscribe()
    }
}
