//! The packs of a host: those in its registry, and those that it has installed.

use std::fmt;
use std::sync::Arc;

use packs::install::InstalledPacks;
use packs::publish::PublishRules;
use packs::registry::{MemoryStore, Registry, RegistryError, RegistryStore};
use tokio::sync::Semaphore;

/// The maximum number of archives that are unpacked concurrently. Each may use 100 MB of memory.
const MAX_UNPACKED: usize = 2;

pub type PackRegistry = Registry<Box<dyn RegistryStore>>;

/// The packs of a host. Cheap to clone.
#[derive(Clone)]
pub struct PackRegistries {
    offered: Arc<PackRegistry>,
    tests: Option<Arc<PackRegistry>>,
    installed: Option<Arc<InstalledPacks>>,
    rules: Arc<PublishRules>,
    /// Permits to unpack archives.
    pub(super) unpacking: Arc<Semaphore>,
}

impl PackRegistries {
    /// A registry on this store. The names that it accepts depend on who may read it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(store: impl RegistryStore + 'static) -> Result<Self, RegistryError> {
        Ok(Self {
            offered: Arc::new(open_registry(store)?),
            tests: None,
            installed: None,
            rules: Arc::new(PublishRules::private()),
            unpacking: Arc::new(Semaphore::new(MAX_UNPACKED)),
        })
    }

    /// A registry in memory, which is lost when the process ends.
    ///
    /// # Errors
    /// Never.
    pub fn in_memory() -> Result<Self, RegistryError> {
        Self::open(MemoryStore::default())
    }

    /// Adds a test catalogue. The two catalogues are isolated from each other.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn with_tests(self, store: impl RegistryStore + 'static) -> Result<Self, RegistryError> {
        Ok(Self { tests: Some(Arc::new(open_registry(store)?)), ..self })
    }

    /// Adds the installed packs.
    #[must_use]
    pub fn with_installed(self, installed: InstalledPacks) -> Self {
        Self { installed: Some(Arc::new(installed)), ..self }
    }

    /// Applies the rules for its readers: a public registry accepts no `private` names.
    #[must_use]
    pub(super) fn read_by(self, is_public: bool) -> Self {
        let rules = if is_public { PublishRules::public() } else { PublishRules::private() };
        Self { rules: Arc::new(rules), ..self }
    }

    pub(super) fn offered(&self) -> &Arc<PackRegistry> {
        &self.offered
    }

    pub(super) fn tests(&self) -> Option<&Arc<PackRegistry>> {
        self.tests.as_ref()
    }

    pub(super) fn installed(&self) -> Option<&Arc<InstalledPacks>> {
        self.installed.as_ref()
    }

    pub(super) fn rules(&self) -> &Arc<PublishRules> {
        &self.rules
    }
}

fn open_registry(store: impl RegistryStore + 'static) -> Result<PackRegistry, RegistryError> {
    Registry::open(Box::new(store) as Box<dyn RegistryStore>)
}

impl fmt::Debug for PackRegistries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PackRegistries").field("packs", &self.offered.count()).finish_non_exhaustive()
    }
}
