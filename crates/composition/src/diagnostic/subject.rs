//! Diagnostic subjects.

use std::fmt;

use serde::Serialize;

use crate::vocabulary::{ContributionKind, Key, OwnerKind, wire_names};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectOwner {
    /// The host: the input as a whole, and the policy.
    Host,
    /// A module instance.
    Module,
    /// A built-in of the product.
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

/// An owner, a contribution or a policy operation, as far as its fields are readable.
///
/// The fields are in canonical JSON order, so serializing gives canonical bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject<'i> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contribution_kind: Option<ContributionKind>,
    /// The canonical key, if owner and local id are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key<'i>>,
    /// The declared id, valid or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_id: Option<&'i str>,
    /// The declared owner id, valid or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<&'i str>,
    pub owner_kind: SubjectOwner,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_id: Option<&'i str>,
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

    /// Whether it sorts before `other`, which has the same key.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        self != other && self.canonical() < other.canonical()
    }

    /// The start of the canonical JSON, without serializing: kinds and keys need no escaping and sort as they are, and
    /// a subject without either sorts last.
    fn outline(&self) -> (bool, &'static str, bool, Option<Key<'i>>) {
        let kind = self.contribution_kind;
        (kind.is_none(), kind.map_or("", ContributionKind::as_str), self.key.is_none(), self.key)
    }

    fn canonical(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a subject has only strings, which always serialize")
    }

    pub(crate) const fn operation(policy_id: &'i str) -> Self {
        Self { policy_id: Some(policy_id), ..Self::HOST }
    }
}

/// Sorts by canonical JSON and removes duplicates.
pub(super) fn normalise(subjects: &mut Vec<Subject<'_>>) {
    subjects.sort_by(|a, b| a.outline().cmp(&b.outline()));
    subjects.dedup();
    // The outline usually decides; only equal outlines are serialized.
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
