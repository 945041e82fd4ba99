//! An in-memory registry.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::record::PackRecord;
use super::{RegistryError, RegistryStore};
use crate::integrity::Integrity;
use crate::name::PackName;

/// An in-memory registry store, for tests and the test catalog.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<PackName, PackRecord>,
    archives: BTreeMap<Integrity, Vec<u8>>,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryStore for MemoryStore {
    fn load(&self) -> Result<Vec<PackRecord>, RegistryError> {
        Ok(self.kept().records.values().cloned().collect())
    }

    fn save(&self, record: &PackRecord) -> Result<(), RegistryError> {
        self.kept().records.insert(record.name.clone(), record.clone());
        Ok(())
    }

    fn put(&self, integrity: Integrity, archive: &[u8]) -> Result<(), RegistryError> {
        self.kept().archives.insert(integrity, archive.to_vec());
        Ok(())
    }

    fn get(&self, integrity: Integrity) -> Result<Option<Vec<u8>>, RegistryError> {
        Ok(self.kept().archives.get(&integrity).cloned())
    }

    fn forget(&self, integrity: Integrity) -> Result<(), RegistryError> {
        self.kept().archives.remove(&integrity);
        Ok(())
    }

    fn clear(&self) -> Result<(), RegistryError> {
        *self.kept() = Contents::default();
        Ok(())
    }
}
