//! The modules that were compiled last.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use canon::digest::Digest;

use crate::Module;

/// Compiled modules by the digest of their bytes; those used least recently go first when there are too many.
pub(crate) struct Cache {
    most_bytes: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    modules: HashMap<Digest, (Module, u64)>,
    bytes: usize,
    /// Counts up with every use, which gives the order.
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

    /// Keeps a module, unless it alone is more than there is room for. The one that was there first wins.
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
            // There are few of them: a module is tens of kilobytes at least, and this is the rare path.
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

    /// Nothing in here can be left half done by a panic.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
