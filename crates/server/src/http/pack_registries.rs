//! The packs of a host: those that it offers to others, and those that it uses itself.

use std::fmt;
use std::sync::Arc;

use packs::install::InstalledPacks;
use packs::publish::PublishRules;
use packs::registry::{MemoryStore, Registry, RegistryError, RegistryStore};
use tokio::sync::Semaphore;

/// How many archives are unpacked at once: each may hold a hundred megabytes meanwhile.
const MAX_UNPACKED: usize = 2;

/// A registry, wherever it keeps what was published.
pub type PackRegistry = Registry<Box<dyn RegistryStore>>;

/// The packs of a host. Cheap to clone.
#[derive(Clone)]
pub struct PackRegistries {
    offered: Arc<PackRegistry>,
    tests: Option<Arc<PackRegistry>>,
    installed: Option<Arc<InstalledPacks>>,
    rules: Arc<PublishRules>,
    /// Places for archives that are unpacked.
    pub(super) unpacking: Arc<Semaphore>,
}

impl PackRegistries {
    /// A registry on this store. Which names it takes follows from who may read it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(store: impl RegistryStore + 'static) -> Result<Self, RegistryError> {
        Ok(Self {
            offered: Arc::new(shelf(store)?),
            tests: None,
            installed: None,
            rules: Arc::new(PublishRules::private()),
            unpacking: Arc::new(Semaphore::new(MAX_UNPACKED)),
        })
    }

    /// A registry that is gone when its process is.
    ///
    /// # Errors
    /// Never.
    pub fn in_memory() -> Result<Self, RegistryError> {
        Self::open(MemoryStore::default())
    }

    /// The same, with a catalogue for tests beside it. Nothing of one is seen in the other.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn with_tests(self, store: impl RegistryStore + 'static) -> Result<Self, RegistryError> {
        Ok(Self { tests: Some(Arc::new(shelf(store)?)), ..self })
    }

    /// The same, with the packs that are installed.
    #[must_use]
    pub fn with_installed(self, installed: InstalledPacks) -> Self {
        Self { installed: Some(Arc::new(installed)), ..self }
    }

    /// The same with the rules that fit its readers: what anybody can read takes no `private` names.
    #[must_use]
    pub(super) fn read_by(self, everybody: bool) -> Self {
        let rules = if everybody { PublishRules::public() } else { PublishRules::private() };
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

fn shelf(store: impl RegistryStore + 'static) -> Result<PackRegistry, RegistryError> {
    Registry::open(Box::new(store) as Box<dyn RegistryStore>)
}

impl fmt::Debug for PackRegistries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PackRegistries").field("packs", &self.offered.count()).finish_non_exhaustive()
    }
}
