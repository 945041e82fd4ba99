//! Step 6: an omitted policy is the empty one.

use super::s01_shape::{Operation, PolicyDraft};

/// The operations to carry out.
pub(crate) fn normalise<'i>(policy: PolicyDraft<'i>) -> Vec<Operation<'i>> {
    policy.operations.unwrap_or_default()
}
