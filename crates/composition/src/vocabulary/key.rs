//! Canonical contribution keys.

use std::cmp::Ordering;
use std::fmt;

use super::ContributionKind;
use crate::grammar;

/// A canonical contribution key, `ownerId:kind/localId`.
///
/// It borrows its three parts and is only joined for output, so composing allocates nothing per key. The order is the
/// byte order of the *written* key, which is not the order of the parts: `-` and digits sort before `:`, so
/// `lab-2:routes/home` comes before `lab:routes/home`.
///
/// ```
/// use composition::{ContributionKind, Key};
///
/// let key = Key::parse("data-lab-prod:routes/home").unwrap();
/// assert_eq!(key.kind(), ContributionKind::Routes);
/// assert_eq!(key.to_string(), "data-lab-prod:routes/home");
/// assert!(Key::parse("lab-2:routes/home") < Key::parse("lab:routes/home"));
/// assert!(Key::parse("/data-lab").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'i> {
    owner_id: &'i str,
    kind: ContributionKind,
    local_id: &'i str,
}

impl<'i> Key<'i> {
    pub fn parse(text: &'i str) -> Option<Self> {
        let (owner_id, rest) = text.split_once(':')?;
        let (kind, local_id) = rest.split_once('/')?;
        let kind = ContributionKind::parse(kind)?;
        (grammar::is_name(owner_id) && grammar::is_name(local_id)).then_some(Self {
            owner_id,
            kind,
            local_id,
        })
    }

    /// The key of a contribution with valid names.
    pub(crate) const fn from_parts(owner_id: &'i str, kind: ContributionKind, local_id: &'i str) -> Self {
        Self { owner_id, kind, local_id }
    }

    /// The owner id: a module instance or a built-in.
    pub const fn owner_id(&self) -> &'i str {
        self.owner_id
    }

    pub const fn kind(&self) -> ContributionKind {
        self.kind
    }

    /// The id declared by the owner.
    pub const fn local_id(&self) -> &'i str {
        self.local_id
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_before_colon(self.owner_id, other.owner_id)
            .then_with(|| self.kind.as_str().cmp(other.kind.as_str()))
            .then_with(|| self.local_id.cmp(other.local_id))
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares two ids as if followed by `:`.
///
/// Kinds do not need this: none is a prefix of another.
pub(crate) fn compare_before_colon(a: &str, b: &str) -> Ordering {
    let shared = a.len().min(b.len());
    a.as_bytes()[..shared].cmp(&b.as_bytes()[..shared]).then_with(|| {
        let next = |id: &str| id.as_bytes().get(shared).copied().unwrap_or(b':');
        next(a).cmp(&next(b))
    })
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [self.owner_id, ":", self.kind.as_str(), "/", self.local_id] {
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl serde::Serialize for Key<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_sort_as_they_are_written(
            parts in prop::collection::vec(("[a-c0-2][a-c0-2-]{0,3}", 0..9_usize, "[a-c0-2][a-c0-2-]{0,3}"), 2)
        ) {
            let keys: Vec<_> =
                parts.iter().map(|(owner, kind, id)| Key::from_parts(owner, ContributionKind::ALL[*kind], id)).collect();
            prop_assert_eq!(keys[0].cmp(&keys[1]), keys[0].to_string().cmp(&keys[1].to_string()));
            let written = keys[0].to_string();
            prop_assert_eq!(Key::parse(&written), Some(keys[0]));
        }
    }
}
