//! Where versions come from.

use std::collections::BTreeMap;

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::name::PackName;
use crate::range::Range;
use crate::signature::LockedSignature;
use crate::version::Version;

/// A version that a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The version.
    pub version: Version,
    /// Whether it was withdrawn from ranges.
    pub yanked: bool,
}

/// What is known of a version that is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The version.
    pub version: Version,
    /// Its bytes.
    pub integrity: Integrity,
    /// Where they are.
    pub resolved: Option<String>,
    /// Who signed them.
    pub signature: Option<LockedSignature>,
    /// What it needs.
    pub dependencies: BTreeMap<PackName, Range>,
    /// What it needs of its host.
    pub peer_dependencies: BTreeMap<String, String>,
}

/// Why a source has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not answer.
    #[error("a registry cannot be asked: {0}")]
    Unreachable(String),
    /// It answers, and gives nothing: it wants a key, or is no registry. Nobody else is asked in its place, since what is private
    /// there could be somebody else's under the same name elsewhere.
    #[error("the registry refuses: {0}")]
    Refused(String),
    /// It answers, and what it says of a version cannot be gone by. Guessing would mean to install something without what it needs.
    #[error("{0}")]
    Unusable(String),
}

/// Somebody who knows versions of packs.
///
/// # Contract
/// * The same question has the same answer while a resolution lasts.
/// * A pack that is not there has no versions.
/// * Listing is one question, however many versions there are; only those that are in question are looked at.
pub trait Source {
    /// The versions of a pack, in any order.
    ///
    /// # Errors
    /// The source cannot be asked.
    fn versions(&self, name: &PackName) -> Result<Vec<Listed>, SourceError>;

    /// What is known of a version that was listed.
    ///
    /// # Errors
    /// The source cannot be asked, or what it says cannot be used.
    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError>;

    /// Its address, where it has one.
    fn url(&self) -> Option<String> {
        None
    }

    /// Whether asking it leaves this machine.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Sources in the order in which they are asked. The first that has the pack answers for it.
pub struct Sources<'s>(pub Vec<&'s dyn Source>);

/// The versions of a pack, highest first, and who has them.
pub(super) struct Found<'s> {
    pub(super) source: &'s dyn Source,
    pub(super) listed: Vec<Listed>,
}

impl<'s> Sources<'s> {
    /// The versions of a pack.
    ///
    /// # Errors
    /// `pack_not_found` when nobody has it, `pack_registry_unreachable` when nobody has it and somebody could not be asked, or when
    /// somebody refuses before one is found who has it.
    pub(super) fn versions(&self, name: &PackName, offline: bool) -> Result<Found<'s>, PackError> {
        let mut unreachable = None;
        for source in self.0.iter().filter(|source| !(offline && source.is_remote())) {
            match source.versions(name) {
                Ok(listed) if listed.is_empty() => {}
                Ok(mut listed) => {
                    listed.sort_by(|left, right| right.version.cmp(&left.version));
                    return Ok(Found { source: *source, listed });
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
            None => PackError::new(PackErrorCode::NotFound, format!("no registry that was asked has {name}")),
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

impl Found<'_> {
    /// What is known of a version.
    ///
    /// # Errors
    /// `pack_version_not_found` when what its registry says cannot be used, `pack_registry_unreachable`.
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
