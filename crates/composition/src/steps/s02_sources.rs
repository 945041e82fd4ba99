//! Step 2: normalize built-ins and modules to sources.

use std::sync::Arc;

use super::s01_shape::{PackageField, SourceShape};
use crate::composition::RuntimeSummary;
use crate::diagnostic::Subject;
use crate::vocabulary::{Owner, OwnerKind};

/// A built-in set or a module instance.
///
/// Built-in sets with equal owners need no merging: their contributions have the same owner.
pub(crate) struct Source<'i> {
    pub(crate) kind: OwnerKind,
    pub(crate) subject: Subject<'i>,
    pub(crate) package_id: PackageField<'i>,
    pub(crate) package_version: PackageField<'i>,
    /// The result of step 3; always `None` for a built-in.
    pub(crate) runtime: Option<Arc<RuntimeSummary<'i>>>,
}

impl<'i> Source<'i> {
    /// The owner, which every source has after barrier A.
    pub(crate) fn owner(&self) -> Owner<'i> {
        Owner {
            owner_kind: self.kind,
            owner_id: self.subject.owner_id.unwrap_or_default(),
            package_id: self.package_id.text(),
            package_version: self.package_version.text(),
        }
    }
}

impl<'i> From<&SourceShape<'i>> for Source<'i> {
    fn from(shape: &SourceShape<'i>) -> Self {
        Self {
            kind: shape.kind,
            subject: shape.subject,
            package_id: shape.package_id,
            package_version: shape.package_version,
            runtime: None,
        }
    }
}

/// All sources in one list.
pub(crate) fn normalise<'i>(shapes: &[SourceShape<'i>]) -> Vec<Source<'i>> {
    shapes.iter().map(Source::from).collect()
}
