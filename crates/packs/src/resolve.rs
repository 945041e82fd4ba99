//! From what is wanted to which versions: the resolver.
//!
//! One version of every pack is chosen, the highest that all who need the pack accept; where a choice leads nowhere the next lower one is
//! tried. The result does not depend on the order in which anything was asked. Versions with a pre-release are
//! chosen only for ranges that name one, and yanked versions only when a lockfile or an override names them.

mod cycle;
mod locked;
mod solve;
mod sources;

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::json;

pub use locked::{check_lock, needed_first};
pub use sources::{Candidate, Listed, Source, SourceError, Sources};

use crate::error::{PackError, PackErrorCode};
use crate::lock::{LockedPack, Lockfile};
use crate::name::PackName;
use crate::range::Range;
use crate::version::Version;

/// The most choices that are tried before the resolver gives up.
pub const MAX_CHOICES: usize = 5_000;
/// The most packs of one resolution.
pub const MAX_PACKS: usize = 1_000;

/// What is to be resolved.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The packs that are wanted.
    pub wanted: BTreeMap<PackName, Range>,
    /// Versions that are forced.
    pub overrides: BTreeMap<PackName, Version>,
    /// Whether only sources on this machine are asked.
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
        return Err(circle(&cycle));
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

/// Packs that need each other, the first of them again at the end.
fn circle(cycle: &[&PackName]) -> PackError {
    let names: Vec<&str> = cycle.iter().map(|name| name.as_str()).collect();
    let message = format!("packs need each other in a circle: {}", names.join(" -> "));
    PackError::new(PackErrorCode::DependencyCycle, message).detail("cycle", json!(names))
}
