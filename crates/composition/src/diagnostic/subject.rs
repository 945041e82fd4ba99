//! Whom a diagnostic is about.

use std::fmt;

use serde::Serialize;

use crate::vocabulary::{ContributionKind, Key, OwnerKind, wire_names};

/// Who owns a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectOwner {
    /// The host: the input as a whole, and the policy.
    Host,
    /// A module instance.
    Module,
    /// A part of the product.
    Builtin,
}

wire_names!(SubjectOwner { Host => "host", Module => "module", Builtin => "builtin" });

impl From<OwnerKind> for SubjectOwner {
    fn from(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::Builtin => Self::Builtin,
            OwnerKind::Module => Self::Module,
        }
    }
}

/// An owner, a contribution or a policy operation, as far as its fields could be read.
///
/// The fields stand in the order of canonical JSON, so that serialising gives canonical bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject<'i> {
    /// What the contribution is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contribution_kind: Option<ContributionKind>,
    /// Its canonical key, when owner and local id are grammatical.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key<'i>>,
    /// Its id as declared, grammatical or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_id: Option<&'i str>,
    /// The owner's id as declared, grammatical or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<&'i str>,
    /// Host, module or built-in.
    pub owner_kind: SubjectOwner,
    /// The owner's package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_id: Option<&'i str>,
    /// That package's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_version: Option<&'i str>,
    /// The policy operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_id: Option<&'i str>,
}

impl<'i> Subject<'i> {
    /// The input or the policy as a whole.
    pub(crate) const HOST: Self = Self {
        contribution_kind: None,
        key: None,
        local_id: None,
        owner_id: None,
        owner_kind: SubjectOwner::Host,
        package_id: None,
        package_version: None,
        policy_id: None,
    };

    /// Whether it sorts before `other`, which is about the same key.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        self != other && self.canonical() < other.canonical()
    }

    /// The front of the canonical JSON, as far as it needs no writing: kinds and keys have nothing
    /// to escape and sort as they stand, and a subject without either comes behind those that have one.
    fn outline(&self) -> (bool, &'static str, bool, Option<Key<'i>>) {
        let kind = self.contribution_kind;
        (kind.is_none(), kind.map_or("", ContributionKind::as_str), self.key.is_none(), self.key)
    }

    fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a subject is plain strings, which always serialise")
    }

    /// One policy operation.
    pub(crate) const fn operation(policy_id: &'i str) -> Self {
        Self { policy_id: Some(policy_id), ..Self::HOST }
    }
}

/// Sorts by canonical JSON and drops what is there twice.
pub(super) fn normalise(subjects: &mut Vec<Subject<'_>>) {
    subjects.sort_by(|a, b| a.outline().cmp(&b.outline()));
    subjects.dedup();
    // The outline decides nearly always; only what it cannot tell apart is written out.
    for alike in subjects.chunk_by_mut(|a, b| a.outline() == b.outline()) {
        if alike.len() > 1 {
            alike.sort_by_cached_key(Subject::canonical);
        }
    }
    subjects.dedup();
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy_id) = self.policy_id {
            return write!(f, "policy operation {policy_id}");
        }
        match (self.key, self.contribution_kind) {
            (Some(key), _) => write!(f, "{key} ({}", self.owner_kind)?,
            (None, Some(kind)) => {
                write!(f, "{kind}")?;
                if let Some(local_id) = self.local_id {
                    write!(f, " {local_id:?}")?;
                }
                write!(f, " ({}", self.owner_kind)?;
                if let Some(owner_id) = self.owner_id {
                    write!(f, " {owner_id:?}")?;
                }
            }
            (None, None) => {
                return match self.owner_id {
                    Some(owner_id) => write!(f, "{} {owner_id:?}", self.owner_kind),
                    None if self.owner_kind == SubjectOwner::Host => f.write_str("the input"),
                    None => write!(f, "a {} without an id", self.owner_kind),
                };
            }
        }
        if let Some(package_id) = self.package_id {
            write!(f, ", {package_id}")?;
            if let Some(version) = self.package_version {
                write!(f, "@{version}")?;
            }
        }
        f.write_str(")")
    }
}
