//! Keys that were read a moment ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;
use canon::time::Timestamp;
use tokio::sync::watch;

use super::ApiKey;

/// For how long a key is believed without asking the store: another process may take one back, and this one cannot know.
const BELIEVED_MS: u64 = 500;
/// How many keys are kept in memory.
const REMEMBERED: usize = 10_000;

/// Keys that were read a moment ago. What this process itself records is forgotten at once; keys that do not exist are not kept, so
/// that a new one is good as soon as it was made.
#[derive(Default)]
pub(in super::super) struct KnownKeys {
    known: Mutex<Known>,
    /// Another number whenever this process recorded a key.
    recorded: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<Digest, (Arc<ApiKey>, Timestamp)>,
    /// How often something changed here. What was read before a change is not kept after it.
    changes: u64,
}

impl KnownKeys {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, hash: &Digest, now: Timestamp) -> Option<Arc<ApiKey>> {
        let known = self.known();
        let (key, read_at) = known.keys.get(hash)?;
        // A clock that was set back is no reason to believe for longer.
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
            // Which ones go does not matter: they are read again when they are needed.
            known.keys.clear();
        }
        known.keys.insert(hash, (Arc::clone(key), now));
    }

    /// Forgets everything, because a key was recorded.
    pub(in super::super) fn forget(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.keys.clear();
        drop(known);
        self.recorded.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells when this process recorded a key.
    pub(super) fn recorded(&self) -> watch::Receiver<u64> {
        self.recorded.subscribe()
    }
}
