//! Checks a lockfile.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::cycle;
use super::sources::Sources;
use crate::error::{PackError, PackErrorCode};
use crate::lock::{LockedPack, Lockfile};
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// Checks a lockfile for consistency and against the sources: all dependencies, as locked and as in the registry, are
/// locked in an accepted version, every version exists, and the digests match. Yanked versions are allowed because they
/// are pinned.
///
/// The registry only reports digests. Verify downloaded bytes with [`LockedPack::verify`].
///
/// # Errors
/// `pack_lockfile_incomplete`, `pack_version_not_found`, `pack_integrity_mismatch`, `pack_dependency_conflict`, or
/// source errors.
pub fn check_lock(lock: &Lockfile, sources: &Sources<'_>, offline: bool) -> Result<(), PackError> {
    let mut by_name: BTreeMap<&PackName, Vec<&Version>> = BTreeMap::new();
    for pack in &lock.packs {
        by_name.entry(&pack.name).or_default().push(&pack.version);
    }
    // Completeness is checked without any source.
    for pack in &lock.packs {
        for (name, text) in &pack.dependencies {
            let range = Range::parse(text).map_err(|error| {
                let by = format!("{}@{}", pack.name, pack.version);
                PackError::new(PackErrorCode::LockfileInvalid, format!("{by} requires {name}: {error}"))
            })?;
            is_locked(lock, &by_name, pack, name, &range)?;
        }
    }
    for pack in &lock.packs {
        let found = sources.versions(&pack.name, offline)?;
        if !found.listed.iter().any(|listed| listed.version == pack.version) {
            let message = format!("{} {} is locked, but no registry has it", pack.name, pack.version);
            return Err(PackError::new(PackErrorCode::VersionNotFound, message)
                .detail("packName", pack.name.as_str()));
        }
        let candidate = found.candidate(&pack.name, &pack.version)?;
        if !candidate.integrity.is(pack.integrity) {
            return Err(pack.digest_mismatch(candidate.integrity));
        }
        for (name, range) in &candidate.dependencies {
            is_locked(lock, &by_name, pack, name, range)?;
        }
    }
    Ok(())
}

/// Whether a dependency is locked in an accepted version.
fn is_locked(
    lock: &Lockfile,
    by_name: &BTreeMap<&PackName, Vec<&Version>>,
    pack: &LockedPack,
    name: &PackName,
    range: &Range,
) -> Result<(), PackError> {
    let by = format!("{}@{}", pack.name, pack.version);
    let Some(there) = by_name.get(name) else {
        let message = format!("{by} requires {name}, which is not locked");
        return Err(
            PackError::new(PackErrorCode::LockfileIncomplete, message).detail("packName", name.as_str())
        );
    };
    let forced = lock.overrides.contains_key(name);
    if forced || there.iter().any(|version| range.matches(version)) {
        return Ok(());
    }
    let message = format!("{by} requires {name} in {range}, but another version is locked");
    Err(PackError::new(PackErrorCode::DependencyConflict, message)
        .detail("packName", name.as_str())
        .detail("conflictingRanges", json!([range.as_str()])))
}

/// The locked packs, dependencies first.
///
/// # Errors
/// `pack_dependency_cycle`.
pub fn needed_first(lock: &Lockfile) -> Result<Vec<&LockedPack>, PackError> {
    let mut needs: BTreeMap<&PackName, BTreeSet<&PackName>> = BTreeMap::new();
    for pack in &lock.packs {
        needs.entry(&pack.name).or_default().extend(pack.dependencies.keys());
    }
    if let Some(cycle) = cycle::first(needs.iter().map(|(name, needs)| (*name, needs.iter().copied()))) {
        return Err(super::cycle_error(&cycle));
    }
    let mut rank: BTreeMap<&PackName, usize> = BTreeMap::new();
    let mut waiting: Vec<(&PackName, bool)> = needs.keys().rev().map(|name| (*name, false)).collect();
    while let Some((name, entered)) = waiting.pop() {
        if rank.contains_key(name) {
            continue;
        }
        if entered {
            rank.insert(name, rank.len());
            continue;
        }
        waiting.push((name, true));
        let first = needs.get(name).into_iter().flatten().rev();
        waiting.extend(first.filter(|name| needs.contains_key(**name)).map(|name| (*name, false)));
    }
    let mut ordered: Vec<&LockedPack> = lock.packs.iter().collect();
    ordered.sort_by_key(|pack| (rank.get(&pack.name).copied(), pack.version.clone()));
    Ok(ordered)
}
