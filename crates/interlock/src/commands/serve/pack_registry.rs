//! The registry of the data directory, and its installed packs.

use packs::install::InstalledPacks;
use packs::registry::FolderStore;
use packs::{PackError, registry::RegistryError};
use server::http::PackRegistries;

use crate::failure::Failure;
use crate::settings::Settings;

/// Opens the folders of the data directory; missing folders are created.
pub(super) fn open(settings: &Settings) -> Result<PackRegistries, Failure> {
    let folder = |name: &str| settings.data_dir.value.join(name);
    let failed = |error: RegistryError| Failure::from(PackError::from(error).envelope());
    let mut pack_registries =
        FolderStore::open(&folder("registry")).and_then(PackRegistries::open).map_err(failed)?;
    if super::is_set("OPENWOP_PACKS_TEST_NAMESPACE_ENABLED") {
        let store = FolderStore::open(&folder("registry-test")).map_err(failed)?;
        pack_registries = pack_registries.with_tests(store).map_err(failed)?;
    }
    let installed = InstalledPacks::open(&folder("packs")).map_err(|error| error.envelope())?;
    Ok(pack_registries.with_installed(installed))
}
