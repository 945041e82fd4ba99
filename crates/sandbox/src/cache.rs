//! A cache of compiled modules.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;

use crate::Module;

/// Compiled modules by the digest of their bytes, evicted least recently used first.
pub(crate) struct Cache {
    most_bytes: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    modules: HashMap<Digest, (Module, u64)>,
    bytes: usize,
    /// A counter for the usage order.
    uses: u64,
}

impl Cache {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, entries: Mutex::default() }
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<Module> {
        let mut entries = self.lock();
        entries.uses += 1;
        let now = entries.uses;
        let (module, used) = entries.modules.get_mut(digest)?;
        *used = now;
        Some(module.clone())
    }

    /// Adds a module unless it exceeds the cache size. An existing entry is kept.
    pub(crate) fn put(&self, module: Module) -> Module {
        let weight = module.0.image_bytes;
        let mut entries = self.lock();
        entries.uses += 1;
        let now = entries.uses;
        if let Some((there, used)) = entries.modules.get_mut(&module.digest()) {
            *used = now;
            return there.clone();
        }
        if weight > self.most_bytes {
            return module;
        }
        while entries.bytes + weight > self.most_bytes {
            // A linear search is fine: there are few modules, and evictions are rare.
            let Some(oldest) =
                entries.modules.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest)
            else {
                break;
            };
            if let Some((gone, _)) = entries.modules.remove(&oldest) {
                entries.bytes -= gone.0.image_bytes;
            }
        }
        entries.bytes += weight;
        entries.modules.insert(module.digest(), (module.clone(), now));
        module
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().modules.len()
    }

    /// A panic cannot leave the map inconsistent.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
