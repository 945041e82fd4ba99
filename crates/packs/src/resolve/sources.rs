//! Sources of versions.

use std::collections::BTreeMap;

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::name::PackName;
use crate::range::Range;
use crate::signature::LockedSignature;
use crate::version::Version;

/// A version in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    pub version: Version,
    pub yanked: bool,
}

/// The details of a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub version: Version,
    pub integrity: Integrity,
    /// The download URL.
    pub resolved: Option<String>,
    pub signature: Option<LockedSignature>,
    pub dependencies: BTreeMap<PackName, Range>,
    /// Required host capabilities.
    pub peer_dependencies: BTreeMap<String, String>,
}

/// Why a source has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("registry unreachable: {0}")]
    Unreachable(String),
    /// It requires a key or is not a registry. No other source is used instead, because another owner may use a private
    /// name there.
    #[error("the registry rejected the request: {0}")]
    Refused(String),
    /// The response is invalid. Ignoring it could install a pack without its dependencies.
    #[error("{0}")]
    Unusable(String),
}

/// A source of pack versions.
///
/// # Contract
///
/// * Results do not change during a resolution.
/// * An unknown pack has no versions.
/// * Listing is one request; only relevant versions are read.
pub trait Source {
    /// The versions of a pack, in any order.
    ///
    /// # Errors
    /// The source is unreachable.
    fn versions(&self, name: &PackName) -> Result<Vec<ListedVersion>, SourceError>;

    /// The details of a listed version.
    ///
    /// # Errors
    /// The source is unreachable, or its response is invalid.
    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError>;

    /// Its URL, if any.
    fn url(&self) -> Option<String> {
        None
    }

    /// Whether it is on the network.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Sources in order. The first that has a pack is used for it.
pub struct Sources<'s>(pub Vec<&'s dyn Source>);

/// The versions of a pack, highest first, and their source.
pub(super) struct PackVersions<'s> {
    pub(super) source: &'s dyn Source,
    pub(super) listed: Vec<ListedVersion>,
}

impl<'s> Sources<'s> {
    /// The versions of a pack.
    ///
    /// # Errors
    /// `pack_not_found` if no source has it; `pack_registry_unreachable` if no source has it and one was unreachable,
    /// or if one rejected the request before another had it.
    pub(super) fn versions(&self, name: &PackName, offline: bool) -> Result<PackVersions<'s>, PackError> {
        let mut unreachable = None;
        for source in self.0.iter().filter(|source| !(offline && source.is_remote())) {
            match source.versions(name) {
                Ok(listed) if listed.is_empty() => {}
                Ok(mut listed) => {
                    listed.sort_by(|left, right| right.version.cmp(&left.version));
                    return Ok(PackVersions { source: *source, listed });
                }
                Err(error @ SourceError::Unreachable(_)) => unreachable = unreachable.or(Some(error)),
                Err(error @ (SourceError::Refused(_) | SourceError::Unusable(_))) => {
                    return Err(PackError::new(PackErrorCode::RegistryUnreachable, error.to_string())
                        .detail("packName", name.as_str()));
                }
            }
        }
        Err(match unreachable {
            Some(error) => PackError::new(PackErrorCode::RegistryUnreachable, error.to_string()),
            None => PackError::new(PackErrorCode::NotFound, format!("no registry has {name}")),
        }
        .detail("packName", name.as_str()))
    }

    pub(super) fn first_url(&self) -> Option<String> {
        self.0.first().and_then(|source| source.url())
    }

    pub(super) fn fallback_urls(&self) -> Vec<String> {
        self.0.iter().skip(1).filter_map(|source| source.url()).collect()
    }
}

impl PackVersions<'_> {
    /// The details of a version.
    ///
    /// # Errors
    /// `pack_version_not_found` if the registry's response is invalid, `pack_registry_unreachable`.
    pub(super) fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, PackError> {
        self.source.candidate(name, version).map_err(|error| {
            let refused = match error {
                SourceError::Unreachable(_) | SourceError::Refused(_) => {
                    PackError::new(PackErrorCode::RegistryUnreachable, error.to_string())
                }
                SourceError::Unusable(reason) => PackError::new(
                    PackErrorCode::VersionNotFound,
                    format!("{name}@{version} cannot be used: {reason}"),
                ),
            };
            refused.detail("packName", name.as_str())
        })
    }
}
