//! Step 6: a missing policy is empty.

use super::s01_shape::{Operation, PolicyDraft};

/// The operations to apply.
pub(crate) fn normalise<'i>(policy: PolicyDraft<'i>) -> Vec<Operation<'i>> {
    policy.operations.unwrap_or_default()
}
