//! Going by a lockfile, to the letter.

use std::collections::BTreeMap;

use super::sources::Sources;
use crate::error::{PackError, PackErrorCode};
use crate::lock::Lockfile;
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// Holds a lockfile to itself and to the sources: everything that a locked pack needs is locked in a version that it accepts, every
/// version is there, and its bytes are the locked ones. Yanked versions are fine: they are pinned.
///
/// # Errors
/// `pack_lockfile_incomplete`, `pack_version_not_found`, `pack_integrity_mismatch`, `pack_dependency_conflict`, or those of the sources.
pub fn check_lock(lock: &Lockfile, sources: &Sources<'_>, offline: bool) -> Result<(), PackError> {
    let mut by_name: BTreeMap<&PackName, Vec<&Version>> = BTreeMap::new();
    for pack in &lock.packs {
        by_name.entry(&pack.name).or_default().push(&pack.version);
    }
    for pack in &lock.packs {
        for (name, text) in &pack.dependencies {
            let by = format!("{}@{}", pack.name, pack.version);
            let Some(there) = by_name.get(name) else {
                let message = format!("{by} needs {name}, which is not locked");
                return Err(PackError::new(PackErrorCode::LockfileIncomplete, message)
                    .detail("packName", name.as_str()));
            };
            let range = Range::parse(text).map_err(|error| {
                PackError::new(PackErrorCode::LockfileInvalid, format!("{by} needs {name}: {error}"))
            })?;
            let forced = lock.overrides.contains_key(name);
            if !forced && !there.iter().any(|version| range.matches(version)) {
                let message = format!("{by} needs {name} in {range}, and another version is locked");
                return Err(PackError::new(PackErrorCode::DependencyConflict, message)
                    .detail("packName", name.as_str()));
            }
        }
        let found = sources.versions(&pack.name, offline)?;
        let Some(candidate) = found.iter().find(|candidate| candidate.version == pack.version) else {
            let message = format!("{} {} is locked, and no registry has it", pack.name, pack.version);
            return Err(PackError::new(PackErrorCode::VersionNotFound, message)
                .detail("packName", pack.name.as_str()));
        };
        if !candidate.integrity.is(pack.integrity) {
            let message = format!(
                "{}@{} is {}, and {} is locked",
                pack.name, pack.version, candidate.integrity, pack.integrity
            );
            return Err(PackError::new(PackErrorCode::IntegrityMismatch, message)
                .detail("packName", pack.name.as_str()));
        }
    }
    Ok(())
}
