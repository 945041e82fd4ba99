//! The services, put together from the settings.

use std::sync::Arc;

use canon::error::Envelope;
use host::catalogue::{Catalogue, CatalogueOptions};
use host::guided::{Guided, Tenants};
use host::system::{SystemClock, SystemEntropy};
use storage::disk::{Disk, MemoryDisk, RealDisk};
use storage::files::SessionFiles;
use storage::{StoreError, StoreErrorCode};

use crate::failure::Failure;
use crate::settings::Settings;

/// The guided service of the data directory, which is made if it does not exist.
///
/// # Errors
/// A directory that cannot be opened, or is of a newer version.
pub(crate) fn open_guided(settings: &Settings) -> Result<Guided, Failure> {
    Ok(guided(settings, open_files(settings)?))
}

/// The guided services of every tenant of the data directory, which is made if it does not exist.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_tenants(settings: &Settings) -> Result<Tenants, Failure> {
    let disk = Arc::new(open_disk(settings)?);
    Ok(Tenants::new(disk, catalogue(settings), Arc::new(SystemClock), Arc::new(SystemEntropy))?)
}

/// The guided service over files that are open.
pub(crate) fn guided(settings: &Settings, files: SessionFiles) -> Guided {
    Guided::new(files, catalogue(settings), Arc::new(SystemClock), Arc::new(SystemEntropy))
}

/// The sessions of the data directory, which is made if it does not exist.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_files(settings: &Settings) -> Result<SessionFiles, Failure> {
    Ok(SessionFiles::open(Arc::new(open_disk(settings)?))?)
}

/// The sessions of the data directory, for looking at. A directory that does not exist has none, and
/// looking does not create it.
///
/// # Errors
/// As [`open_guided`].
pub(crate) fn open_files_to_read(settings: &Settings) -> Result<SessionFiles, Failure> {
    let disk: Arc<dyn Disk> = match settings.data_dir.value.try_exists() {
        Ok(false) => Arc::new(MemoryDisk::default()),
        // Also if that cannot be found out: opening it says why.
        Ok(true) | Err(_) => Arc::new(open_disk(settings)?),
    };
    Ok(SessionFiles::open(disk)?)
}

/// The workflows there are.
pub(crate) fn catalogue(settings: &Settings) -> Catalogue {
    let data_dir = &settings.data_dir.value;
    Catalogue::new(CatalogueOptions {
        user_dir: settings.user_workflows.clone(),
        configured_dirs: settings.workflow_dirs.value.clone(),
        sources_file: Some(data_dir.join("sources.toml")),
        git_cache: Some(data_dir.join("cache").join("git")),
    })
}

/// Lets runs guide agents. Manifests and libraries are found in the folders of workflows, a later one first, as for workflows.
pub(crate) fn walk(runs: &host::runs::Runs, settings: &Settings, tenants: Arc<Tenants>) {
    let data_dir = &settings.data_dir.value;
    let workspaces = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.clone()).join("workspaces");
    runs.guide_agents(host::path::GuidedNodes::new(host::path::Options {
        tenants,
        keys: runs.session_keys(),
        places: settings.workflow_dirs.value.iter().rev().cloned().collect(),
        workspaces,
        clock: Arc::new(SystemClock),
        gate: None,
    }));
}

fn open_disk(settings: &Settings) -> Result<RealDisk, Failure> {
    let path = &settings.data_dir.value;
    RealDisk::open(path).map_err(|cause| {
        let path = path.display().to_string();
        let error = StoreError::Disk { doing: "open", path: path.clone(), cause };
        match error.code() {
            // A file in the place of the directory is for the caller to mend, and no fault of the disk.
            StoreErrorCode::StoreIo => Envelope::new(error.code(), error.envelope().message())
                .suggest("Check --data-dir and INTERLOCK_HOME: the data directory is a directory of its own.")
                .detail("file", path)
                .into(),
            _ => error.into(),
        }
    })
}
