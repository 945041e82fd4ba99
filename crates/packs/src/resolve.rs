//! The dependency resolver.
//!
//! It selects one version per pack, the highest that satisfies all dependents, and backtracks to the next lower one if
//! needed. The result does not depend on the order of requests. Pre-releases are selected only for ranges that name
//! one, and yanked versions only by a lockfile or an override.

mod cycle;
mod locked;
mod solve;
mod sources;

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::json;

pub use locked::{check_lock, needed_first};
pub use sources::{Candidate, ListedVersion, Source, SourceError, Sources};

use crate::error::{PackError, PackErrorCode};
use crate::lock::{LockedPack, Lockfile};
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// The maximum number of attempted choices.
pub const MAX_CHOICES: usize = 5_000;
/// The maximum number of packs in a resolution.
pub const MAX_PACKS: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub wanted: BTreeMap<PackName, Range>,
    /// Forced versions.
    pub overrides: BTreeMap<PackName, Version>,
    /// Whether to use only local sources.
    pub offline: bool,
}

/// Resolves a request.
///
/// # Errors
/// `pack_not_found`, `pack_version_not_found`, `pack_dependency_conflict`, `pack_dependency_cycle` or
/// `pack_registry_unreachable`.
pub fn resolve(request: &Request, sources: &Sources<'_>, now: Timestamp) -> Result<Lockfile, PackError> {
    let chosen = solve::solve(request, sources)?;
    let graph = chosen.iter().map(|(name, candidate)| (name, candidate.dependencies.keys()));
    if let Some(cycle) = cycle::first(graph) {
        return Err(cycle_error(&cycle));
    }
    let mut lock = Lockfile::new(now);
    lock.registry = sources.first_url();
    lock.fallback_registries = sources.fallback_urls();
    lock.overrides = request
        .overrides
        .iter()
        .filter(|(name, _)| chosen.contains_key(*name))
        .map(|(name, version)| (name.clone(), version.clone()))
        .collect();
    lock.packs = chosen
        .into_iter()
        .map(|(name, candidate)| LockedPack {
            name,
            version: candidate.version,
            integrity: candidate.integrity,
            resolved: candidate.resolved,
            signature: candidate.signature,
            dependencies: candidate
                .dependencies
                .into_iter()
                .map(|(name, range)| (name, range.as_str().to_owned()))
                .collect(),
            peer_dependencies: candidate.peer_dependencies,
        })
        .collect();
    Ok(lock)
}

/// The error for a cycle; its first pack is repeated at the end.
fn cycle_error(cycle: &[&PackName]) -> PackError {
    let names: Vec<&str> = cycle.iter().map(|name| name.as_str()).collect();
    let message = format!("dependency cycle: {}", names.join(" -> "));
    PackError::new(PackErrorCode::DependencyCycle, message).detail("cycle", json!(names))
}
