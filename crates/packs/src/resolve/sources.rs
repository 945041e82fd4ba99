//! Where versions come from.

use std::collections::BTreeMap;

use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::name::PackName;
use crate::range::Range;
use crate::signature::LockedSignature;
use crate::version::Version;

/// A version that can be chosen.
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
    /// Whether it was withdrawn.
    pub yanked: bool,
}

/// Why a source has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not answer.
    #[error("the registry does not answer: {0}")]
    Unreachable(String),
}

/// Somebody who knows versions of packs.
///
/// # Contract
/// * The same question has the same answer while a resolution lasts.
/// * A pack that is not there has no versions.
pub trait Source {
    /// The versions of a pack, in any order.
    ///
    /// # Errors
    /// The source cannot be asked.
    fn versions(&self, name: &PackName) -> Result<Vec<Candidate>, SourceError>;

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

impl Sources<'_> {
    /// The versions of a pack.
    ///
    /// # Errors
    /// `pack_not_found` when nobody has it, `pack_registry_unreachable` when nobody has it and somebody could not be asked.
    pub(super) fn versions(&self, name: &PackName, offline: bool) -> Result<Vec<Candidate>, PackError> {
        let mut unreachable = None;
        for source in self.0.iter().filter(|source| !(offline && source.is_remote())) {
            match source.versions(name) {
                Ok(found) if found.is_empty() => {}
                Ok(mut found) => {
                    found.sort_by(|left, right| right.version.cmp(&left.version));
                    return Ok(found);
                }
                Err(error) => unreachable = unreachable.or(Some(error)),
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
