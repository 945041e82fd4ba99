//! Renderer claims: `family:name.parts`.

use crate::vocabulary::{RendererKind, wire_names};

/// The maximum length of a claim, in bytes.
pub const MAX_CLAIM_BYTES: usize = 256;

/// The claims of ordinary text: reserved for the product and not overridable.
pub const PROTECTED_CLAIMS: [&str; 4] =
    ["message:assistant", "message:assistant.text", "message:user", "message:user.text"];

/// Why a claim is invalid. The first fault in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFault {
    Empty,
    /// Longer than [`MAX_CLAIM_BYTES`].
    TooLong,
    /// It does not start with `message:`, `tool:` or `activity:`.
    UnknownFamily,
    /// The family belongs to another collection.
    ClaimKindMismatch,
    /// The name after the family is invalid.
    InvalidName,
}

wire_names!(ClaimFault {
    Empty => "empty",
    TooLong => "too-long",
    UnknownFamily => "unknown-family",
    ClaimKindMismatch => "claim-kind-mismatch",
    InvalidName => "invalid-name",
});

/// The fault of `claim` in the collection of `kind`, if any.
pub fn claim_fault(claim: &str, kind: RendererKind) -> Option<ClaimFault> {
    if claim.is_empty() {
        return Some(ClaimFault::Empty);
    }
    if claim.len() > MAX_CLAIM_BYTES {
        return Some(ClaimFault::TooLong);
    }
    let family = claim.split_once(':').and_then(|(family, name)| Some((RendererKind::parse(family)?, name)));
    let Some((family, name)) = family else { return Some(ClaimFault::UnknownFamily) };
    if family != kind {
        return Some(ClaimFault::ClaimKindMismatch);
    }
    (!name.split('.').all(is_part)).then_some(ClaimFault::InvalidName)
}

/// Whether `claim` is ordinary user or assistant text.
pub fn is_protected(claim: &str) -> bool {
    PROTECTED_CLAIMS.contains(&claim)
}

fn is_part(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_first_fault_by_precedence() {
        use ClaimFault as F;
        let long = format!("tool:{}", "a".repeat(MAX_CLAIM_BYTES));
        let cases = [
            ("tool:web_search", None),
            ("tool:Data-Lab.query.v2", None),
            ("", Some(F::Empty)),
            (long.as_str(), Some(F::TooLong)),
            ("query", Some(F::UnknownFamily)),
            ("widget:query", Some(F::UnknownFamily)),
            ("Tool:query", Some(F::UnknownFamily)),
            ("message:", Some(F::ClaimKindMismatch)),
            ("tool:", Some(F::InvalidName)),
            ("tool:a..b", Some(F::InvalidName)),
            ("tool:_a", Some(F::InvalidName)),
            ("tool:a:b", Some(F::InvalidName)),
            ("tool:a b", Some(F::InvalidName)),
        ];
        for (claim, expected) in cases {
            assert_eq!(claim_fault(claim, RendererKind::Tool), expected, "{claim}");
        }
    }
}
